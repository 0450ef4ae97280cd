"""Matrix products by the BLAS."""

from __future__ import annotations

from workbench.runtime.kernels.intrinsics import INT, sgemm
from workbench.runtime.kernels.registry import kernel


@kernel(*[INT] * 21)
def gemm_batch(
    a, flip_a, lda, b, flip_b, ldb, c, ldc, m, n, k, adds, target, n0, a0, b0, c0, n1, a1, b1, c1
):  # fmt: skip
    """`C[m, n] = op(A) op(B)`, or `C += op(A) op(B)`, for a batch of n0 x n1; its strides are in bytes.

    Leading dimensions are in elements.
    """
    for i in range(n0):
        for j in range(n1):
            here, there, out = a + i * a0 + j * a1, b + i * b0 + j * b1, c + i * c0 + j * c1
            sgemm(target, flip_a, flip_b, m, n, k, 1.0, here, lda, there, ldb, 1.0 if adds else 0.0, out, ldc)
    return 0
