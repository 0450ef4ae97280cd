"""Matrix products by the BLAS."""

from __future__ import annotations

from workbench.runtime.kernels.intrinsics import INT, REAL, sgemm
from workbench.runtime.kernels.registry import kernel


@kernel(INT, INT, INT, INT, INT, INT, REAL, INT, INT, INT, INT, REAL, INT, INT)
def gemm(target, flip_a, flip_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
    """`C[m, n] = alpha * op(A) op(B) + beta * C`; leading dimensions in elements."""
    sgemm(target, flip_a, flip_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
    return 0
