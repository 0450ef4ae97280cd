"""Matrices as products of simpler ones: Cholesky, QR, singular values, eigenvalues.

Source of the gradients: M. Giles, "Collected Matrix Derivative Results for Forward and Reverse Mode Algorithmic
Differentiation", 2008; Walter and Lehmann, "Algorithmic Differentiation of Linear Algebra Functions", 2018 (QR).
"""

from __future__ import annotations

from typing import Any

from workbench.errors import InvalidArgument
from workbench.framework.op.declare import op
from workbench.framework.op.infix import tensor_method
from workbench.framework.values.spec import Spec
from workbench.ops.linalg.matrices import (
    identity_like,
    matrix_spec,
    require_regular,
    shorter_side,
    square_spec,
    transposed,
)
from workbench.ops.linalg.solving import TRIANGULAR_SOLVE
from workbench.ops.math.compare import where
from workbench.ops.math.products.matmul import matmul
from workbench.ops.tensor.assign import detach
from workbench.ops.tensor.shape import unsqueeze
from workbench.ops.tensor.triangles import tril, triu

OFFERED = {"workbench.linalg": "cholesky eigh eigvalsh qr svd"}


def _symmetric(xp: Any, x: Any) -> Any:
    return (x + xp.swapaxes(x, -1, -2)) / 2


# Cholesky


def _cholesky_grad(g: Any, out: Any, x: Any, upper: bool) -> Any:
    lower, g = (transposed(out), transposed(g)) if upper else (out, g)
    product = matmul(transposed(lower), g)
    half = tril(product) - product * identity_like(product) * 0.5
    left = TRIANGULAR_SOLVE(lower, half, upper=False, transpose=True)
    both = transposed(TRIANGULAR_SOLVE(lower, transposed(left), upper=False, transpose=True))
    return (both + transposed(both)) * 0.5


@op(
    "cholesky",
    "X -> Out",
    attrs={"upper": False},
    infer=lambda x, upper: square_spec("cholesky", x),
    grad=_cholesky_grad,
    saved="Out",
)
def CHOLESKY(xp: Any, x: Any, upper: bool) -> Any:
    """Triangles L with L L^T = X (`upper`: their transposes)."""
    lower = require_regular("cholesky", lambda: xp.linalg.cholesky(_symmetric(xp, x)))
    return xp.swapaxes(lower, -1, -2) if upper else lower


def from_triangle(x: Any, upper: bool) -> Any:
    """Symmetric matrices of which one triangle of `x` counts; the gradient goes to all of `x`, as in Paddle.

    Of symmetric matrices it is `x` to the last bit.
    """
    part = triu(x, 1) if upper else tril(x, -1)
    mirrored = (triu(x) if upper else tril(x)) + transposed(part)
    return detach(mirrored) + (x - detach(x))


def cholesky(x: Any, upper: bool = False, name: str | None = None) -> Any:
    """The lower triangles L with x = L L^T, or the upper ones U with x = U^T U.

    Args:
        x: symmetric positive definite matrices, float32 or float64, [..., n, n]; the lower (`upper`: upper) triangle
            counts.

    Raises:
        InvalidArgument: other shapes; when run, a matrix that is not positive definite. InvalidType: other dtypes.

    Example:
        >>> print(wb.linalg.cholesky(wb.to_tensor([[4.0, 2.0], [2.0, 5.0]])).numpy())
        [[2. 0.]
         [1. 2.]]
    """
    return CHOLESKY(from_triangle(x, bool(upper)), upper=bool(upper), name=name)


tensor_method("cholesky")(cholesky)


# Symmetric eigenvalues


def _infer_eigh(x: Spec) -> tuple[Spec, Spec]:
    square_spec("eigh", x)
    return x.with_shape(x.shape[:-1]), x


def _of_distances(values: Any) -> Any:
    """1 / (v_j - v_i), 0 on the diagonal."""
    distances = unsqueeze(values, -2) - unsqueeze(values, -1)
    is_zero = distances == 0.0
    return where(is_zero, 0.0, 1.0 / where(is_zero, 1.0, distances))


def _eigh_grad(gs: Any, outs: Any, x: Any) -> Any:
    values, vectors = outs
    inner = 0.0
    if gs[1] is not None:
        inner = matmul(transposed(vectors), gs[1]) * _of_distances(values)
    if gs[0] is not None:
        inner = inner + unsqueeze(gs[0], -2) * identity_like(x)
    whole = matmul(matmul(vectors, inner), transposed(vectors))
    return (whole + transposed(whole)) * 0.5


@op("eigh", "X -> Eigenvalues, Eigenvectors", infer=_infer_eigh, grad=_eigh_grad, saved="Eigenvalues, Eigenvectors")
def EIGH(xp: Any, x: Any) -> tuple[Any, Any]:
    """Eigenvalues of symmetric matrices, in order, and their vectors."""
    values, vectors = xp.linalg.eigh(_symmetric(xp, x))
    return values, vectors


def eigh(x: Any, UPLO: str = "L", name: str | None = None) -> tuple[Any, Any]:
    """The eigenvalues of symmetric matrices, the smallest first, and vectors of length 1 for them, as columns.

    Args:
        x: float32 or float64, [..., n, n].
        UPLO: "L" or "U": which triangle counts.

    Raises:
        InvalidArgument: other shapes. InvalidType: other dtypes.

    Example:
        >>> values, vectors = wb.linalg.eigh(wb.to_tensor([[2.0, 1.0], [1.0, 2.0]]))
        >>> print(values.numpy().round(3))
        [1. 3.]
    """
    if UPLO not in ("L", "U"):
        raise InvalidArgument(f"eigh's UPLO is 'L' or 'U', got {UPLO!r}")
    return EIGH(from_triangle(x, UPLO == "U"), name=name)


