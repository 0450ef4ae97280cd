"""Running a function of tensors both ways: at once, and as a Program whose dims are not known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import workbench as wb
from workbench.framework.program.guard import static_mode
from workbench.ops.math.reductions.reduce import sum as sum_of

Build = Callable[..., Any]


def dynamic(build: Build, *arrays: np.ndarray) -> Any:
    """`build(*tensors)` computed at once, as an array."""
    return build(*map(wb.to_tensor, arrays)).numpy()


def static(build: Build, *arrays: np.ndarray, known: bool = False) -> tuple[np.ndarray, Any]:
    """`build(*variables)` as a Program: the result of a run, and the shape that was declared for it."""
    program = wb.static.Program()
    with _building(program):
        names = [f"x{i}" for i in range(len(arrays))]
        inputs = [_data(n, a, known) for n, a in zip(names, arrays, strict=True)]
        out = build(*inputs)
    (value,) = wb.static.Executor().run(
        program, feed=dict(zip(names, arrays, strict=True)), fetch_list=[out], scope=wb.static.Scope()
    )
    return value, out.shape


def both(build: Build, *arrays: np.ndarray) -> np.ndarray:
    """The result, after checking that static and dynamic mode agree, but for roundings, and in the declared shape.

    Small operands of dynamic mode are NumPy's, whose functions round in another way than those of kernels.
    """
    dynamic_value = dynamic(build, *arrays)
    for known in (True, False):
        value, shape = static(build, *arrays, known=known)
        if value.dtype.kind == "f":
            np.testing.assert_allclose(value, dynamic_value, rtol=1e-14, atol=1e-15)
        else:
            np.testing.assert_array_equal(value, dynamic_value)
        assert value.dtype == dynamic_value.dtype
        assert len(shape) == value.ndim
        assert all(d in (-1, v) for d, v in zip(shape, value.shape, strict=True)), (shape, value.shape)
        assert not known or tuple(shape) == value.shape
    return dynamic_value


def check_second_derivative(build: Build, *points: np.ndarray, tolerance: float = 1e-6) -> None:
    """d/dx of <u, d/dx <w, build(x)>> against central differences of the first gradient, dims unknown."""
    rng = np.random.default_rng(8)
    program, names = wb.static.Program(), [f"x{i}" for i in range(len(points))]
    out_shape = dynamic(build, *points).shape
    feeds = {"w": rng.standard_normal(out_shape)}
    with _building(program):
        inputs = [_data(n, p, False) for n, p in zip(names, points, strict=True)]
        for x in inputs:
            x.stop_gradient = False
        firsts = wb.static.gradients(sum_of(build(*inputs) * _data("w", feeds["w"], False)), inputs)
        total = 0.0
        for name, point, first in zip(names, points, firsts, strict=True):
            feeds["u" + name] = rng.standard_normal(point.shape)
            total = sum_of(first * _data("u" + name, feeds["u" + name], False)) + total
        seconds = wb.static.gradients(total, inputs)
    fetched = [s for s in seconds if s is not None]
    assert fetched, "no second derivative at all"

    def run(at: list[np.ndarray], fetch: list[Any]) -> list[np.ndarray]:
        feed = {**feeds, **dict(zip(names, at, strict=True))}
        return wb.static.Executor().run(program, feed=feed, fetch_list=fetch, scope=wb.static.Scope())

    directions = [rng.standard_normal(p.shape) for p in points]
    values = run(list(points), fetched)
    chosen = [d for d, s in zip(directions, seconds, strict=True) if s is not None]
    analytic = sum(float(np.sum(v * d)) for v, d in zip(values, chosen, strict=True))
    ends = []
    for sign in (1, -1):
        moved = [p + sign * 1e-5 * d for p, d in zip(points, directions, strict=True)]
        ends.append(sum(float(np.sum(g * feeds["u" + n])) for n, g in zip(names, run(moved, firsts), strict=True)))
    numeric = (ends[0] - ends[1]) / 2e-5
    scale = sum(float(np.sum(np.abs(v * d))) for v, d in zip(values, chosen, strict=True))
    assert abs(analytic - numeric) <= tolerance * max(scale, 1e-2), (analytic, numeric)


class _building:
    """Static mode with fresh names and a given main program."""

    def __init__(self, program: Any) -> None:
        guard = wb.static.program_guard(program, wb.static.Program())
        self.contexts = [static_mode(), wb.utils.unique_name.guard(), guard]

    def __enter__(self) -> None:
        for context in self.contexts:
            context.__enter__()

    def __exit__(self, *error: Any) -> None:
        for context in reversed(self.contexts):
            context.__exit__(*error)


def _data(name: str, array: np.ndarray, known: bool) -> Any:
    shape = array.shape if known else (-1,) * array.ndim
    return wb.static.data(name, shape, array.dtype.name)
