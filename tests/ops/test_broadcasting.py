"""Broadcasting of binary ops and axes of reductions, over all the shapes hypothesis can think of."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

import workbench.ops  # fills the op table
from tests.ops.case import run_forward
from workbench.errors import ShapeError
from workbench.framework.expr.numpy_functions import numpy_xp
from workbench.framework.op.evaluate import EvaluatedArray, Evaluator, reduce_to
from workbench.framework.op.record import find_op
from workbench.framework.op.recorder import recording
from workbench.framework.values.spec import Spec, broadcast_shapes, spec_of
from workbench.ops.math.reductions import extreme, folds, reduce

BINARY = [
    "elementwise_add", "elementwise_sub", "elementwise_mul", "elementwise_div", "elementwise_max", "elementwise_min",
    "less_than", "equal",
]  # fmt: skip
shapes = npst.mutually_broadcastable_shapes(num_shapes=2, min_dims=0, max_dims=4, min_side=0, max_side=4)
assert workbench.ops


def numbers(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.5, 2.0, size=shape)


def blurred(draw: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with some dims unknown."""
    return tuple(-1 if draw(st.booleans()) else d for d in shape)


@settings(max_examples=150, deadline=None)
@given(shapes, st.data())
def test_inferred_shapes_hold_whatever_is_unknown(given_shapes: Any, data: Any) -> None:
    """A result never contradicts what was inferred from partly unknown shapes."""
    a, b = given_shapes.input_shapes
    out = broadcast_shapes(blurred(data.draw, a), blurred(data.draw, b))
    real = np.broadcast_shapes(a, b)
    assert len(out) == len(real)
    for inferred, dim in zip(out, real, strict=True):
        assert inferred in (-1, dim)


@settings(max_examples=150, deadline=None)
@given(npst.array_shapes(max_dims=3, max_side=3), npst.array_shapes(max_dims=3, max_side=3))
def test_shapes_that_numpy_refuses_are_refused(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    try:
        expected = np.broadcast_shapes(a, b)
    except ValueError:
        with pytest.raises(ShapeError, match="broadcast"):
            broadcast_shapes(a, b)
    else:
        assert broadcast_shapes(a, b) == expected


@pytest.mark.parametrize("type", BINARY)
@settings(max_examples=25, deadline=None)
@given(shapes)
def test_binary_op_and_its_gradient(type: str, given_shapes: Any) -> None:
    """Element by element over index tuples; gradients are sums over the elements an input went to."""
    a, b = given_shapes.input_shapes
    x, y, op = numbers(a, 1), numbers(b, 2), find_op(type)
    (got,) = run_forward(op, [x, y], op.attrs)
    result = np.broadcast_shapes(a, b)
    assert got.shape == result
    rows, columns = np.broadcast_to(x, result), np.broadcast_to(y, result)
    for index in np.ndindex(*result):
        (alone,) = run_forward(op, [np.array(rows[index]), np.array(columns[index])], op.attrs)
        assert got[index] == alone
    if not op.differentiable:
        return
    g = numbers(result, 3)
    back = find_op(op.grad_type)
    saved = [got] if "Out" in op.saved else []
    wide = run_forward(back, [rows.copy(), columns.copy(), *saved, g], op.attrs)
    narrow = run_forward(back, [x, y, *saved, g], op.attrs)
    for array, shape, part in zip((x, y), (a, b), range(2), strict=True):
        assert narrow[part].shape == array.shape
        np.testing.assert_allclose(narrow[part], summed(wide[part], shape), rtol=1e-12, atol=1e-12)


def summed(g: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The sum of all elements of `g` that come from one element of `shape`."""
    out = np.zeros(shape)
    origin = np.broadcast_to(np.arange(math.prod(shape)).reshape(shape), g.shape)
    np.add.at(out.reshape(-1), origin.ravel(), g.ravel())
    return out


@settings(max_examples=100, deadline=None)
@given(shapes)
def test_reduce_to_undoes_broadcasting(given_shapes: Any) -> None:
    shape, result = given_shapes.input_shapes[0], given_shapes.result_shape
    g = numbers(result, 4)
    np.testing.assert_allclose(reduce_to(np, g, shape), summed(g, shape), rtol=1e-12)


# Reductions

REDUCTIONS = {
    reduce.sum: np.sum,
    reduce.mean: np.mean,
    folds.prod: np.prod,
    extreme.max: np.max,
    extreme.min: np.min,
}


@st.composite
def reductions(draw: Any) -> tuple[tuple[int, ...], Any, bool]:
    shape = draw(npst.array_shapes(min_dims=1, max_dims=4, max_side=4))
    axes = draw(st.none() | st.lists(st.integers(0, len(shape) - 1), unique=True, min_size=1))
    if axes is not None:
        axes = [a - len(shape) if draw(st.booleans()) else a for a in axes]
        axes = axes[0] if len(axes) == 1 and draw(st.booleans()) else axes
    return shape, axes, draw(st.booleans())


@settings(max_examples=200, deadline=None)
@given(st.sampled_from(sorted(REDUCTIONS, key=lambda f: f.__name__)), reductions(), st.data())
def test_reduction_over_any_axes(function: Any, how: Any, data: Any) -> None:
    shape, axes, keep = how
    x = numbers(shape, 5)
    with recording(Evaluator(numpy_xp)):
        got = function(EvaluatedArray(x), axes, keepdim=keep).array
        attrs = reduce.reduction(axes, keep)
    along = tuple(axes) if isinstance(axes, list) else axes
    expected = np.asarray(REDUCTIONS[function](x, axis=along, keepdims=keep))
    np.testing.assert_allclose(got, expected.reshape(expected.shape or (1,)), rtol=1e-12)
    known = find_op("reduce_prod").infer(spec_of(x), **attrs)
    assert known.shape == got.shape
    unknown = find_op("reduce_prod").infer(Spec(blurred(data.draw, shape), known.dtype), **attrs)
    assert all(d in (-1, real) for d, real in zip(unknown.shape, got.shape, strict=True))


@settings(max_examples=100, deadline=None)
@given(npst.array_shapes(min_dims=1, max_dims=3, max_side=3), st.data())
def test_axes_outside_the_rank_or_twice_are_refused(shape: tuple[int, ...], data: Any) -> None:
    rank = len(shape)
    outside = data.draw(st.integers(rank, rank + 3) | st.integers(-rank - 3, -rank - 1))
    with recording(Evaluator(numpy_xp)):
        spec = spec_of(numbers(shape, 6))
        for axes, words in (([outside], "out of range"), ([0, -rank], "twice")):
            with pytest.raises(ShapeError, match=words):
                find_op("reduce_sum").infer(spec, **reduce.reduction(axes, False), out_dtype="")
