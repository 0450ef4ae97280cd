"""The memory of a tensor from outside that Python reads is watched, wherever and through whatever it is read."""

import copy
import functools
import inspect
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.jit.test_read_values import WAYS, x
from tests.stress.tripwire import Tripwire
from workbench.jit.values.raw_arrays import raw_arrays_told

pytestmark = pytest.mark.filterwarnings("ignore::workbench.framework.notice.Notice")


def _second(tensor: Any) -> float:
    return float(tensor.array[1])


class _Holder:
    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def second(self) -> float:
        return float(operator.attrgetter("array")(self.tensor)[1])


HELPERS: dict[str, Callable[[Any], Callable[[], float]]] = {
    "a function that is handed the tensor": lambda t: lambda: _second(t),
    "a function in a list": lambda t: functools.partial(lambda functions: functions[0](t), [_second]),
    "a method that asks for it by name": lambda t: _Holder(t).second,
    "getattr": lambda t: lambda: float(getattr(t, "arr" + "ay")[1]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("helper", HELPERS.values(), ids=HELPERS)
def test_the_memory_of_a_tensor_is_watched_wherever_it_is_read(way: str, helper: Callable[..., Any]) -> None:
    t = wb.to_tensor([1.0, 2.0])
    read = helper(t)
    recorded = WAYS[way](lambda x: x * read())
    assert recorded(x()).tolist() == recorded(x()).tolist() == [2.0, 4.0]
    t.set_value(np.array([1.0, 5.0], np.float32))
    assert recorded(x()).tolist() == [5.0, 10.0]
    assert recorded.captures == 2


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", [2, 10_000])
def test_what_a_helper_writes_into_memory_is_refused(way: str, size: int) -> None:
    t = wb.zeros([size])

    def count(tensor: Any) -> None:
        tensor.array[0] += 1

    def assign(tensor: Any) -> None:
        tensor.array = np.ones(size, np.float32)

    for helper in (count, assign):
        recorded = WAYS[way](lambda x, helper=helper: (helper(t), x * 2.0)[1])
        with pytest.raises(wb.jit.NeedsValue, match=r"read by Python|assignment to \.array"):
            recorded(x())


@pytest.mark.parametrize("way", WAYS)
def test_a_shallow_copy_of_a_tensor_from_outside(way: str) -> None:
    t = wb.to_tensor([2.0, 3.0])
    recorded = WAYS[way](lambda x: x * copy.copy(t))
    assert recorded(x()).tolist() == recorded(x()).tolist() == [2.0, 6.0]
    t.set_value(np.array([4.0, 5.0], np.float32))
    assert recorded(x()).tolist() == [4.0, 10.0]


def test_the_slot_is_itself_again_after_a_ctrl_c_at_any_moment() -> None:
    slot, n = inspect.getattr_static(wb.Tensor, "array"), 0
    while True:
        try:
            with Tripwire(n, ["values/raw_arrays.py"]), raw_arrays_told():
                assert inspect.getattr_static(wb.Tensor, "array") is not slot
        except KeyboardInterrupt:
            assert inspect.getattr_static(wb.Tensor, "array") is slot, n
            n += 1
        else:
            break
    assert n > 3 and inspect.getattr_static(wb.Tensor, "array") is slot


def test_the_slot_is_told_until_the_last_recording_ends() -> None:
    slot = inspect.getattr_static(wb.Tensor, "array")
    with raw_arrays_told():
        with raw_arrays_told():
            pass
        assert inspect.getattr_static(wb.Tensor, "array") is not slot
    assert inspect.getattr_static(wb.Tensor, "array") is slot


def test_the_slot_is_itself_again_when_nobody_records() -> None:
    t, slot = wb.to_tensor([1.0]), inspect.getattr_static(wb.Tensor, "array")
    recorded = wb.jit.capture(lambda x: x * float(t.array[0]))
    recorded(x())
    with pytest.raises(wb.jit.NeedsValue):
        wb.jit.capture(lambda x: x * float(x.array[0]))(x())
    assert inspect.getattr_static(wb.Tensor, "array") is slot
