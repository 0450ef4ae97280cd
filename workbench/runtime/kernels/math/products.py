"""Matrix products by the BLAS."""

from __future__ import annotations

from workbench.runtime.kernels.arguments import Reals
from workbench.runtime.kernels.intrinsics import bytes_behind, gemm
from workbench.runtime.kernels.registry import kernel
from workbench.runtime.words import product as product_words


@kernel(words=product_words, divides=("n0", "n1"))
def gemm_batch(
    a: Reals(
        ("m", "item if flip_a == FLIPPED else item * lda"), ("k", "item * lda if flip_a == FLIPPED else item"),
        ("n0", "a0"), ("n1", "a1"),
    ),
    flip_a, lda,
    b: Reals(
        ("k", "item if flip_b == FLIPPED else item * ldb"), ("n", "item * ldb if flip_b == FLIPPED else item"),
        ("n0", "b0"), ("n1", "b1"),
    ),
    flip_b, ldb, c: Reals(("m", "item * ldc"), ("n", "item"), ("n0", "c0"), ("n1", "c1")), ldc, m, n, k, adds, target,
    n0, a0, b0, c0, n1, a1, b1, c1,
):  # fmt: skip
    """`C[m, n] = op(A) op(B)`, or `C += op(A) op(B)`, for a batch of n0 x n1; its strides are in bytes.

    Leading dimensions are in elements.
    """
    for i in range(n0):
        for j in range(n1):
            here, there = bytes_behind(a, i * a0 + j * a1), bytes_behind(b, i * b0 + j * b1)
            out = bytes_behind(c, i * c0 + j * c1)
            gemm(target, flip_a, flip_b, m, n, k, 1.0, here, lda, there, ldb, 1.0 if adds else 0.0, out, ldc)
    return 0
