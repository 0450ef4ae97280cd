"""`if` and `while` on values of tensors inside functions of `to_static`: as the same function run by Python."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.random import rand

import workbench as wb
from workbench.jit import NeedsValue

POINTS = [[0.5, -2.0], [3.0, 1.0], [-0.25, 0.125], [0.0, 0.0]]
kept: list[Any] = []


def both_sides(x: Any) -> Any:
    if wb.mean(x) < 0:
        y = x - 1
    else:
        y = x + 1
    return y * 2


def one_side(x: Any) -> Any:
    y = x * 3
    if x.sum() > 0:
        y = y + x
        x = x * 2
    return x + y


def returning(x: Any) -> Any:
    if x.sum() > 1:
        return x * 2
    y = x - 1
    if y.sum() > -2.5:
        y = y * 3
        return y
    return -y


def returning_inside_plain(x: Any, early: bool = True) -> Any:
    if early:
        y = x * 2
        if x.sum() > 1:
            return y
    return x - 1


def chained(x: Any) -> Any:
    s = x.sum()
    if s > 3:
        z = x * 1.0
    elif s > 0:
        z = x * 2.0
    elif s == 0:
        z = x * 3.0
    else:
        z = x * 4.0
    return z


def nested(x: Any) -> Any:
    out = x
    if x.sum() > 0:
        if x.max() > 2:
            out = out * 2
        else:
            out = out * 3
        out = out + 1
    return out


def numbers(x: Any) -> Any:
    n, flag, scale = 2, False, 1
    if x.sum() > 0:
        scale, flag = 0.5, True
    else:
        n = 2
    if flag:
        x = x + 1
    return (x * scale).reshape([n, -1])


def number_or_tensor(x: Any) -> Any:
    total = 0.0
    if x.max() > 0.2:
        total = x.sum()
    return x * 0 + total


def joined(x: Any) -> Any:
    if x.sum() > 0 and not x.max() > 2:
        x = x + 10
    if x.sum() < -1 or x.min() == 0:
        x = x - 5
    if 0 < x.sum() < 4:
        x = x * 7
    return x


def between(x: Any) -> Any:
    return (x if x.sum() > 0 else -x) + (1.0 if x.max() > 1 else 2.0)


def helped(x: Any) -> Any:
    return both_sides(x) + chained(x)


def temporary(x: Any) -> Any:
    if x.sum() > 0:
        half = x / 2
        x = half * half
    return x


def inner_function(x: Any) -> Any:
    def clipped(v: Any) -> Any:
        if v.max() > 1:
            v = v / v.max()
        return v

    scale = 3
    return clipped(x) * scale


def looped(x: Any) -> Any:
    count = 0
    total = x.abs() + 0.5
    while total.sum() < 20:
        total = total * 2
        count += 1
    return total, count


def looped_with_branch(x: Any) -> Any:
    i = wb.zeros([], "int64")
    while i < 5 and x.sum() < 30:
        if x.sum() > 0:
            x = x * 1.5
        else:
            x = x + 1
        i = i + 1
    return x, i


def looped_in_python(x: Any) -> Any:
    for k in range(3):
        if x.sum() > k:
            x = x * 0.5
        else:
            x = x + k
    return x


class Scaled(wb.nn.Layer):
    def forward(self, x: Any) -> Any:
        return x * 1.5


class Gated(Scaled):
    def __init__(self) -> None:
        super().__init__()
        self.__scale = 2.0
        self.linear = wb.nn.Linear(2, 2)

    def forward(self, x: Any) -> Any:
        y = self.linear(x)
        if y.sum() > 0:
            y = super().forward(y) * self.__scale
        else:
            y = -y
        return y


FUNCTIONS = [
    both_sides, one_side, returning, returning_inside_plain, chained, nested, numbers, number_or_tensor, joined,
    between, helped, temporary, inner_function, looped, looped_with_branch, looped_in_python,
]  # fmt: skip


def values(result: Any) -> list[Any]:
    parts = result if isinstance(result, list | tuple) else [result]
    return [np.asarray(wb.to_tensor(part).numpy()).tolist() for part in parts]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_a_function_follows_the_values_of_every_call(function: Callable[..., Any]) -> None:
    recorded = wb.jit.to_static(function)
    for point in POINTS:
        assert values(recorded(wb.to_tensor(point))) == values(function(wb.to_tensor(point))), point
    assert recorded.captures == 1


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("point", POINTS[:3])
def test_gradients_pass_through_what_was_done(function: Callable[..., Any], point: list[float]) -> None:
    gradients = []
    for called in (function, wb.jit.to_static(function)):
        x = wb.to_tensor(point, stop_gradient=False)
        y = called(x)
        y = y[0] if isinstance(y, tuple) else y
        (y * y).sum().backward()
        gradients.append(x.grad.numpy())
    assert np.allclose(*gradients, rtol=1e-6)


def test_a_layer_with_branches_learns() -> None:
    curves = []
    for make in (lambda layer: layer, wb.jit.to_static):
        wb.seed(3)
        layer = make(Gated())
        updates = wb.optimizer.SGD(0.1, parameters=layer.parameters())
        losses = []
        for point in POINTS:
            loss = layer(wb.to_tensor([point])).square().sum()
            loss.backward()
            updates.step()
            updates.clear_grad()
            losses.append(float(loss))
        curves.append(losses)
    assert np.allclose(*curves, rtol=1e-5)


def test_functions_stay_as_they_were_written() -> None:
    code = both_sides.__code__
    recorded = wb.jit.to_static(helped)
    recorded(wb.to_tensor([1.0, 2.0]))
    assert both_sides.__code__ is code
    assert values(both_sides(wb.to_tensor([-3.0]))) == [[-8.0]]


def appending(x: Any) -> Any:
    parts = [x]
    if x.sum() > 0:
        parts.append(x * 2)
    return wb.concat(parts)


def setting(x: Any, place: Any = kept) -> Any:
    if x.sum() > 0:
        place.last = x
    return x


def raising(x: Any) -> Any:
    if x.sum() > 0:
        raise ValueError("positive")
    return x


def breaking(x: Any) -> Any:
    for _ in range(3):
        if x.sum() > 0:
            break
        x = x + 1
    return x


def returning_from_a_loop(x: Any) -> Any:
    for _ in range(3):
        if x.sum() > 0:
            return x
        x = x + 1
    return x


def other_kinds(x: Any) -> Any:
    name = "low"
    if x.sum() > 0:
        name = "high"
    return x, name


def other_shapes(x: Any) -> Any:
    y = x
    if x.sum() > 0:
        y = x.sum()
    return y


def growing(x: Any) -> Any:
    total = 0
    while x.sum() < 10:
        total = total + x.sum()
        x = x * 2 + 1
    return total


def asserting(x: Any) -> Any:
    ok = bool(x.sum() > 0)
    return x if ok else -x


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (appending, "what is in parts is changed"),
        (setting, "sets the attribute 'last'"),
        (raising, "raises an exception"),
        (breaking, "a break leads out of it"),
        (returning_from_a_loop, "returns out of a loop"),
        (other_kinds, "name is 'high' or 'low'"),
        (other_shapes, "y is a tensor .* as many dimensions"),
        (growing, "total is a tensor .*int64.* before a pass of the loop"),
        (asserting, "it is no `if`"),
        (lambda x: x if x.sum() > 0 else -x, "not in a `def` function"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)  # fmt: skip
def test_what_cannot_be_recorded_is_refused_with_the_reason(function: Callable[..., Any], why: str) -> None:
    recorded = wb.jit.to_static(function)
    with pytest.raises(NeedsValue, match=why) as refused:
        recorded(wb.to_tensor([1.0, 2.0]))
    assert f"{__file__}, line" in str(refused.value)


def calling(x: Any, function: Any) -> Any:
    return function(x)


def test_threads_that_draw_meanwhile_are_not_taken_for_the_function() -> None:
    drawn, over = threading.Event(), threading.Event()

    def draw() -> None:
        while not over.is_set():
            np.random.rand()
            drawn.set()

    def waiting(x: Any) -> Any:
        drawn.clear()
        drawn.wait(20)
        return x * 2

    thread = threading.Thread(target=draw)
    thread.start()
    try:
        assert wb.jit.to_static(waiting)(wb.to_tensor([1.0])).tolist() == [2.0]
        for drawing in (lambda x: x * float(np.random.rand()), partial(calling, function=lambda x: x * rand())):
            with pytest.raises(NeedsValue, match="draws random numbers"):
                wb.jit.to_static(drawing)(wb.to_tensor([1.0]))
    finally:
        over.set()
        thread.join(20)


def unassigned(x: Any) -> Any:
    if x.sum() > 0:
        half = x / 2
    return half


def test_a_variable_of_one_side_is_not_there_behind_the_branch() -> None:
    with pytest.raises(UnboundLocalError, match="half") as raised:
        wb.jit.to_static(unassigned)(wb.to_tensor([1.0, 2.0]))
    assert "assign it before" in raised.value.__notes__[0]


def test_source_that_has_changed_is_not_used(tmp_path: Any) -> None:
    file = tmp_path / "written.py"
    names: dict[str, Any] = {}
    old = "def signed(x):\n    if x.sum() > 0:\n        return x\n    return -x\n"
    file.write_text(old.replace("-x", "x * 5"))
    exec(compile(old, str(file), "exec"), names)
    with pytest.raises(NeedsValue, match="is not what it was"):
        wb.jit.to_static(names["signed"])(wb.to_tensor([1.0]))


@pytest.mark.parametrize("function", [both_sides, chained, looped, looped_with_branch], ids=lambda f: f.__name__)
def test_what_is_loaded_has_its_branches_and_their_gradients(function: Callable[..., Any], tmp_path: Any) -> None:
    wb.jit.save(wb.jit.to_static(function, input_spec=[wb.static.InputSpec([2])]), str(tmp_path / "model"))
    loaded = wb.jit.load(str(tmp_path / "model"))
    for point in POINTS[:3]:
        results = []
        for called in (function, loaded):
            x = wb.to_tensor(point, stop_gradient=False)
            y = called(x)
            y = y[0] if isinstance(y, list | tuple) else y
            y.sum().backward()
            results += [y.numpy(), x.grad.numpy()]
        assert np.allclose(results[:2], results[2:], rtol=1e-6), point


def test_what_is_saved_has_its_branches(tmp_path: Any) -> None:
    recorded = wb.jit.to_static(both_sides, input_spec=[wb.static.InputSpec([2], "float32", "x")])
    wb.jit.save(recorded, str(tmp_path / "model"))
    wb.enable_static()
    try:
        exe = wb.static.Executor()
        program, feeds, fetches = wb.static.load_inference_model(str(tmp_path / "model"), exe)
        for point in POINTS:
            (fetched,) = exe.run(program, feed={feeds[0]: np.array(point, np.float32)}, fetch_list=fetches)
            mean = np.mean(np.float32(point))
            assert np.allclose(fetched, (np.float32(point) + (-1 if mean < 0 else 1)) * 2)
    finally:
        wb.disable_static()
