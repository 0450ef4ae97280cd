"""The rules of views against what NumPy makes of real arrays: same memory, same strides, and copies where it copies."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.framework.values.views import RESHAPED, Sliced, Strided, Transposed, ViewRule

MEMORY = np.zeros(1 << 14, np.uint8)
ORIGIN = 1 << 13
RANK = 5


def array_of(strided: Strided) -> np.ndarray:
    dtype = {1: np.int8, 4: np.float32}[strided.itemsize]
    return np.ndarray(strided.shape, dtype, MEMORY.data, strided.offset, strided.strides)


def place_of(array: np.ndarray) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    start = array.__array_interface__["data"][0] - MEMORY.__array_interface__["data"][0]
    return start, array.shape, array.strides


@st.composite
def arrays(draw: st.DrawFn) -> Strided:
    """Permuted, stepped, reversed and repeated parts of a packed array, so that groups of dimensions often fit."""
    roomy = [draw(st.sampled_from([0, 1, 1, 2, 3, 4])) for _ in range(draw(st.integers(0, RANK)))]
    itemsize = draw(st.sampled_from([1, 4]))
    array = array_of(Strided(ORIGIN, tuple(roomy), _packed(roomy, itemsize), itemsize))
    array = array.transpose(draw(st.permutations(range(array.ndim)))) if draw(st.booleans()) else array
    steps = [slice(None)] * 5 + [slice(None, None, -1), slice(None, None, 2), slice(1, None)]
    array = array[(*(draw(st.sampled_from(steps)) for _ in range(array.ndim)), ...)]
    repeated = tuple(4 if d == 1 and draw(st.booleans()) else d for d in array.shape)
    array = np.broadcast_to(array, repeated)
    offset, shape, strides = place_of(array)
    return Strided(offset, shape, strides, itemsize)


def _packed(shape: Any, itemsize: int) -> tuple[int, ...]:
    return np.empty(shape, np.dtype(f"V{itemsize}")).strides


def shapes_of(size: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes with that many elements."""

    @st.composite
    def draw_shape(draw: st.DrawFn) -> tuple[int, ...]:
        left, dims = size, []
        while left > 1 and len(dims) < RANK:
            dims.append(draw(st.sampled_from([d for d in range(1, left + 1) if left % d == 0])))
            left //= dims[-1]
        ones = [1] * draw(st.integers(0, 2))
        return tuple(draw(st.permutations([*dims, *([left] if left != 1 else []), *ones])))

    return draw_shape()


def check(rule: ViewRule, source: Strided, result: np.ndarray, attrs: dict[str, Any]) -> None:
    """The rule finds the memory of a result of NumPy's, or says it is a copy, as it is."""
    array, view = array_of(source), rule(source, result.shape, attrs)
    is_view = result.base is not None and np.may_share_memory(result, MEMORY)
    if not array.size:
        assert view is not None and view.shape == result.shape
        return
    assert (view is not None) == is_view
    if view is not None:
        assert (view.offset, view.shape, view.strides) == place_of(result)


@given(st.data(), arrays())
@settings(max_examples=600, deadline=None)
def test_a_reshape_shows_the_memory_where_numpy_does(data: st.DataObject, source: Strided) -> None:
    shape = data.draw(shapes_of(prod(source.shape)))
    check(RESHAPED, source, array_of(source).reshape(shape), {})


@given(st.data(), arrays())
@settings(max_examples=100, deadline=None)
def test_a_transposition_orders_the_strides(data: st.DataObject, source: Strided) -> None:
    axis = data.draw(st.permutations(range(len(source.shape))))
    axis = [a - len(axis) if data.draw(st.booleans()) else a for a in axis]
    check(Transposed(lambda axis: axis), source, array_of(source).transpose(axis), {"axis": axis})


@given(st.data(), arrays())
@settings(max_examples=300, deadline=None)
def test_a_slice_begins_where_numpys_does(data: st.DataObject, source: Strided) -> None:
    bound, step = st.integers(-6, 6), st.sampled_from([-3, -2, -1, 1, 2, 3])
    axes = [axis for axis in range(len(source.shape)) if data.draw(st.booleans())]
    ranges = {axis: data.draw(st.tuples(bound, bound, step)) for axis in axes}
    index = tuple(slice(*ranges.get(axis, (None,))) for axis in range(len(source.shape)))
    result = array_of(source)[(*index, ...)]
    view = Sliced(lambda shape: ranges)(source, result.shape, {})
    assert view is not None and view.shape == result.shape
    if result.size:
        assert (view.offset, view.strides) == (place_of(result)[0], result.strides)


def test_what_lies_apart_is_not_seen_in_one_piece() -> None:
    turned = Strided(0, (3, 2), (4, 12), 4)
    assert RESHAPED(turned, (6,), {}) is None
    assert RESHAPED(turned, (3, 1, 2), {}) == Strided(0, (3, 1, 2), (4, 24, 12), 4)


@pytest.mark.parametrize("rule", [RESHAPED, Sliced(lambda shape: {}), Transposed(lambda: (1, 0))])
def test_only_a_reshape_keeps_the_order_of_all_elements(rule: ViewRule) -> None:
    assert rule.keeps_order == (rule is RESHAPED)
