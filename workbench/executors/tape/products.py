"""Matrix products as rows of a tape."""

from __future__ import annotations

import math

import numpy as np

from workbench.executors.plan import Row
from workbench.executors.tape.rules import FLOAT, native, operands, require, require_plain
from workbench.executors.tape.writer import TapeWriter
from workbench.runtime.native.tape import address

AS_IT_IS, FLIPPED = 111, 112  # as CBLAS numbers them


def gemm(
    writer: TapeWriter, a: np.ndarray, b: np.ndarray, out: np.ndarray, alpha: float = 1.0, beta: float = 0.0
) -> None:
    """`out = alpha a @ b + beta out` for matrices with a contiguous dimension each."""
    require(a.ndim == b.ndim == out.ndim == 2, a.dtype == b.dtype == out.dtype == FLOAT)
    (m, k), n = a.shape, b.shape[1]
    require(m > 0, n > 0, k > 0)
    flip_a, lda = layout(a)
    flip_b, ldb = layout(b)
    flip_c, ldc = layout(out)
    require(flip_c == AS_IT_IS)
    writer.row(
        "gemm", writer.sgemm, flip_a, flip_b, m, n, k, alpha, address(a), lda, address(b), ldb, beta, address(out), ldc
    )  # fmt: skip


def layout(matrix: np.ndarray) -> tuple[int, int]:
    """Whether a matrix lies in memory transposed, and the distance of its rows, or columns, in elements."""
    (rows, cols), (down, right) = matrix.shape, (s // matrix.itemsize for s in matrix.strides)
    if (right == 1 or cols == 1) and (down >= cols or rows == 1):
        return AS_IT_IS, max(down, cols)
    require(down == 1 or rows == 1, right >= rows or cols == 1)
    return FLIPPED, max(right, rows)


def _matrix(array: np.ndarray, dims: int) -> np.ndarray:
    """The array as a matrix whose rows are the first `dims` dimensions."""
    require_plain(array)
    return array.reshape(math.prod(array.shape[:dims]), math.prod(array.shape[dims:]))


@native("mul")
def mul(writer: TapeWriter, row: Row) -> None:
    (out,), (x, y) = operands(writer, row)
    x_dims, y_dims = row.node.attrs["x_num_col_dims"], row.node.attrs["y_num_col_dims"]
    gemm(writer, _matrix(x, x_dims), _matrix(y, y_dims), _matrix(out, x_dims))


@native("mul_grad")
def mul_grad(writer: TapeWriter, row: Row) -> None:
    (g_x, g_y), (x, y, g) = operands(writer, row)
    x_dims, y_dims = row.node.attrs["x_num_col_dims"], row.node.attrs["y_num_col_dims"]
    require(g is not None)
    require_plain(*(a for a in (g_x, g_y, x, y, g) if a is not None))
    left, right, g = _matrix(x, x_dims), _matrix(y, y_dims), _matrix(g, x_dims)
    if g_x is not None:
        gemm(writer, g, right.T, g_x.reshape(left.shape))
    if g_y is not None:
        gemm(writer, left.T, g, g_y.reshape(right.shape))
