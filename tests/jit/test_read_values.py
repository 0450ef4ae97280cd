"""Values of tensors from outside that Python reads: a run is for tensors that still hold them."""

import copy
import inspect
import random
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.framework.notice import Notice
from workbench.jit.values.captured_tensor import NeedsValue

pytestmark = pytest.mark.filterwarnings("ignore::workbench.framework.notice.Notice")

WAYS = {"capture": wb.jit.capture, "to_static": wb.jit.to_static}
READS: dict[str, tuple[Any, Any, Callable[[Any, Any], Any]]] = {
    "if": (True, False, lambda x, t: x * 2 if t else x * 3),
    "not": (True, False, lambda x, t: x * (1 + (not t))),
    "bool": (True, False, lambda x, t: x * bool(t)),
    "float": (2.0, 3.0, lambda x, t: x * float(t)),
    "int": (2, 3, lambda x, t: x * int(t)),
    "complex": (2.0, 3.0, lambda x, t: x * complex(t).real),
    "item": (2.0, 3.0, lambda x, t: x * t.item()),
    "item of several": ([1.0, 2.0], [1.0, 3.0], lambda x, t: x * t.item(1)),
    "tolist": ([1, 2], [1, 3], lambda x, t: x * t.tolist()[1]),
    "numpy": ([1, 2], [1, 3], lambda x, t: x * t.numpy()[1:].sum()),
    "asarray": ([1, 2], [1, 3], lambda x, t: x * int(np.asarray(t)[1])),
    "format": (2.0, 3.0, lambda x, t: x * float(f"{t:.2f}")),
    "repr": (2.0, 3.125, lambda x, t: x * len(repr(t))),
    "in": ([1, 2], [1, 3], lambda x, t: x * (1 + (2 in t))),
    "index of a list": (1, 2, lambda x, t: x * [5, 6, 7][t]),
    "range": (1, 2, lambda x, t: sum(x for _ in range(t))),
    "slice": (1, 2, lambda x, t: x[:t]),
    "shape": (1, 2, lambda x, t: wb.reshape(x, [t, -1])),
    "attribute": (1, 2, lambda x, t: wb.topk(x, t)[0]),
    "to_tensor": (2.0, 3.0, lambda x, t: x * wb.to_tensor(t)),
    "to_tensor of a list": (2.0, 3.0, lambda x, t: x * wb.to_tensor([t, t])),
    "deepcopy": (2.0, 3.0, lambda x, t: x * copy.deepcopy(t)),
    "detach": (2.0, 3.0, lambda x, t: x * float(t.detach())),
    "nonzero": ([1, 1], [0, 1], lambda x, t: x[wb.nonzero(t).reshape([-1])]),
    "mask": ([True, True], [False, True], lambda x, t: x[t]),
    "masked_select": ([True, True], [False, True], lambda x, t: wb.masked_select(x, t)),
    "unique": ([1, 1], [1, 2], lambda x, t: x * wb.unique(t).sum()),
    "large": ([1.0] * 9000, [2.0] * 9000, lambda x, t: x * float(t.numpy().sum())),
}


def x(*values: float) -> Any:
    return wb.to_tensor(list(values or (1.0, 2.0)))


def set_value(t: Any, value: Any) -> None:
    t.set_value(value)


def set_item(t: Any, value: Any) -> None:
    t[...] = value


def fill_in_place(t: Any, value: Any) -> None:
    t.copy_(wb.to_tensor(value, t.dtype))


def write_an_alias(t: Any, value: Any) -> None:
    t.detach().set_value(value)


def put(t: Any, value: Any) -> None:
    t._put(np.asarray(value, t.dtype.numpy))


WRITES = [set_value, set_item, fill_in_place, write_an_alias, put]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("reading", READS)
def test_another_value_is_another_recording(way: str, reading: str) -> None:
    before, after, function = READS[reading]
    t = wb.to_tensor(before)

    def step(x: Any) -> Any:
        return function(x, t)

    recorded = WAYS[way](step)
    for value, captures in [(before, 1), (after, 2), (before, 2), (after, 2)]:
        t.set_value(np.asarray(value, t.dtype.numpy))
        for _ in range(2):
            assert np.array_equal(recorded(x()).numpy(), step(x()).numpy())
        assert recorded.captures == captures


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("write", WRITES, ids=lambda f: f.__name__)
@pytest.mark.parametrize("reading", ["if", "float", "detach", "numpy", "large"])
def test_every_way_of_writing_is_noticed(way: str, write: Callable[..., None], reading: str) -> None:
    before, after, function = READS[reading]
    t = wb.to_tensor(before)
    recorded = WAYS[way](lambda x: function(x, t))
    recorded(x()), recorded(x())
    write(t, after)
    assert np.array_equal(recorded(x()).numpy(), function(x(), t).numpy())
    assert recorded.captures == 2


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", [2, 20_000])
@pytest.mark.parametrize("numbers", [lambda t: t.numpy(), lambda t: t.array], ids=["numpy", "array"])
def test_a_write_behind_the_back_of_tensors_is_noticed(way: str, size: int, numbers: Callable[[Any], Any]) -> None:
    t = wb.ones([size])
    view = t.array
    recorded = WAYS[way](lambda x: x * float(numbers(t)[0]))
    recorded(x()), recorded(x())
    view[0] = 5.0
    assert recorded(x()).tolist() == [5.0, 10.0]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("write", [set_value, put], ids=lambda f: f.__name__)
