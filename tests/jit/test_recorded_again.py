"""A function is recorded again when what it was recorded with has changed, with a notice; else never."""

import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench.errors import PreconditionNotMet
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


def test_what_layers_hold_may_grow_and_be_hooked() -> None:
    """The number of layers, hooks and what hooks read are as much part of a step as their attributes."""
    doubled = lambda: wb.nn.Linear(1, 1, wb.nn.initializer.Constant(2.0), False)  # noqa: E731
    layers, grown = wb.nn.LayerList([doubled()]), [3.0]

    @wb.jit.capture
    def step(x: Any) -> Any:
        for layer in layers:
            x = layer(x)
        return x

    start = x(1.0).reshape([1, 1])
    assert [step(start).item() for _ in range(2)] == [2.0, 2.0]
    with told("number of entries"):
        layers.append(doubled())
        assert step(start).item() == 4.0
    with told("hooks of"):
        hook = layers[1].register_forward_post_hook(lambda layer, given, out: out * grown[0])
        assert step(start).item() == 12.0
    with told("grown"):
        grown[0] = 5.0
        assert step(start).item() == 20.0
    with silent():
        assert step(start).item() == 20.0
    with told("hooks of"):
        hook.remove()
        assert step(start).item() == 4.0


def test_numbers_in_an_array_from_outside() -> None:
    small, large = np.ones(2, np.float32), np.ones(1 << 13, np.float32)
    step = wb.jit.capture(lambda given: given * wb.to_tensor(small))
    assert step(x(1.0, 1.0)).tolist() == step(x(1.0, 1.0)).tolist() == [1.0, 1.0]
    small[0] = 7.0
    with told("what is in small"):
        assert step(x(1.0, 1.0)).tolist() == [7.0, 1.0]
    with told("large, an array of 32768 bytes"):
        wb.jit.capture(lambda given: given * float(large[0]))(x(1.0))


def test_defaults() -> None:
    def times(given: Any, by: float = 2.0) -> Any:
        return given * by

    step = wb.jit.capture(times)
    assert step(x(1.0)).tolist() == [2.0]
    times.__defaults__ = (3.0,)
    with told("defaults of times"):
        assert step(x(1.0)).tolist() == [3.0]


@pytest.mark.parametrize("is_parameter", [True, False])
def test_what_is_trained(is_parameter: bool) -> None:
    """A tensor that is frozen gets no update any more, one that is thawed does."""
    make = lambda: wb.create_parameter([1], "float32") if is_parameter else wb.to_tensor([0.0], stop_gradient=False)  # noqa: E731
    first, second = make(), make()
    with wb.no_grad():
        first.set_value(np.zeros(1, np.float32)), second.set_value(np.zeros(1, np.float32))
    sgd = wb.optimizer.SGD(1.0, parameters=[first, second])

    @wb.jit.capture
    def step(given: Any) -> Any:
        loss = ((first + second) * given).sum()
        loss.backward()
        sgd.step()
        sgd.clear_grad()
        return loss

    seen = []
    for frozen in (False, False, True, True, False):
        second.stop_gradient = frozen
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Notice)
            step(x(1.0))
        seen.append((first.item(), second.item()))
    assert seen == [(-1.0, -1.0), (-2.0, -2.0), (-3.0, -2.0), (-4.0, -2.0), (-5.0, -3.0)]
    assert step.captures == 2


def test_a_gradient_that_is_taken_away_or_replaced_between_two_calls() -> None:
    """The tensor is no parameter: nobody counts the changes of such a gradient."""
    w = wb.to_tensor([3.0], stop_gradient=False)

    @wb.jit.capture
    def step(given: Any) -> Any:
        loss = (w * given).sum()
        loss.backward()
        return loss

    changes = {4: None, 8: wb.to_tensor([10.0]), 12: None}
    expected, seen, total = [], [], 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Notice)
        for number in range(16):
            if number in changes:
                w.grad = changes[number]
                total = 0.0 if changes[number] is None else 10.0
            step(x(2.0))
            total += 2.0
            expected.append(total)
            seen.append(w.grad.item())
    assert seen == expected


def test_what_updates_of_one_parameter_depend_on() -> None:
    w = wb.create_parameter([1], "float32", default_initializer=wb.nn.initializer.Constant(4.0))
    sgd = wb.optimizer.SGD(0.5, parameters=[w], grad_clip=wb.nn.ClipGradByValue(1.0))

    @wb.jit.capture
    def step(given: Any) -> Any:
        loss = (w * given).sum()
        loss.backward()
        sgd.step()
        sgd.clear_grad()
        return loss

    step(x(2.0))
    assert w.item() == 3.5
    for change, expected in (
        (lambda: setattr(w, "need_clip", False), 2.5),
        (lambda: w.optimize_attr.__setitem__("learning_rate", 0.5), 2.0),
        (lambda: setattr(w, "optimize_attr", {"learning_rate": 2.0}), 0.0),
        (lambda: setattr(w, "regularizer", wb.regularizer.L2Decay(1.0)), -2.0),
    ):
        change()
        with told("rate, decay or clip"):
            step(x(2.0))
        assert w.item() == expected
    with silent():
        step(x(2.0))


@pytest.mark.filterwarnings("ignore::workbench.framework.notice.Notice")
def test_a_first_run_counts_as_a_write_to_what_it_updates() -> None:
    w = wb.create_parameter([1], "float32")
    sgd = wb.optimizer.SGD(0.1, parameters=[w])

    @wb.jit.capture
    def step(x: Any) -> Any:
        loss = (w * x).sum()
        loss.backward()
        sgd.step()
        sgd.clear_grad()
        return loss

    for _ in range(2):
        step(wb.ones([1]))
    for length in range(2, 6):  # each is recorded anew
        before = (w * w).sum()
        step(wb.ones([length]))
        with pytest.raises(PreconditionNotMet, match="overwritten"):
            before.backward()


@pytest.mark.filterwarnings("ignore::workbench.framework.notice.Notice")
@pytest.mark.parametrize("seed", range(6))
def test_gradients_that_stay_and_are_taken_away_between_runs(seed: int) -> None:
    """They are added up as in dynamic mode, in runs that are told of changes and in runs that are not."""

    def history(convert: Callable[[Any], Any]) -> list[Any]:
        rng = np.random.default_rng(seed)
        w, v = wb.create_parameter([2], "float32", default_initializer=wb.nn.initializer.Constant(1.0)), wb.ones([2])
        v.stop_gradient = False

        def step(x: Any) -> Any:
            loss = ((w + v) * x).sum()
            loss.backward()
            return loss

        step, seen = convert(step), []
        changes = [w.clear_grad, lambda: setattr(w, "grad", None), lambda: setattr(v, "grad", None), lambda: None]
        for number in range(12):
            rng.choice(np.array(changes, object))()
            step(wb.ones([2]) * (number + 1.0))
            seen.append([None if t.grad is None else t.grad.tolist() for t in (w, v)])
        return seen

    assert history(wb.jit.capture) == history(lambda step: step)
