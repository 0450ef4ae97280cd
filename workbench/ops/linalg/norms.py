"""Norms of matrices, what is measured by them, and what is made of decompositions; composed of other ops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, ShapeError
from workbench.framework.op.infix import Infix, tensor_method
from workbench.framework.values.dtype import int32
from workbench.framework.values.spec import shape_text
from workbench.ops.arguments import distinct_axes, int_list
from workbench.ops.linalg.factors import SVD, eigh
from workbench.ops.linalg.matrices import INVERSE, identity_like, transposed
from workbench.ops.math.compare import where
from workbench.ops.math.products.distance import length
from workbench.ops.math.products.matmul import matmul
from workbench.ops.math.reductions.extreme import max as reduce_max
from workbench.ops.math.reductions.extreme import min as reduce_min
from workbench.ops.math.reductions.reduce import mean
from workbench.ops.math.reductions.reduce import sum as reduce_sum
from workbench.ops.math.unary import abs, sqrt
from workbench.ops.tensor.assign import constant_of
from workbench.ops.tensor.creation import full_like, zeros_like
from workbench.ops.tensor.shape import flatten, reshape, unsqueeze
from workbench.ops.tensor.transpose import transpose

OFFERED = {
    "workbench": "norm",
    "workbench.linalg": "cond corrcoef cov householder_product matrix_rank multi_dot norm pca_lowrank pinv",
}


@tensor_method("norm")
def norm(x: Any, p: Any = "fro", axis: Any = None, keepdim: bool = False, name: str | None = None) -> Any:
    """The p-norm along one dimension, or of all entries of two or more.

    Args:
        x: floating tensor.
        p: a number, inf or -inf; "fro": the square root of the sum of squares; "nuc": the sum of the singular values
            of matrices (with two axes).
        axis: an int or several; None: all.
        keepdim: keep the dimensions with size 1.

    Raises:
        InvalidArgument: another p, axes that are not there.

    Example:
        >>> wb.linalg.norm(wb.to_tensor([[3.0], [4.0]])).item()
        5.0
    """
    if p == "nuc":
        return _nuclear(x, axis, keepdim)
    if p != "fro" and not isinstance(p, int | float):
        raise InvalidArgument(f"norm's p is a number, 'fro' or 'nuc', got {p!r}")
    if axis is None and not keepdim:
        x, axis = flatten(x), 0
    return length(x, 2.0 if p == "fro" else float(p), axis=axis, keepdim=keepdim, name=name)


def _nuclear(x: Any, axis: Any, keepdim: bool) -> Any:
    rank = len(x.shape)
    axes = distinct_axes(int_list("norm's axis", list(range(rank)) if axis is None else axis), rank)
    if len(axes) != 2:
        raise ShapeError("the nuclear norm is that of matrices", "two axes", axes)
    moved = transpose(x, [*(a for a in range(rank) if a not in axes), *axes])
    norm = reduce_sum(SVD(moved)[1], -1)
    return unsqueeze(norm, sorted(axes)) if keepdim else norm


@tensor_method("cond")
def cond(x: Any, p: Any = None, name: str | None = None) -> Any:
    """How much matrices magnify errors: norm(x) norm(inv(x)); for None and 2 from singular values, for -2 its inverse.

    Args:
        x: float32 or float64, [..., m, n]; square for other p.
        p: None, 2, -2, "fro", "nuc", 1, -1, inf or -inf.

    Raises:
        InvalidArgument: another p, or shape.

    Example:
        >>> wb.linalg.cond(wb.to_tensor([[4.0, 0.0], [0.0, 2.0]])).numpy().round(3).item()
        2.0
    """
    if p in (None, 2, -2):
        values = SVD(x)[1]
        most, least = reduce_max(values, -1), reduce_min(values, -1)
        return least / most if p == -2 else most / least
    if p not in ("fro", "nuc", 1, -1, math.inf, -math.inf):
        raise InvalidArgument(f"cond's p is None, 'fro', 'nuc', 1, -1, 2, -2, inf or -inf, got {p!r}")
    return _matrix_norm(x, p) * _matrix_norm(INVERSE(x), p)


def _matrix_norm(x: Any, p: Any) -> Any:
    if p in ("fro", "nuc"):
        return norm(x, p, axis=[-2, -1])
    sums = reduce_sum(abs(x), -2 if p in (1, -1) else -1)
    return reduce_max(sums, -1) if p > 0 else reduce_min(sums, -1)


def _singular_values(x: Any, hermitian: bool) -> Any:
    return abs(eigh(x)[0]) if hermitian else SVD(x)[1]


@tensor_method("matrix_rank")
def matrix_rank(x: Any, tol: Any = None, hermitian: bool = False, name: str | None = None) -> Any:
    """How many singular values of matrices are above a tolerance, as int32.

    Args:
        x: float32 or float64, [..., m, n].
        tol: a number or a tensor; by default the precision times max(m, n) times the largest one.
        hermitian: the matrices are symmetric.

    Raises:
        InvalidArgument: no matrices.

    Example:
        >>> wb.linalg.matrix_rank(wb.to_tensor([[1.0, 2.0], [2.0, 4.0]])).item()
        1
    """
    values = _singular_values(x, hermitian)
    if tol is None:
        share = max(x.shape[-2:]) * float(np.finfo(x.dtype.numpy).eps)
        tol = reduce_max(values, -1, keepdim=True) * share
    elif isinstance(tol, Infix):
        tol = unsqueeze(tol.astype(x.dtype), -1)
    return reduce_sum((values > tol).astype(int32), -1, int32, name=name)


@tensor_method("pinv")
def pinv(x: Any, rcond: Any = 1e-15, hermitian: bool = False, name: str | None = None) -> Any:
    """The pseudo-inverses of matrices.

    Args:
        x: float32 or float64, [..., m, n].
        rcond: singular values below this share of the largest count as 0.
        hermitian: the matrices are symmetric.

    Raises:
        InvalidArgument: no matrices.

    Example:
        >>> print(wb.linalg.pinv(wb.to_tensor([[2.0, 0.0]])).numpy())
        [[0.5]
         [0. ]]
    """
    if hermitian:
        values, left = eigh(x)
        right = transposed(left)
    else:
        left, values, right = SVD(x)
    share = unsqueeze(rcond, -1) if isinstance(rcond, Infix) else float(rcond)
    counts = abs(values) > reduce_max(abs(values), -1, keepdim=True) * share
    inverse = where(counts, 1.0 / where(counts, values, full_like(values, 1.0)), zeros_like(values))
    return matmul(transposed(right) * unsqueeze(inverse, -2), transposed(left), name=name)


def multi_dot(x: Any, name: str | None = None) -> Any:
    """The product of a chain of matrices, in the order that takes the fewest multiplications.

    Args:
        x: a list of at least two matrices; the first and the last one may be vectors.

    Raises:
        InvalidArgument: fewer than two, other ranks.

    Example:
        >>> print(wb.linalg.multi_dot([wb.ones([1, 2]), wb.ones([2, 3]), wb.ones([3, 1])]).numpy())
        [[6.]]
    """
    chain = list(x)
    if len(chain) < 2:
        raise InvalidArgument(f"multi_dot multiplies at least two matrices, got {len(chain)}")
    ranks = [len(m.shape) for m in chain]
    if any(r != 2 for r in ranks[1:-1]) or not {ranks[0], ranks[-1]} <= {1, 2}:
        raise ShapeError(
            "multi_dot multiplies matrices", "vectors only at the ends", [shape_text(m.shape) for m in chain]
        )
    chain[0] = unsqueeze(chain[0], 0) if ranks[0] == 1 else chain[0]
    chain[-1] = unsqueeze(chain[-1], 1) if ranks[-1] == 1 else chain[-1]
    product = _chained(chain)
    kept = [d for d, rank in zip(product.shape, (ranks[0], ranks[-1]), strict=True) if rank == 2]
    return product if len(kept) == 2 else reshape(product, kept, name=name)


def _chained(chain: list[Any]) -> Any:
    """The cheapest order: for every piece of the chain where to part it."""
    sizes = [max(m.shape[0], 1) for m in chain] + [max(chain[-1].shape[1], 1)]
    cost = {(i, i): 0 for i in range(len(chain))}
    part = {}
    for span in range(1, len(chain)):
        for i in range(len(chain) - span):
            j = i + span
            ways = {k: cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1] for k in range(i, j)}
            part[i, j] = min(ways, key=ways.__getitem__)
            cost[i, j] = ways[part[i, j]]

    def product(i: int, j: int) -> Any:
        return chain[i] if i == j else matmul(product(i, part[i, j]), product(part[i, j] + 1, j))

    return product(0, len(chain) - 1)


def cov(
    x: Any, rowvar: bool = True, ddof: bool = True, fweights: Any = None, aweights: Any = None, name: str | None = None
) -> Any:
    """The covariances of variables.

    Args:
        x: [variables, observations], or [observations]; the other way round without `rowvar`.
        ddof: divide by the number of observations less one.
        fweights: how often each observation counts, integers. aweights: its weight.

    Raises:
        InvalidArgument: more than two dimensions.

    Example:
        >>> print(wb.linalg.cov(wb.to_tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])).numpy())
        [[ 1. -1.]
         [-1.  1.]]
    """
    if len(x.shape) > 2:
        raise ShapeError("cov takes observations of variables", "at most 2 dimensions", shape_text(x.shape))
    rows = unsqueeze(x, 0) if len(x.shape) < 2 else x if rowvar else transposed(x)
    weights = full_like(rows[0], 1.0)
    for given in (fweights, aweights):
        weights = weights if given is None else weights * given.astype(x.dtype)
    total = reduce_sum(weights)
    away = rows - reduce_sum(rows * weights, 1, keepdim=True) / total
    count = total
    if ddof:
        count = total - (reduce_sum(weights * aweights.astype(x.dtype)) / total if aweights is not None else 1.0)
    product = matmul(away * weights, transposed(away)) / count
    return reshape(product, []) if len(x.shape) < 2 else product


def corrcoef(x: Any, rowvar: bool = True, name: str | None = None) -> Any:
    """The correlations of variables. Args and Raises: as for `cov`.

    Example:
        >>> print(wb.linalg.corrcoef(wb.to_tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])).numpy().round(3))
        [[ 1. -1.]
         [-1.  1.]]
    """
    covariance = cov(x, rowvar)
    if not len(covariance.shape):
        return covariance / covariance
    spread = sqrt((covariance * identity_like(covariance)).sum(-1))
    return (covariance / unsqueeze(spread, -1) / unsqueeze(spread, -2)).clip(-1.0, 1.0)


tensor_method("cov")(cov)
tensor_method("corrcoef")(corrcoef)


def householder_product(x: Any, tau: Any, name: str | None = None) -> Any:
    """The first n columns of the product of reflections 1 - tau_i v_i v_i^T.

    Args:
        x: [..., m, n]; column i holds v_i below the diagonal, on which it is 1.
        tau: [..., k], k <= n.

    Raises:
        InvalidArgument: shapes that do not fit.

    Example:
        >>> print(wb.linalg.householder_product(wb.to_tensor([[5.0], [0.0]]), wb.to_tensor([2.0])).numpy())
        [[-1.]
         [ 0.]]
    """
    rows, columns = x.shape[-2:]
    if not 0 <= tau.shape[-1] <= columns <= rows:
        got = f"{shape_text(x.shape)} and {shape_text(tau.shape)}"
        raise ShapeError("householder_product takes reflections", "[..., m, n] and [..., k], k <= n <= m", got)
    out = zeros_like(x) + _rectangle(x)
    for i in range(tau.shape[-1] - 1, -1, -1):
        v = x[..., i : i + 1] * _below(x, i) + _unit(x, i)
        out = out - unsqueeze(tau[..., i : i + 1], -1) * matmul(v, matmul(transposed(v), out))
    return out


def _column(x: Any, values: np.ndarray) -> Any:
    return constant_of(values, x.dtype)


def _rectangle(x: Any) -> Any:
    return _column(x, np.eye(*x.shape[-2:]))


def _below(x: Any, i: int) -> Any:
    return _column(x, (np.arange(x.shape[-2]) > i)[:, None])


def _unit(x: Any, i: int) -> Any:
    return _column(x, (np.arange(x.shape[-2]) == i)[:, None])


def pca_lowrank(
    x: Any, q: int | None = None, center: bool = True, niter: int = 2, name: str | None = None
) -> tuple[Any, Any, Any]:
    """U, S and V of the `q` largest singular values of `x`, whose columns are first `center`ed.

    Args:
        x: float32 or float64, [..., m, n].
        q: by default 6, or all if there are fewer.
        niter: not used; the values are exact.

    Raises:
        InvalidArgument: q larger than m or n.

    Example:
        >>> u, s, v = wb.linalg.pca_lowrank(wb.to_tensor([[3.0, 0.0], [-3.0, 0.0]]), q=1)
        >>> print(s.numpy().round(3))
        [4.243]
    """
    most = min(x.shape[-2:])
    count = min(6, most) if q is None else q
    if not 0 <= count <= most:
        raise InvalidArgument(f"pca_lowrank takes q from 0 to {most}, got {q}")
    left, values, right = SVD(x - mean(x, -2, keepdim=True) if center else x)
    return left[..., :count], values[..., :count], transposed(right)[..., :count]