def test_numbers_that_are_read_in_the_memory_of_a_tensor(way: str, write: Callable[..., None]) -> None:
    t = wb.to_tensor([1.0, 2.0])
    recorded = WAYS[way](lambda x: x * float(t.array[1]))
    recorded(x()), recorded(x())
    write(t, [1.0, 5.0])
    assert recorded(x()).tolist() == [5.0, 10.0]


@pytest.mark.parametrize("way", WAYS)
def test_the_reason_names_value_and_line(way: str) -> None:
    flag = wb.to_tensor(True)
    flag.name = "flag"

    def step(x: Any) -> Any:
        return x if flag else -x

    line = inspect.getsourcelines(step)[1] + 1
    recorded = WAYS[way](step)
    recorded(x())
    flag.set_value(np.array(False))
    reason = f"recorded again (2 times so far): the value of flag, which Python reads at {__file__}, line {line}"
    with pytest.warns(Notice, match=re.escape(reason) + ".* from True to False"):
        recorded(x())


@pytest.mark.parametrize("way", WAYS)
def test_writing_the_same_value_is_no_reason(way: str) -> None:
    t = wb.to_tensor(2.0)
    recorded = WAYS[way](lambda x: x * float(t))
    with warnings.catch_warnings():
        warnings.simplefilter("error", Notice)
        for _ in range(3):
            assert recorded(x(1.0)).item() == 2.0
            t.set_value(2.0)
    assert recorded.captures == 1


