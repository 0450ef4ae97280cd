"""Gradients of branches and loops whose blocks write values in place, against numerical derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import workbench as wb
import workbench.fluid as fluid
from tests.autodiff.small import Built, number, slope
from workbench import static
from workbench.config import override

Body = Callable[[Any, Any, Any], list[Any]]
AT = 1.3


def counted_first(w: Any, i: Any, x: Any) -> list[Any]:
    wb.increment(i)
    return [i, x * i]


def counted_last(w: Any, i: Any, x: Any) -> list[Any]:
    y = x * (i + 1.0)
    wb.increment(i)
    return [i, y]


def assigned_first(w: Any, i: Any, x: Any) -> list[Any]:
    wb.assign(x * 1.1, output=x)
    return [i + 1, x * x]


def read_before_and_after(w: Any, i: Any, x: Any) -> list[Any]:
    y = x * x
    wb.assign(y * w, output=x)
    return [i + 1, x * 0.3 + x * x * y]


def taken_from_outside(w: Any, i: Any, x: Any) -> list[Any]:
    wb.assign(w * 1.0, output=x)
    return [i + 1, x * x]


def own_value_twice(w: Any, i: Any, x: Any) -> list[Any]:
    y = wb.exp(x * 0.1)
    wb.assign(y * w, output=y)
    return [i + 1, y * x * 0.5]


def branches_around_a_write(w: Any, i: Any, x: Any) -> list[Any]:
    y = static.nn.cond(i < 1.0, lambda: x * x, lambda: x * 0.3)
    wb.assign(y * w, output=x)
    return [i + 1, static.nn.cond(i < 2.0, lambda: x * x * y * 0.2, lambda: x * 3.0)]


def write_in_a_branch(w: Any, i: Any, x: Any) -> list[Any]:
    def branch() -> Any:
        y = wb.exp(x * 0.1)
        wb.assign(y * w, output=y)
        z = y * y
        wb.increment(y)
        return z * y

    return [i + 1, static.nn.cond(i < 2.0, branch, lambda: x * x)]


def loop_in_a_loop(w: Any, i: Any, x: Any) -> list[Any]:
    def inner(j: Any, y: Any) -> list[Any]:
        wb.assign(y * w * 0.9, output=y)
        wb.increment(j)
        return [j, y * x * j * 0.5]

    _, y = static.nn.while_loop(lambda j, y: j < 2.0, inner, [wb.zeros([1], x.dtype), x])
    wb.assign(y + x, output=x)
    return [i + 1, y * x * 0.1 + x]


def own_gradient(w: Any, i: Any, x: Any) -> list[Any]:
    """The gradient that a user takes of some other function may read what is overwritten behind it."""
    k = w * 2.0
    y = static.nn.static_pylayer(lambda x: x * x, [x], lambda g: g * 2.0 * x * (k / (w * 2.0)))
    wb.assign(y, output=k)
    wb.assign(k * 0.5, output=x)
    return [i + 1, x * w]


BODIES: list[Body] = [
    counted_first, counted_last, assigned_first, read_before_and_after, taken_from_outside, own_value_twice,
    branches_around_a_write, write_in_a_branch, loop_in_a_loop, own_gradient,
]  # fmt: skip


def build(body: Body, dtype: str) -> tuple[Built, Any, Any]:
    with Built() as p:
        w = static.data("w", [1], dtype)
        w.stop_gradient = False
        start = [wb.zeros([1], dtype), w * 1.0]
        _, out = static.nn.while_loop(lambda i, x: i < 3.0, lambda i, x: body(w, i, x), start)
        (gradient,) = static.gradients(out, [w])
    return p, out, gradient


@pytest.mark.parametrize("body", BODIES)
def test_a_loop_that_writes_in_place(body: Body) -> None:
    p, out, gradient = build(body, "float64")
    expected = slope(lambda w: p.run({"w": number(w)}, [out])[0].item(), AT)
    assert expected != 0.0
    assert p.run({"w": number(AT)}, [gradient])[0].item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("body", BODIES)
def test_kernels_and_calls_agree_with_the_reference(body: Body) -> None:
    p, out, gradient = build(body, "float32")
    feed = {"w": np.array([AT], np.float32)}
    expected = p.run(feed, [out, gradient])
    for tape in (True, False):
        with override(cpu_tape=tape):
            executor = static.ParallelExecutor(use_cuda=False, main_program=p.main, loss_name=out.name)
            assert np.allclose(executor.run([out, gradient], feed=feed), expected, rtol=1e-5), tape


def test_the_loop_of_paddle_1_counts_before_it_computes() -> None:
    with Built() as p:
        w = static.data("w", [1], "float64")
        w.stop_gradient = False
        i, limit = (fluid.layers.fill_constant([1], "float64", n) for n in (0.0, 3.0))
        out = w * 1.0
        go_on = fluid.layers.less_than(i, limit)
        with fluid.layers.While(go_on).block():
            part = wb.exp(out * 0.1)
            fluid.layers.assign(part * w, part)
            fluid.layers.increment(i)
            fluid.layers.assign(part * out * i, out)
            fluid.layers.increment(part)
            fluid.layers.less_than(i, limit, cond=go_on)
        (gradient,) = static.gradients(out, [w])
    expected = slope(lambda at: p.run({"w": number(at)}, [out])[0].item(), 0.4)
    assert p.run({"w": number(0.4)}, [gradient])[0].item() == pytest.approx(expected, rel=1e-6)


def test_a_condition_that_writes_is_asked_before_each_pass() -> None:
    """By hand: i is 1 and 2 in the two passes, 3 behind the loop; x is 1, x, 2 * x."""
    with Built() as p:
        x = static.data("x", [1], "float64")
        start = [{"i": wb.zeros([1], "float64")}, x * 1.0]
        state, out = static.nn.while_loop(
            lambda s, y: wb.increment(s["i"]) < 3.0, lambda s, y: [s, y * x * s["i"]], start
        )
        (gradient,) = static.gradients(out, [x])
    i, y, dx = (value.item() for value in p.run({"x": number(5)}, [state["i"], out, gradient]))
    assert (i, y, dx) == (3.0, 2 * 5.0**3, 6 * 5.0**2)


def test_what_a_gradient_of_the_user_reads_must_not_be_overwritten() -> None:
    with Built() as p:
        x = static.data("x", [1], "float64")
        factor = x * 3.0
        y = static.nn.static_pylayer(lambda x: x * x, [x], lambda g: g * factor)
        (before,) = static.gradients(y, [x])
        wb.assign(factor * 10.0, output=factor)
        with pytest.raises(NotImplementedError, match=r"gradient of op 'pylayer' needs the value of .* overwrites"):
            static.gradients(y, [x])
    assert p.run({"x": number(2)}, [before])[0].item() == 6.0


def test_a_block_that_writes_its_input_has_no_gradient() -> None:
    """No builder makes one; a program read from a file, or put together by hand, may have it."""
    with Built() as p:
        w = static.data("w", [1], "float64")
        start = [wb.zeros([1], "float64"), w * 1.0]
        _, out = static.nn.while_loop(lambda i, x: i < 3.0, lambda i, x: [i + 1, x * i], start)
        body = p.main.blocks[2]
        name = body.inputs[0]
        body.append_op("increment", inputs={"X": name}, outputs={"Out": name}, attrs={"step": 1.0})
        with pytest.raises(NotImplementedError, match=f"op 'increment' writes '{name}', an input of block 2"):
            static.gradients(out, [w])
    assert p.run({"w": number(2)}, [out])[0].item() == 0.0
