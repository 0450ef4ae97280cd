"""Distances and similarities of vectors, and vectors of length 1."""

from __future__ import annotations

from typing import Any

from workbench.errors import InvalidArgument
from workbench.ops.math.clip import clip
from workbench.ops.math.reductions.extreme import max as reduce_max
from workbench.ops.math.reductions.extreme import min as reduce_min
from workbench.ops.math.reductions.reduce import sum as reduce_sum
from workbench.ops.math.unary import abs, sign, sqrt

OFFERED = {"workbench.nn.functional": "cosine_similarity normalize pairwise_distance"}


def length(x: Any, p: float, axis: Any, keepdim: bool = False, name: str | None = None) -> Any:
    """The p-norm along `axis`: (sum |x|^p)^(1/p); for p = 0 how many entries are not 0, for inf the largest."""
    size = abs(x)
    if p == float("inf"):
        return reduce_max(size, axis=axis, keepdim=keepdim, name=name)
    if p == float("-inf"):
        return reduce_min(size, axis=axis, keepdim=keepdim, name=name)
    if p == 0:
        return reduce_sum(sign(size), axis=axis, keepdim=keepdim, name=name)
    if p == 1:
        return reduce_sum(size, axis=axis, keepdim=keepdim, name=name)
    if p == 2:
        return sqrt(reduce_sum(x * x, axis=axis, keepdim=keepdim), name=name)
    return reduce_sum(size**p, axis=axis, keepdim=keepdim) ** (1.0 / p)


def pairwise_distance(
    x: Any, y: Any, p: float = 2.0, epsilon: float = 1e-6, keepdim: bool = False, name: str | None = None
) -> Any:
    """The p-norm of `x - y + epsilon` along the last dimension.

    Args:
        x, y: `[N, D]` or `[D]`, of one dtype.
        p: a number >= 0, or infinity.
        epsilon: keeps the gradient of equal vectors finite.

    Example:
        >>> print(F.pairwise_distance(wb.to_tensor([[3.0, 4.0]]), wb.zeros([1, 2]), epsilon=0.0).numpy())
        [5.]
    """
    return length(x - y + epsilon, p, axis=-1, keepdim=keepdim, name=name)


def cosine_similarity(x1: Any, x2: Any, axis: int = 1, eps: float = 1e-8) -> Any:
    """`x1 . x2 / max(|x1| |x2|, eps)` along `axis`.

    Example:
        >>> print(F.cosine_similarity(wb.to_tensor([[1.0, 0.0]]), wb.to_tensor([[3.0, 4.0]])).numpy())
        [0.6]
    """
    both = reduce_sum(x1 * x2, axis=axis)
    squares = reduce_sum(x1 * x1, axis=axis) * reduce_sum(x2 * x2, axis=axis)
    return both / sqrt(clip(squares, min=eps * eps))


def normalize(x: Any, p: float = 2, axis: int = 1, epsilon: float = 1e-12, name: str | None = None) -> Any:
    """`x` over its p-norm along `axis`, which counts as `epsilon` at least.

    Args:
        axis: the only one of a vector, whatever it says.

    Raises:
        InvalidArgument: p below 0.

    Example:
        >>> print(F.normalize(wb.to_tensor([[3.0, 4.0]])).numpy())
        [[0.6 0.8]]
    """
    if p < 0:
        raise InvalidArgument(f"normalize takes p >= 0, got {p}")
    along = 0 if len(x.shape) == 1 else axis
    return x / clip(length(x, p, axis=along, keepdim=True), min=epsilon)