def eigvalsh(x: Any, UPLO: str = "L", name: str | None = None) -> Any:
    """The eigenvalues of symmetric matrices, the smallest first. Args and Raises: as for `eigh`.

    Example:
        >>> print(wb.linalg.eigvalsh(wb.to_tensor([[2.0, 1.0], [1.0, 2.0]])).numpy().round(3))
        [1. 3.]
    """
    return eigh(x, UPLO, name)[0]


tensor_method("eigvalsh")(eigvalsh)


# Singular values


def _infer_svd(x: Spec, full_matrices: bool) -> tuple[Spec, Spec, Spec]:
    matrix_spec("svd", x)
    *batch, rows, columns = x.shape
    count = shorter_side(rows, columns)
    left, right = (rows, columns) if full_matrices else (count, count)
    return (
        x.with_shape((*batch, rows, left)),
        x.with_shape((*batch, count)),
        x.with_shape((*batch, right, columns)),
    )


def _svd_grad(gs: Any, outs: Any, x: Any, full_matrices: bool) -> Any:
    if full_matrices and x.shape[-1] != x.shape[-2] and (gs[0] is not None or gs[2] is not None):
        raise InvalidArgument("svd: with full_matrices only the singular values have a gradient")
    left, values, right = outs
    if full_matrices:
        count = values.shape[-1]
        left, right = left[..., :count], right[..., :count, :]
    row, column = unsqueeze(values, -2), unsqueeze(values, -1)
    by_squares = _of_distances(values * values)
    inner, whole = 0.0, 0.0
    if gs[0] is not None:
        turned = matmul(transposed(left), gs[0])
        inner = by_squares * (turned - transposed(turned)) * row
        whole = matmul((gs[0] - matmul(left, turned)) / row, right)
    if gs[2] is not None:
        turned = matmul(gs[2], transposed(right))
        inner = inner + column * (by_squares * (transposed(turned) - turned))
        whole = whole + matmul(left, (gs[2] - matmul(turned, right)) / column)
    if gs[1] is not None:
        inner = inner + unsqueeze(gs[1], -2) * identity_like(unsqueeze(values, -1) * unsqueeze(values, -2))
    return whole + matmul(matmul(left, inner), right)


@op("svd", "X -> U, S, VH", attrs={"full_matrices": False}, infer=_infer_svd, grad=_svd_grad, saved="U, S, VH",
    shape_only="X")  # fmt: skip
def SVD(xp: Any, x: Any, full_matrices: bool) -> tuple[Any, Any, Any]:
    """Singular values, the largest first, and their vectors."""
    left, values, right = xp.linalg.svd(x, full_matrices=full_matrices)
    return left, values, right


def svd(x: Any, full_matrices: bool = False, name: str | None = None) -> tuple[Any, Any, Any]:
    """U, S and VH with x = U diag(S) VH, the singular values S in order, the largest first.

    Args:
        x: float32 or float64, [..., m, n].
        full_matrices: U and VH are square.

    Raises:
        InvalidArgument: no matrices. InvalidType: other dtypes.

    Example:
        >>> print(wb.linalg.svd(wb.to_tensor([[3.0, 0.0], [0.0, 4.0]]))[1].numpy().round(3))
        [4. 3.]
    """
    return SVD(x, full_matrices=bool(full_matrices), name=name)


tensor_method("svd")(svd)


# QR


def _infer_qr(x: Spec, mode: str) -> tuple[Spec, Spec]:
    matrix_spec("qr", x)
    *batch, rows, columns = x.shape
    inner = rows if mode == "complete" else shorter_side(rows, columns)
    return x.with_shape((*batch, rows, inner)), x.with_shape((*batch, inner, columns))


def _qr_grad(gs: Any, outs: Any, x: Any, mode: str) -> Any:
    q, r = outs
    if q.shape[-1] != r.shape[-1]:
        raise InvalidArgument("qr: a gradient takes at least as many rows as columns, and not mode 'complete'")
    product: Any = 0.0
    if gs[1] is not None:
        product = matmul(r, transposed(gs[1]))
    if gs[0] is not None:
        product = product - matmul(transposed(gs[0]), q)
    below = tril(product, -1)
    inner = matmul(q, below + transposed(below) + product * identity_like(product))
    inner = inner if gs[0] is None else inner + gs[0]
    return transposed(TRIANGULAR_SOLVE(r, transposed(inner)))


@op("qr", "X -> Q, R", attrs={"mode": "reduced"}, infer=_infer_qr, grad=_qr_grad, saved="Q, R")
def QR(xp: Any, x: Any, mode: str) -> tuple[Any, Any]:
    """Q with orthogonal columns and an upper triangle R, X = Q R."""
    q, r = xp.linalg.qr(x, mode=mode)
    return q, r


def qr(x: Any, mode: str = "reduced", name: str | None = None) -> Any:
    """Q with orthogonal columns of length 1 and upper triangles R with x = Q R.

    Args:
        x: float32 or float64, [..., m, n].
        mode: "reduced": Q has min(m, n) columns; "complete": m; "r": R alone.

    Raises:
        InvalidArgument: no matrices, another mode. InvalidType: other dtypes.

    Example:
        >>> q, r = wb.linalg.qr(wb.to_tensor([[1.0, 2.0], [3.0, 4.0]]))
        >>> print((q @ r).numpy().round(3))
        [[1. 2.]
         [3. 4.]]
    """
    if mode not in ("reduced", "complete", "r"):
        raise InvalidArgument(f"qr's mode is 'reduced', 'complete' or 'r', got {mode!r}")
    q, r = QR(x, mode="reduced" if mode == "r" else mode, name=name)
    return r if mode == "r" else (q, r)


tensor_method("qr")(qr)
