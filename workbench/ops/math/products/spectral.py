"""A weight over its largest singular value."""

from __future__ import annotations

import math
from typing import Any

from workbench.ops.math.products.matmul import matmul
from workbench.ops.math.reductions.reduce import sum as reduce_sum
from workbench.ops.math.unary import sqrt
from workbench.ops.tensor.assign import detach
from workbench.ops.tensor.shape import reshape
from workbench.ops.tensor.transpose import transpose


def as_matrix(weight: Any, dim: int) -> Any:
    """`[rows, rest]`, dimension `dim` of the weight being the rows."""
    rank = len(weight.shape)
    dim %= rank
    if dim:
        weight = transpose(weight, [dim, *(d for d in range(rank) if d != dim)])
    return reshape(weight, [weight.shape[0], math.prod(weight.shape[1:])])


def power_iterations(matrix: Any, u: Any, v: Any, count: int, eps: float) -> tuple[Any, Any]:
    """Vectors of length 1, nearer to those of the largest singular value: `u` `[rows]`, `v` `[rest]`."""
    for _ in range(count):
        v = _unit(matmul(matrix, u, transpose_x=True), eps)
        u = _unit(matmul(matrix, v), eps)
    return u, v


def _unit(vector: Any, eps: float) -> Any:
    return vector / (sqrt(reduce_sum(vector * vector)) + eps)


def spectral_norm(
    weight: Any, u: Any, v: Any, dim: int = 0, power_iters: int = 1, eps: float = 1e-12
) -> tuple[Any, Any, Any]:
    """The weight over its largest singular value, and the vectors it was estimated with.

    Args:
        weight: floating tensor.
        u, v: where the power iterations begin, `[rows]` and `[rest]`. No gradient flows through the iterations.
        dim: the dimension that counts as the rows of a matrix.

    Source: Miyato et al., "Spectral Normalization for Generative Adversarial Networks", 2018.
    """
    u, v = power_iterations(as_matrix(detach(weight), dim), u, v, power_iters, eps)
    return weight / reduce_sum(u * matmul(as_matrix(weight, dim), v)), u, v
