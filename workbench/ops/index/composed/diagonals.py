"""Diagonals written into tensors; composed of other ops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, ShapeError
from workbench.framework.op.infix import tensor_method
from workbench.framework.values.memory import MemoryFor
from workbench.framework.values.spec import normalize_axis
from workbench.ops.index.composed.filling import known_shape
from workbench.ops.index.put import PUT_AT
from workbench.ops.tensor.assign import assign
from workbench.ops.tensor.creation import full, zeros

OFFERED = {"workbench": "diag_embed diagonal_scatter"}


def _places(shape: list[int], offset: int, axis1: int, axis2: int) -> np.ndarray:
    """Where the diagonals' elements are among all, the diagonal last."""
    axis1, axis2 = (normalize_axis(a, len(shape)) for a in (axis1, axis2))
    with MemoryFor(f"the places of all elements of {shape}"):
        places = np.diagonal(np.arange(math.prod(shape)).reshape(shape), offset, axis1, axis2)
        return np.ascontiguousarray(places)


@tensor_method("diagonal_scatter")
def diagonal_scatter(x: Any, y: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, name: str | None = None) -> Any:
    """`x` with `y` in the place of the diagonals that `diagonal` gives.

    Raises:
        InvalidArgument: another shape than theirs.

    Example:
        >>> print(wb.diagonal_scatter(wb.zeros([2, 2]), wb.ones([2])).numpy())
        [[1. 0.]
         [0. 1.]]
    """
    places = _places(known_shape("diagonal_scatter", x), offset, axis1, axis2)
    if tuple(y.shape) != places.shape:
        raise ShapeError("diagonal_scatter takes values in the shape of the diagonals", places.shape, tuple(y.shape))
    return PUT_AT(x, assign(places), y.astype(x.dtype), name=name)


@tensor_method("fill_diagonal_tensor")
def fill_diagonal_tensor(x: Any, y: Any, offset: int = 0, dim1: int = 0, dim2: int = 1, name: str | None = None) -> Any:
    """`diagonal_scatter` under another name; a method only.

    Example:
        >>> print(wb.zeros([2, 2]).fill_diagonal_tensor(wb.ones([2])).numpy())
        [[1. 0.]
         [0. 1.]]
    """
    return diagonal_scatter(x, y, offset, dim1, dim2, name)


@tensor_method("fill_diagonal")
def fill_diagonal(x: Any, value: float, offset: int = 0, wrap: bool = False, name: str | None = None) -> Any:
    """`x` with a number on the diagonal of its last two dimensions, or of all, if they are of one size.

    Args:
        wrap: of a matrix with more rows than columns, begin again after each square.
    """
    shape = known_shape("fill_diagonal_", x)
    with MemoryFor(f"the places of all elements of {shape}"):
        if len(shape) > 2:
            places = np.ravel_multi_index([np.arange(shape[0])] * len(shape), shape)
        else:
            places = np.diagonal(np.arange(math.prod(shape)).reshape(shape), offset)
            if wrap:
                places = np.arange(places[0], math.prod(shape), shape[1] + 1)
    return PUT_AT(x, assign(np.ascontiguousarray(places)), full([len(places)], value, x.dtype))


@tensor_method("diag_embed")
def diag_embed(input: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Matrices with the vectors along the last dimension on a diagonal.

    Args:
        offset: 0 for the main diagonal, positive above it, negative below it.
        dim1, dim2: where the rows and the columns of the matrices go.

    Raises:
        InvalidArgument: one dimension twice, or an unknown shape.

    Example:
        >>> print(wb.diag_embed(wb.to_tensor([1, 2])).numpy())
        [[1 0]
         [0 2]]
    """
    *rest, count = known_shape("diag_embed", input)
    width, rank = count + abs(offset), len(rest) + 2
    dim1, dim2 = (normalize_axis(d, rank) for d in (dim1, dim2))
    if dim1 == dim2:
        raise InvalidArgument(f"diag_embed takes two dimensions, got {dim1} twice")
    shape = list(rest)
    for axis in sorted((dim1, dim2)):
        shape.insert(axis, width)
    return PUT_AT(zeros(shape, input.dtype), assign(_places(shape, offset, dim1, dim2)), input)
