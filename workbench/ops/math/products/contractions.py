"""Products of vectors, matrices and tensors, composed of `matmul` and others."""

from __future__ import annotations

import math
from typing import Any

from workbench.errors import ShapeError
from workbench.framework.op.infix import tensor_method
from workbench.framework.values.spec import normalize_axis, shape_text
from workbench.ops.arguments import int_list
from workbench.ops.math.products.distance import length
from workbench.ops.math.products.matmul import matmul
from workbench.ops.math.reductions.reduce import sum as reduce_sum
from workbench.ops.pointwise import Tensor
from workbench.ops.tensor.arranged import diagonal
from workbench.ops.tensor.shape import flatten, reshape
from workbench.ops.tensor.transpose import transpose

OFFERED = {"workbench": "addmm dist inner kron mv outer tensordot trace"}


@tensor_method("addmm")
def addmm(input: Tensor, x: Tensor, y: Tensor, beta: float = 1.0, alpha: float = 1.0, name: str | None = None) -> Any:
    """`beta * input + alpha * (x @ y)`.

    Args:
        input: broadcasts with the product.
        x, y: matrices `[m, k]` and `[k, n]`.

    Raises:
        InvalidArgument: x and y are no matrices, or do not fit.

    Example:
        >>> print(wb.addmm(wb.ones([2, 2]), wb.ones([2, 2]), wb.ones([2, 2]), beta=0.5, alpha=5.0).numpy())
        [[10.5 10.5]
         [10.5 10.5]]
    """
    if len(x.shape) != 2 or len(y.shape) != 2:
        raise ShapeError(
            "addmm multiplies matrices", "2 dimensions", f"{shape_text(x.shape)} and {shape_text(y.shape)}"
        )
    return input * beta + matmul(x, y, name=name) * alpha


@tensor_method("mv")
def mv(x: Tensor, vec: Tensor, name: str | None = None) -> Any:
    """A matrix times a vector: `[m, n]` and `[n]` -> `[m]`.

    Raises:
        InvalidArgument: other shapes.

    Example:
        >>> print(wb.mv(wb.to_tensor([[2.0, 1.0], [0.0, 3.0]]), wb.to_tensor([1.0, 2.0])).numpy())
        [4. 6.]
    """
    if len(x.shape) != 2 or len(vec.shape) != 1:
        got = f"{shape_text(x.shape)} and {shape_text(vec.shape)}"
        raise ShapeError("mv multiplies a matrix and a vector", "[m, n] and [n]", got)
    return matmul(x, vec, name=name)


