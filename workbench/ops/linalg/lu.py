"""Matrices as lower and upper triangles, with rows exchanged."""

from __future__ import annotations

from typing import Any

from workbench.errors import InvalidArgument, ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.infix import tensor_method
from workbench.framework.values.dtype import int32
from workbench.framework.values.spec import Spec
from workbench.ops.linalg.matrices import identity_like, matrix_spec, shorter_side, transposed
from workbench.ops.linalg.solving import TRIANGULAR_SOLVE
from workbench.ops.math.products.matmul import matmul
from workbench.ops.tensor.creation import full_like
from workbench.ops.tensor.join import concat
from workbench.ops.tensor.triangles import tril, triu

OFFERED = {"workbench.linalg": "lu lu_unpack"}


def _infer_lu(x: Spec) -> tuple[Spec, Spec, Spec]:
    matrix_spec("lu", x)
    *batch, rows, columns = x.shape
    return x, Spec((*batch, shorter_side(rows, columns)), int32), Spec(tuple(batch) or (1,), int32)


def _lu_grad(gs: Any, outs: Any, x: Any) -> Any:
    """Of P L U with the exchanges as they are; rows below and columns beside the square part follow it."""
    if min(x.shape[-2:]) < 0:
        raise ShapeError("the gradient of lu takes matrices of known shape", "no dimension -1", list(x.shape))
    both, pivots, g, count = outs[0], outs[1], gs[0], min(x.shape[-2:])
    square, of_square = both[..., :count, :count], g[..., :count, :count]
    lower = tril(square, -1) + identity_like(square)
    of_lower = matmul(transposed(lower), tril(of_square, -1))
    of_upper = matmul(triu(of_square), transposed(triu(square)))
    is_tall, is_wide = x.shape[-2] > count, x.shape[-1] > count
    if is_tall:
        of_upper = of_upper - matmul(transposed(both[..., count:, :]), g[..., count:, :])
    if is_wide:
        of_lower = of_lower - matmul(g[..., count:], transposed(both[..., count:]))
    inner = tril(of_lower, -1) + triu(of_upper)
    rows = transposed(
        TRIANGULAR_SOLVE(square, transposed(concat([inner, g[..., count:, :]], -2) if is_tall else inner))
    )
    result = TRIANGULAR_SOLVE(square, rows[..., :count, :], upper=False, transpose=True, unitriangular=True)
    if is_tall:
        result = concat([result, rows[..., count:, :]], -2)
    if is_wide:
        beside = TRIANGULAR_SOLVE(square, g[..., count:], upper=False, transpose=True, unitriangular=True)
        result = concat([result, beside], -1)
    return matmul(LU_PIVOTS(pivots, x), result)


@op("lu", "X -> Out, Pivots, Infos", infer=_infer_lu, grad=_lu_grad, saved="Out, Pivots", shape_only="X")
def LU(xp: Any, x: Any) -> tuple[Any, Any, Any]:
    """Both triangles in one matrix; with which row (from 1) each was exchanged; where the first pivot 0 is."""
    *batch, rows, columns = x.shape
    out, count = xp.array(x), min(rows, columns)
    pivots, infos = xp.zeros((*batch, count), "int32"), xp.zeros(batch or (1,), "int32")
    for place in xp.ndindex(*batch):
        matrix = out[place]
        for i in range(count):
            best = i + int(xp.abs(matrix[i:, i]).argmax())
            pivots[(*place, i)] = best + 1
            matrix[[i, best]] = matrix[[best, i]]
            if matrix[i, i] == 0:
                at = place or (0,)
                infos[at] = infos[at] or i + 1
                continue
            matrix[i + 1 :, i] /= matrix[i, i]
            matrix[i + 1 :, i + 1 :] -= matrix[i + 1 :, i : i + 1] * matrix[i, i + 1 :]
    return out, pivots, infos


def lu(x: Any, pivot: bool = True, get_infos: bool = False, name: str | None = None) -> Any:
    """Matrices as P L U, L and U in one tensor, and with which row (from 1) each was exchanged.

    Args:
        x: float32 or float64, [..., m, n].
        pivot: True.
        get_infos: give as a third result where (from 1) the first pivot is 0, or 0.

    Raises:
        InvalidArgument: no matrices, or `pivot` is False. InvalidType: other dtypes.

    Example:
        >>> both, pivots = wb.linalg.lu(wb.to_tensor([[1.0, 2.0], [2.0, 2.0]]))
        >>> print(both.numpy(), pivots.numpy())
        [[2.  2. ]
         [0.5 1. ]] [2 2]
    """
    if not pivot:
        raise InvalidArgument("lu exchanges rows: pivot is True")
    out, pivots, infos = LU(x, name=name)
    return (out, pivots, infos) if get_infos else (out, pivots)


tensor_method("lu")(lu)


@op(
    "lu_pivots",
    "Pivots, Like -> Out",
    infer=lambda pivots, like: like.with_shape((*like.shape[:-1], like.shape[-2])),
    no_grad="Pivots, Like",
)
def LU_PIVOTS(xp: Any, pivots: Any, like: Any) -> Any:
    """The permutation matrices P of exchanges of rows."""
    *batch, rows, _ = like.shape
    out = xp.zeros((*batch, rows, rows), like.dtype)
    for place in xp.ndindex(*batch):
        order = xp.arange(rows)
        for i, other in enumerate(pivots[place] - 1):
            order[[i, other]] = order[[other, i]]
        out[place][order, xp.arange(rows)] = 1
    return out


def lu_unpack(
    x: Any, y: Any, unpack_ludata: bool = True, unpack_pivots: bool = True, name: str | None = None
) -> tuple[Any, Any, Any]:
    """P, L and U from what `lu` gives; None for those that are not asked for.

    Raises:
        InvalidArgument, InvalidType: as for `lu`.

    Example:
        >>> p, l, u = wb.linalg.lu_unpack(*wb.linalg.lu(wb.to_tensor([[1.0, 2.0], [2.0, 2.0]])))
        >>> print((p @ l @ u).numpy())
        [[1. 2.]
         [2. 2.]]
    """
    if len(x.shape) < 2:
        raise ShapeError("lu_unpack takes matrices", "[..., m, n]", list(x.shape))
    count = min(x.shape[-2:])
    lower = upper = None
    if unpack_ludata:
        left = tril(x, -1)[..., :count]
        lower, upper = left + tril(triu(full_like(left, 1.0))), triu(x)[..., :count, :]
    return LU_PIVOTS(y, x) if unpack_pivots else None, lower, upper


tensor_method("lu_unpack")(lu_unpack)
