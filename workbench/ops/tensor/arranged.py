"""Tensors put into other forms: diagonals, quarter turns, grids, common shapes; composed of other ops."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.errors import ShapeError
from workbench.framework.op.infix import tensor_method
from workbench.framework.values.memory import MemoryFor
from workbench.framework.values.spec import normalize_axis, shape_text
from workbench.ops.arguments import distinct_axes, int_list, one_int
from workbench.ops.pointwise import Tensor
from workbench.ops.tensor.assign import assign
from workbench.ops.tensor.creation import full, zeros, zeros_like
from workbench.ops.tensor.join import concat, split
from workbench.ops.tensor.shape import reshape
from workbench.ops.tensor.slicing import slice as part_of
from workbench.ops.tensor.slicing import strided_slice
from workbench.ops.tensor.tile import broadcast_shape, expand, flip
from workbench.ops.tensor.transpose import transpose

OFFERED = {
    "workbench": (
        "atleast_1d atleast_2d atleast_3d broadcast_tensors clone diag diagflat diagonal empty empty_like meshgrid "
        "rank rot90 tril_indices triu_indices vsplit"
    ),
}


def empty(shape: Any, dtype: Any = None, name: str | None = None) -> Any:
    """A tensor whose values nobody has chosen (they are zeros). Args and Raises: as for `zeros`.

    Example:
        >>> wb.empty([2, 3]).shape
        [2, 3]
    """
    return zeros(shape, dtype, name)


def empty_like(x: Tensor, dtype: Any = None, name: str | None = None) -> Any:
    """A tensor in the shape of `x` whose values nobody has chosen (they are zeros).

    Args:
        dtype: that of `x` by default.

    Example:
        >>> wb.empty_like(wb.ones([2, 3])).shape
        [2, 3]
    """
    return zeros_like(x, dtype, name)


def clone(x: Tensor, name: str | None = None) -> Any:
    """A copy of `x`, through which gradients flow.

    Example:
        >>> print(wb.clone(wb.ones([2])).numpy())
        [1. 1.]
    """
    return assign(x)


@tensor_method("rank")
def rank(input: Tensor) -> Any:
    """How many dimensions a tensor has, as a tensor of int32.

    Example:
        >>> print(wb.rank(wb.ones([3, 100, 100])).numpy())
        3
    """
    return assign(np.array(len(input.shape), np.int32))


@tensor_method("diagonal")
def diagonal(x: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1, name: str | None = None) -> Any:
    """The diagonals of the matrices that two dimensions form.

    Args:
        offset: 0 for the main diagonal, positive above it, negative below it.
        axis1, axis2: the rows and the columns of the matrices.

    Returns:
        the other dimensions, then the diagonal.

    Raises:
        InvalidArgument: one axis twice or not there; a dimension that is not known.

    Example:
        >>> print(wb.diagonal(wb.to_tensor([[1, 2], [3, 4]])).numpy())
        [1 4]
    """
    rows, columns = distinct_axes([axis1, axis2], len(x.shape))
    if any(d < 0 for d in x.shape):
        raise ShapeError("diagonal takes a tensor of known shape", "no dimension -1", shape_text(x.shape))
    others = [d for d in range(len(x.shape)) if d not in (rows, columns)]
    height, width, rest = x.shape[rows], x.shape[columns], [x.shape[d] for d in others]
    count = max(0, min(height, width - offset) if offset >= 0 else min(height + offset, width))
    flat = reshape(transpose(x, [*others, rows, columns]), [*rest, height * width])
    first = offset if offset >= 0 else -offset * width
    last = first + max(count - 1, 0) * (width + 1) + min(count, 1)
    return strided_slice(flat, [len(rest)], [first if count else 0], [last if count else 0], [width + 1], name=name)


@tensor_method("diag")
def diag(x: Tensor, offset: int = 0, padding_value: float = 0, name: str | None = None) -> Any:
    """A matrix with the vector `x` on a diagonal, or the diagonal of the matrix `x`.

    Args:
        x: `[n]` or `[n, m]`.
        offset: 0 for the main diagonal, positive above it, negative below it.
        padding_value: what the rest of a new matrix is full of.

    Raises:
        InvalidArgument: another rank, or a dimension that is not known.

    Example:
        >>> print(wb.diag(wb.to_tensor([1, 2]), padding_value=9).numpy())
        [[1 9]
         [9 2]]
    """
    if len(x.shape) == 2:
        return diagonal(x, offset, name=name)
    if len(x.shape) != 1 or x.shape[0] < 0:
        raise ShapeError("diag takes a vector or a matrix of known shape", "[n] or [n, m]", shape_text(x.shape))
    count, offset = x.shape[0], one_int("diag's offset", offset)
    width = count + abs(offset)
    before = offset if offset >= 0 else -offset * width
    rows = concat([reshape(x, [count, 1]), full([count, width], padding_value, x.dtype)], 1)
    after = max(0, width * width - before - count * (width + 1))
    ends = (full([n], padding_value, x.dtype) for n in (before, after))
    flat = concat([next(ends), reshape(rows, [count * (width + 1)]), next(ends)])
    return reshape(part_of(flat, [0], [0], [width * width]), [width, width], name=name)


@tensor_method("diagflat")
def diagflat(x: Tensor, offset: int = 0, name: str | None = None) -> Any:
    """A matrix with the elements of `x` on a diagonal, zeros elsewhere. Args and Raises: as for `diag`.

    Example:
        >>> print(wb.diagflat(wb.to_tensor([[1], [2]])).numpy())
        [[1 0]
         [0 2]]
    """
    return diag(reshape(x, [-1]), offset, name=name)


@tensor_method("rot90")
def rot90(x: Tensor, k: int = 1, axes: Any = (0, 1), name: str | None = None) -> Any:
    """`x` turned by `k` quarter turns in the plane of two dimensions, from the first towards the second.

    Raises:
        InvalidArgument: not two different dimensions of `x`.

    Example:
        >>> print(wb.rot90(wb.to_tensor([[1, 2], [3, 4]])).numpy())
        [[2 4]
         [1 3]]
    """
    plane = distinct_axes(int_list("rot90's axes", axes), len(x.shape))
    if len(plane) != 2:
        raise ShapeError("rot90 turns a plane", "2 axes", plane)
    first, second = plane
    order = list(range(len(x.shape)))
    order[first], order[second] = second, first
    turns = one_int("rot90's k", k) % 4
    if turns == 2:
        return flip(x, plane, name=name)
    if turns == 1:
        return transpose(flip(x, second), order, name=name)
    return flip(transpose(x, order), second, name=name) if turns else assign(x)


def meshgrid(*args: Any, name: str | None = None) -> Any:
    """The coordinates of a grid: vectors repeated along each other's dimensions.

    Args:
        args: tensors `[n_i]`, one by one or as a list.

    Returns:
        a list of tensors `[n_0, n_1, ...]`; the i-th changes along dimension i.

    Raises:
        InvalidArgument: a tensor of another rank, or whose size is not known.

    Example:
        >>> x, y = wb.meshgrid(wb.to_tensor([1, 2]), wb.to_tensor([5, 6, 7]))
        >>> print(y.numpy())
        [[5 6 7]
         [5 6 7]]
    """
    vectors = list(args[0]) if len(args) == 1 and isinstance(args[0], list | tuple) else list(args)
    if any(len(v.shape) > 1 or -1 in v.shape for v in vectors):
        got = ", ".join(shape_text(v.shape) for v in vectors)
        raise ShapeError("meshgrid takes vectors of known size", "[n]", got)
    vectors = [reshape(v, [1]) if not len(v.shape) else v for v in vectors]
    shape = [v.shape[0] for v in vectors]
    own = ([-1 if i == j else 1 for j in range(len(shape))] for i in range(len(shape)))
    return [expand(reshape(v, dims), shape) for v, dims in zip(vectors, own, strict=True)]


def broadcast_tensors(input: Any, name: str | None = None) -> Any:
    """Tensors broadcast to their common shape, as a list.

    Raises:
        InvalidArgument: shapes that do not broadcast.

    Example:
        >>> [v.shape for v in wb.broadcast_tensors([wb.ones([3, 1]), wb.ones([4])])]
        [[3, 4], [3, 4]]
    """
    shape: list[int] = []
    for value in input:
        shape = broadcast_shape(shape, value.shape)
    return [expand(v, shape) for v in input]


def _of_each(inputs: tuple[Any, ...], change: Any) -> Any:
    changed = [change(v) for v in inputs]
    return changed[0] if len(changed) == 1 else changed


@tensor_method("atleast_1d")
def atleast_1d(*inputs: Any, name: str | None = None) -> Any:
    """Tensors, those without dimensions as `[1]`; a list if several are given.

    Example:
        >>> wb.atleast_1d(wb.full([], 3.0)).shape
        [1]
    """
    return _of_each(inputs, lambda v: v if len(v.shape) else reshape(v, [1]))


@tensor_method("atleast_2d")
def atleast_2d(*inputs: Any, name: str | None = None) -> Any:
    """Tensors of at least two dimensions, `[n]` becoming `[1, n]`; a list if several are given.

    Example:
        >>> wb.atleast_2d(wb.ones([3])).shape
        [1, 3]
    """
    return _of_each(inputs, lambda v: v if len(v.shape) > 1 else reshape(v, [1, -1]))


@tensor_method("atleast_3d")
def atleast_3d(*inputs: Any, name: str | None = None) -> Any:
    """Tensors of at least three dimensions: `[n]` becomes `[1, n, 1]`, `[n, m]` `[n, m, 1]`; a list if several.

    Example:
        >>> wb.atleast_3d(wb.ones([3])).shape
        [1, 3, 1]
    """
    return _of_each(inputs, _with_three)


def _with_three(x: Any) -> Any:
    if len(x.shape) < 2:
        return reshape(x, [1, -1, 1])
    return reshape(x, [0, 0, 1]) if len(x.shape) == 2 else x


@tensor_method("vsplit")
def vsplit(x: Tensor, num_or_sections: Any, name: str | None = None) -> Any:
    """`x` split along its first dimension. Args: as for `split`.

    Raises:
        InvalidArgument: fewer than two dimensions, or sections that do not fit.

    Example:
        >>> [part.shape for part in wb.vsplit(wb.ones([8, 6]), 2)]
        [[4, 6], [4, 6]]
    """
    normalize_axis(1, len(x.shape))
    return split(x, num_or_sections, axis=0, name=name)


def tril_indices(row: int, col: int, offset: int = 0, dtype: Any = "int64") -> Any:
    """Where the lower triangle of a matrix `[row, col]` lies: rows and columns, `[2, n]`.

    Args:
        offset: the last diagonal that belongs to it.

    Raises:
        InvalidType: a size is no int.

    Example:
        >>> print(wb.tril_indices(2, 2).numpy())
        [[0 1 1]
         [0 0 1]]
    """
    rows, columns = one_int("row of tril_indices", row), one_int("col of tril_indices", col)
    with MemoryFor(f"tril_indices of a matrix {[rows, columns]}"):
        places = np.stack(np.tril_indices(rows, offset, columns))
    return assign(places).astype(dtype)


def triu_indices(row: int, col: int | None = None, offset: int = 0, dtype: Any = "int64") -> Any:
    """Where the upper triangle of a matrix lies. Args, Returns and Raises: as for `tril_indices`.

    Example:
        >>> print(wb.triu_indices(2, 2).numpy())
        [[0 0 1]
         [0 1 1]]
    """
    rows = one_int("row of triu_indices", row)
    columns = rows if col is None else one_int("col of triu_indices", col)
    with MemoryFor(f"triu_indices of a matrix {[rows, columns]}"):
        places = np.stack(np.triu_indices(rows, offset, columns))
    return assign(places).astype(dtype)