@tensor_method("outer")
def outer(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """Every element of `x` times every element of `y`, both flattened: shape `[size of x, size of y]`.

    Example:
        >>> print(wb.outer(wb.to_tensor([1, 2]), wb.to_tensor([3, 4, 5])).numpy())
        [[ 3  4  5]
         [ 6  8 10]]
    """
    return reshape(x, [-1, 1]) * reshape(y, [1, -1])


@tensor_method("inner")
def inner(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """The sums of products over the last dimensions: `[..., n]` and `[:::, n]` -> `[..., :::]`.

    A tensor without dimensions multiplies the other one.

    Raises:
        InvalidArgument: last dimensions that differ.

    Example:
        >>> print(wb.inner(wb.to_tensor([[1.0, 2.0]]), wb.to_tensor([[3.0, 4.0], [5.0, 6.0]])).numpy())
        [[11. 17.]]
    """
    if not len(x.shape) or not len(y.shape):
        return x * y
    if x.shape[-1] != y.shape[-1] and -1 not in (x.shape[-1], y.shape[-1]):
        got = f"{shape_text(x.shape)} and {shape_text(y.shape)}"
        raise ShapeError("inner sums over last dimensions of one size", "[..., n] and [..., n]", got)
    return tensordot(x, y, [[len(x.shape) - 1], [len(y.shape) - 1]])


@tensor_method("kron")
def kron(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """The Kronecker product: every element of `x` replaced by it times `y`.

    Args:
        x, y: tensors of one dtype; the one with fewer dimensions gets leading ones of size 1.

    Returns:
        each dimension is the product of those of `x` and `y`.

    Raises:
        InvalidArgument: a dimension is not known.

    Example:
        >>> print(wb.kron(wb.to_tensor([1, 2]), wb.to_tensor([1, 10])).numpy())
        [ 1 10  2 20]
    """
    rank = max(len(x.shape), len(y.shape))
    left, right = ([1] * (rank - len(v.shape)) + _known("kron", v) for v in (x, y))
    product = reshape(x, [d for n in left for d in (n, 1)]) * reshape(y, [d for n in right for d in (1, n)])
    return reshape(product, [a * b for a, b in zip(left, right, strict=True)], name=name)


def _known(what: str, x: Any) -> list[int]:
    if any(d < 0 for d in x.shape):
        raise ShapeError(f"{what} takes tensors of known shape", "no dimension -1", shape_text(x.shape))
    return list(x.shape)


@tensor_method("tensordot")
def tensordot(x: Tensor, y: Tensor, axes: Any = 2, name: str | None = None) -> Any:
    """The sums of products over pairs of dimensions.

    Args:
        axes: an int n, the last n dimensions of `x` and the first n of `y`; a list of ints, those of both; or two
            lists, those of `x` and those of `y` (if one is shorter, the other's remaining ones count for it as well).

    Returns:
        the other dimensions of `x`, then those of `y`.

    Raises:
        InvalidArgument: sizes that differ, axes that are not there; or an unknown size where more than one is left.

    Example:
        >>> print(wb.tensordot(wb.ones([2, 3]), wb.ones([3, 4]), axes=1).shape)
        [2, 4]
    """
    ours, theirs = _paired(axes, len(x.shape), len(y.shape))
    for a, b in zip(ours, theirs, strict=True):
        if x.shape[a] != y.shape[b] and -1 not in (x.shape[a], y.shape[b]):
            got = f"axis {a} of {shape_text(x.shape)} and axis {b} of {shape_text(y.shape)}"
            raise ShapeError("tensordot sums over dimensions of one size", "equal sizes", got)
    left = [d for d in range(len(x.shape)) if d not in ours]
    right = [d for d in range(len(y.shape)) if d not in theirs]
    summed = size_of_all([x.shape[d] for d in ours])
    rows, columns = size_of_all([x.shape[d] for d in left]), size_of_all([y.shape[d] for d in right])
    a = reshape(transpose(x, left + ours), [rows, summed])
    b = reshape(transpose(y, theirs + right), [summed, columns])
    return reshape(matmul(a, b), [x.shape[d] for d in left] + [y.shape[d] for d in right], name=name)


def size_of_all(dims: list[int]) -> int:
    """The product of dimensions, -1 if one is not known."""
    return -1 if -1 in dims else math.prod(dims)


def _paired(axes: Any, rank: int, other: int) -> tuple[list[int], list[int]]:
    if isinstance(axes, int):
        return list(range(rank - axes, rank)), list(range(axes))
    given = axes.tolist() if hasattr(axes, "tolist") else list(axes)
    if all(isinstance(a, int) for a in given):
        given = [given, given]
    ours, theirs = (int_list("tensordot's axes", a) for a in (given if len(given) > 1 else given * 2))
    ours, theirs = ours + theirs[len(ours) :], theirs + ours[len(theirs) :]
    return [normalize_axis(a, rank) for a in ours], [normalize_axis(a, other) for a in theirs]


@tensor_method("dist")
def dist(x: Tensor, y: Tensor, p: float = 2, name: str | None = None) -> Any:
    """The p-norm of `x - y` over all elements.

    Args:
        x, y: floating tensors that broadcast.
        p: a number >= 0, or an infinity.

    Example:
        >>> print(wb.dist(wb.to_tensor([[3.0, 4.0]]), wb.zeros([1, 2])).item())
        5.0
    """
    return length(flatten(x - y), float(p), axis=0, name=name)


@tensor_method("trace")
def trace(x: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1, name: str | None = None) -> Any:
    """The sums of the diagonals that `diagonal` gives. Args and Raises: as there.

    Example:
        >>> wb.trace(wb.to_tensor([[1.0, 2.0], [3.0, 4.0]])).item()
        5.0
    """
    return reduce_sum(diagonal(x, offset, axis1, axis2), axis=-1, name=name)
