"""A function is recorded again when what it was recorded with has changed, with a notice; else never."""

import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.framework.notice import Notice

factor = 2.0
settings = types.SimpleNamespace(factor=2.0, deeper=types.SimpleNamespace(factor=2.0))
table = {"factor": 2.0}
factors = [2.0]


def x(*values: float) -> Any:
    return wb.to_tensor(list(values))


@contextmanager
def told(text: str) -> Iterator[None]:
    with pytest.warns(Notice, match=text) as notices:
        yield
    assert len(notices) == 1


@contextmanager
def silent() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("error", Notice)
        yield


class Scaled:
    """What layers are to a step: `training`, attributes and members."""

    def __init__(self) -> None:
        self._sub_layers: dict[str, Any] = {}
        self._parameters: dict[str, Any] = {}
        self._buffers: dict[str, Any] = {}
        self.training, self.factor = True, 2.0

    def forward(self, x: Any) -> Any:
        return x * self.factor if self.training else x


def test_shapes_and_dtypes() -> None:
    captured = wb.jit.capture(lambda x: x + x)
    with silent():
        assert captured(x(1.0)).tolist() == captured(x(1.0)).tolist() == [2.0]
    with told("other shapes, dtypes"):
        assert captured(x(1.0, 2.0)).tolist() == [2.0, 4.0]
    with told("2 times|3 times"):
        assert captured(wb.to_tensor([3])).tolist() == [6]
    with silent():
        assert captured(x(5.0)).tolist() == [10.0] and captured(wb.to_tensor([4])).tolist() == [8]
    assert captured.captures == 3


@pytest.mark.filterwarnings("ignore::workbench.framework.notice.Notice")
def test_arguments_that_are_no_tensors() -> None:
    captured = wb.jit.capture(lambda x, k, flip=False: -x * k if flip else x * k)
    results = [captured(x(1.0), 2), captured(x(1.0), 2), captured(x(1.0), 3), captured(x(1.0), 2, flip=True)]
    assert [r.item() for r in results] == [2.0, 2.0, 3.0, -2.0] and captured.captures == 3
    assert captured(x(1.0), True).item() == 1.0 and captured.captures == 4  # True is not 1


def by_global(x: Any) -> Any:
    return x * factor


def by_attribute(x: Any) -> Any:
    return x * settings.factor


def by_deeper_attribute(x: Any) -> Any:
    known = settings.deeper
    return x * known.factor


def by_entry(x: Any) -> Any:
    return x * table["factor"]


def by_element(x: Any) -> Any:
    return sum(x * each for each in factors)


def by_function(x: Any) -> Any:
    return by_global(x)


CHANGES: dict[Any, Any] = {
    by_global: lambda k: globals().update(factor=k),
    by_attribute: lambda k: setattr(settings, "factor", k),
    by_deeper_attribute: lambda k: setattr(settings.deeper, "factor", k),
    by_entry: lambda k: table.update(factor=k),
    by_element: lambda k: factors.__setitem__(0, k),
    by_function: lambda k: globals().update(factor=k),
}


@pytest.mark.parametrize("function", CHANGES, ids=lambda f: f.__name__)
def test_what_is_read_from_outside(function: Any) -> None:
    change = CHANGES[function]
    captured = wb.jit.capture(function)
    try:
        with silent():
            assert [captured(x(1.0)).item() for _ in range(3)] == [2.0] * 3
        change(5.0)
        with told("recorded again .2 times"):
            assert captured(x(1.0)).item() == 5.0
        change(float("2.0"))  # as it was, though another object
        with silent():
            assert captured(x(1.0)).item() == 2.0
    finally:
        change(2.0)
    assert captured.captures == 2


def test_variables_of_enclosing_functions() -> None:
    k = 2.0

    def step(x: Any) -> Any:
        return x * k

    captured = wb.jit.capture(step)
    assert captured(x(1.0)).item() == 2.0
    k = 3.0
    with told("k was 2.0 and is 3.0"):
        assert captured(x(1.0)).item() == 3.0


@pytest.mark.parametrize(("name", "value", "expected"), [("training", False, 1.0), ("factor", 3.0, 3.0)])
def test_layers(name: str, value: Any, expected: float) -> None:
    net = Scaled()
    net._sub_layers["inner"] = inner = Scaled()
    captured = wb.jit.capture(lambda x: net._sub_layers["inner"].forward(x))
    with silent():
        assert [captured(x(1.0)).item() for _ in range(2)] == [2.0, 2.0]
    setattr(inner, name, value)
    with told(name):
        assert captured(x(1.0)).item() == expected
    assert captured.captures == 2


@pytest.mark.filterwarnings("ignore::workbench.framework.notice.Notice")
def test_whether_gradients_are_recorded() -> None:
    captured = wb.jit.capture(lambda x: x * float(wb.is_grad_enabled()))
    with wb.no_grad():
        assert captured(x(1.0)).item() == 0.0
    assert captured(x(1.0)).item() == 1.0
    assert captured.captures == 2


def test_another_tensor_in_a_global() -> None:
    space = {"w": x(2.0)}
    exec("def step(x):\n    return x * w", space)
    captured = wb.jit.capture(space["step"])
    assert captured(x(1.0)).item() == 2.0
    space["w"].set_value(np.array([3.0], np.float32))
    with silent():
        assert captured(x(1.0)).item() == 3.0
    space["w"] = x(4.0)
    with told("w is another object"):
        assert captured(x(1.0)).item() == 4.0


def test_a_tensor_of_another_dtype() -> None:
    w = x(2.0)
    captured = wb.jit.capture(lambda x: w * x.astype(w.dtype))
    assert captured(x(1.0)).item() == 2.0
    w._put(np.array([3.0]))
    with told("another shape or dtype"):
        assert captured(x(1.0)).dtype == wb.float64
    assert captured.captures == 2


@pytest.mark.filterwarnings("ignore::workbench.framework.notice.Notice")
def test_half_precision_around_and_inside() -> None:
    w = wb.ones([2, 2])
    captured = wb.jit.capture(lambda x: wb.matmul(x, w))
    assert captured(w).dtype == wb.float32
    for _ in range(2):
        with wb.amp.auto_cast(dtype="bfloat16"):
            assert captured(w).dtype == wb.bfloat16
    assert captured(w).dtype == wb.float32 and captured.captures == 2

    def inside(x: Any) -> Any:
        with wb.amp.auto_cast(dtype="bfloat16"):
            return wb.static.nn.cond(x.sum() > 0, lambda: wb.matmul(x, w), lambda: wb.matmul(w, x))

    assert wb.jit.capture(inside)(w).dtype == wb.bfloat16
