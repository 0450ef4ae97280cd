"""Matrix products by the BLAS."""

from __future__ import annotations

from workbench.runtime.kernels.arguments import Address
from workbench.runtime.kernels.intrinsics import dgemm, sgemm
from workbench.runtime.kernels.registry import kernel
from workbench.runtime.words import product as product_words


@kernel(words=product_words, divides=("n0", "n1"))
def gemm_batch(
    a: Address(
        ("m", "4 if flip_a == FLIPPED else 4 * lda"), ("k", "4 * lda if flip_a == FLIPPED else 4"),
        ("n0", "a0"), ("n1", "a1"),
    ),
    flip_a, lda,
    b: Address(
        ("k", "4 if flip_b == FLIPPED else 4 * ldb"), ("n", "4 * ldb if flip_b == FLIPPED else 4"),
        ("n0", "b0"), ("n1", "b1"),
    ),
    flip_b, ldb, c: Address(("m", "4 * ldc"), ("n", 4), ("n0", "c0"), ("n1", "c1")), ldc, m, n, k, adds, target, n0,
    a0, b0, c0, n1, a1, b1, c1,
):  # fmt: skip
    """`C[m, n] = op(A) op(B)`, or `C += op(A) op(B)`, for a batch of n0 x n1; its strides are in bytes.

    Leading dimensions are in elements.
    """
    for i in range(n0):
        for j in range(n1):
            here, there, out = a + i * a0 + j * a1, b + i * b0 + j * b1, c + i * c0 + j * c1
            sgemm(target, flip_a, flip_b, m, n, k, 1.0, here, lda, there, ldb, 1.0 if adds else 0.0, out, ldc)
    return 0


@kernel(words=product_words, divides=("n0", "n1"))
def gemm_batch_of_doubles(
    a: Address(
        ("m", "8 if flip_a == FLIPPED else 8 * lda"), ("k", "8 * lda if flip_a == FLIPPED else 8"),
        ("n0", "a0"), ("n1", "a1"), item=8,
    ),
    flip_a, lda,
    b: Address(
        ("k", "8 if flip_b == FLIPPED else 8 * ldb"), ("n", "8 * ldb if flip_b == FLIPPED else 8"),
        ("n0", "b0"), ("n1", "b1"), item=8,
    ),
    flip_b, ldb, c: Address(("m", "8 * ldc"), ("n", 8), ("n0", "c0"), ("n1", "c1"), item=8), ldc, m, n, k, adds, target,
    n0, a0, b0, c0, n1, a1, b1, c1,
):  # fmt: skip
    """The same of float64."""
    for i in range(n0):
        for j in range(n1):
            here, there, out = a + i * a0 + j * a1, b + i * b0 + j * b1, c + i * c0 + j * c1
            dgemm(target, flip_a, flip_b, m, n, k, 1.0, here, lda, there, ldb, 1.0 if adds else 0.0, out, ldc)
    return 0