class Gated(wb.nn.Layer):
    """A layer that a buffer switches."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("gate", wb.to_tensor(True))
        self.scale = self.create_parameter([1], default_initializer=wb.nn.initializer.Constant(2.0))

    def forward(self, x: Any) -> Any:
        return x * self.scale if self.gate else x


@pytest.mark.parametrize("way", WAYS)
def test_a_buffer_of_a_layer(way: str) -> None:
    net = Gated()
    recorded = wb.jit.to_static(net) if way == "to_static" else wb.jit.capture(lambda x: net(x))
    assert [recorded(x(1.0)).item() for _ in range(2)] == [2.0, 2.0]
    net.gate.set_value(np.array(False))
    assert [recorded(x(1.0)).item() for _ in range(2)] == [1.0, 1.0]
    net.set_state_dict({"gate": np.array(True), "scale": np.array([3.0], np.float32)})
    assert recorded(x(1.0)).item() == 3.0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("is_recorded", [False, True])
def test_a_parameter_that_an_optimizer_moves(way: str, is_recorded: bool) -> None:
    w = wb.create_parameter([1], "float32", default_initializer=wb.nn.initializer.Constant(2.0))
    optimizer = wb.optimizer.SGD(1.0, parameters=[w])

    def train(x: Any) -> Any:
        loss = (w * x).sum()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    step = wb.jit.capture(train) if is_recorded else train
    recorded = WAYS[way](lambda x: x * float(w))
    for expected in (2.0, 1.0, 0.0, -1.0):
        assert [recorded(x(1.0)).item() for _ in range(2)] == [expected, expected]
        step(x(1.0))


def test_what_the_function_changes_itself_is_refused_with_the_line() -> None:
    w = wb.create_parameter([1], "float32", default_initializer=wb.nn.initializer.Constant(2.0))
    optimizer = wb.optimizer.SGD(1.0, parameters=[w])

    def step(x: Any) -> Any:
        loss = (w * x).sum()
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss * float(w)

    line = inspect.getsourcelines(step)[1] + 5
    with pytest.raises(NeedsValue, match=re.escape(f"{__file__}, line {line}")):
        wb.jit.capture(step)(x(1.0))
    assert w.item() == 2.0 and w.grad is None


@pytest.mark.parametrize("way", WAYS)
def test_a_counter_that_is_read_and_counted_is_refused_with_the_line(way: str) -> None:
    count = wb.to_tensor([1.0])

    def step(x: Any) -> Any:
        y = x * float(count.detach())
        wb.assign(count + 1.0, count)
        return y

    line = inspect.getsourcelines(step)[1] + 1
    with pytest.raises(NeedsValue, match=re.escape(f"{__file__}, line {line}")):
        WAYS[way](step)(x(1.0))
    assert count.item() == 1.0


def test_a_gradient_that_is_read_and_computed_is_refused() -> None:
    w = wb.create_parameter([1], "float32")
    (w * 2.0).sum().backward()

    def step(x: Any) -> Any:
        scale = float(w.grad)
        loss = (w * x).sum()
        loss.backward()
        return loss * scale

    with pytest.raises(NeedsValue, match="is read by Python here"):
        wb.jit.capture(step)(x(1.0))
    assert w.grad is not None and w.grad.item() == 2.0


def test_another_gradient_is_another_value() -> None:
    w = wb.create_parameter([1], "float32")
    (w * 2.0).sum().backward()
    recorded = wb.jit.capture(lambda x: x * float(w.grad))
    assert [recorded(x(1.0)).item() for _ in range(2)] == [2.0, 2.0]
    w.clear_gradient(False)
    (w * 3.0).sum().backward()
    assert recorded(x(1.0)).item() == 3.0


def test_a_sparse_gradient_is_a_value_too() -> None:
    table = wb.nn.Embedding(4, 1, sparse=True)
    recorded = wb.jit.capture(lambda x: x * float(table.weight.grad.numpy().sum()))
    for rows in ([1], [1, 2], [0, 1, 2]):
        table.weight.clear_gradient(False)
        table(wb.to_tensor(rows)).sum().backward()
        assert not table.weight.grad.is_dense()
        assert [recorded(x(1.0)).item() for _ in range(2)] == [len(rows)] * 2


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "write",
    [lambda t: t.set_value([5.0]), lambda t: t.fill_(5.0), lambda t: t.normal_(), lambda t: t.__setitem__(0, 5.0)],
    ids=["set_value", "fill_", "normal_", "x[...]"],
)
def test_writing_numbers_of_python_over_a_tensor_from_outside_is_refused(way: str, write: Any) -> None:
    t = wb.to_tensor([2.0])

    def step(x: Any) -> Any:
        write(t)
        return x * t

    with pytest.raises(NeedsValue, match="writes a value of Python's"):
        WAYS[way](step)(x(1.0))
    assert t.tolist() == [2.0]


@pytest.mark.parametrize("way", WAYS)
def test_what_the_function_makes_itself_may_be_read_and_written(way: str) -> None:
    def step(x: Any) -> Any:
        own = wb.to_tensor([1.0, 2.0])
        first = float(own.numpy()[0])
        own[0] = 7.0
        return x * own + first + float(own.numpy()[0])

    recorded = WAYS[way](step)
    for _ in range(3):
        assert recorded(x()).tolist() == step(x()).tolist() == [15.0, 12.0]
    assert recorded.captures == 1


def test_reading_in_dynamic_mode_is_not_noted() -> None:
    t, other = wb.to_tensor(2.0), wb.to_tensor(1.0)
    recorded = wb.jit.capture(lambda x: x * float(t))
    recorded(x(1.0))
    assert float(other) == 1.0
    other.set_value(3.0)
    recorded(x(1.0))
    assert recorded.captures == 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(4))
def test_after_any_writes_it_is_what_dynamic_mode_computes(way: str, seed: int) -> None:
    draw = random.Random(seed)
    flag, scale, table, free = wb.to_tensor(True), wb.to_tensor(2.0), wb.to_tensor([1, 2]), x(3.0, 4.0)
    tensors = {"flag": flag, "scale": scale, "table": table, "free": free}

    def step(x: Any) -> Any:
        y = x * free if flag else x - free
        return y * float(scale) + table.tolist()[1] if scale.item() > 1.0 else y[: int(table.numpy()[0])]

    values = {"flag": [True, False], "scale": [0.5, 2.0, 3.0], "table": [[1, 2], [2, 5]], "free": [[3.0, 4.0], [0, 1]]}
    recorded = WAYS[way](step)
    for _ in range(25):
        if draw.random() < 0.7:
            name = draw.choice(list(tensors))
            draw.choice(WRITES)(tensors[name], np.asarray(draw.choice(values[name]), tensors[name].dtype.numpy))
        given = x(draw.random(), draw.random())
        np.testing.assert_allclose(recorded(given).numpy(), step(given).numpy(), rtol=1e-6)
    assert recorded.captures <= 2 * 3 * 2
