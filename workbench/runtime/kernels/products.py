"""Matrix products by the BLAS."""

from __future__ import annotations

from workbench.runtime.kernels.intrinsics import INT, REAL, sgemm
from workbench.runtime.kernels.registry import kernel


@kernel(INT, INT, INT, INT, INT, INT, REAL, INT, INT, INT, INT, REAL, INT, INT)
def gemm(target, flip_a, flip_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc):
    """`C[m, n] = alpha * op(A) op(B) + beta * C`; leading dimensions in elements."""
    sgemm(target, flip_a, flip_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
    return 0


@kernel(*[INT] * 11, REAL, REAL, *[INT] * 9)
def gemm_batch(
    a, flip_a, lda, b, flip_b, ldb, c, ldc, m, n, k, alpha, beta, target, n0, a0, b0, c0, n1, a1, b1, c1
):  # fmt: skip
    """The same for a batch of n0 x n1, whose strides in bytes follow the sizes."""
    for i in range(n0):
        for j in range(n1):
            here, there, out = a + i * a0 + j * a1, b + i * b0 + j * b1, c + i * c0 + j * c1
            sgemm(target, flip_a, flip_b, m, n, k, alpha, here, lda, there, ldb, beta, out, ldc)
    return 0
