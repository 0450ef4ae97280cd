"""Draws from a categorical distribution that have a gradient."""

from __future__ import annotations

from workbench.errors import InvalidArgument
from workbench.ops.index.embedding import one_hot
from workbench.ops.loss.softmax import softmax
from workbench.ops.math.reductions.extreme import argmax
from workbench.ops.math.unary import log
from workbench.ops.pointwise import Tensor
from workbench.ops.random.distributions import UNIFORM_LIKE
from workbench.ops.tensor.assign import detach
from workbench.ops.tensor.transpose import moveaxis

OFFERED = {"workbench.nn.functional": "gumbel_softmax"}


def gumbel_softmax(
    x: Tensor, temperature: float = 1.0, hard: bool = False, axis: int = -1, name: str | None = None
) -> Tensor:
    """Softmax of `x` with Gumbel noise, over `temperature`: a draw from a categorical distribution that has a gradient.

    Args:
        x: logits, floating tensor.
        temperature: a number > 0; the smaller, the nearer to one-hot.
        hard: one-hot, with the gradient of the soft result.

    Raises:
        InvalidArgument: temperature <= 0.

    Source: Jang, Gu and Poole, "Categorical Reparameterization with Gumbel-Softmax", 2017.

    Example:
        >>> print(F.gumbel_softmax(wb.to_tensor([[9.0, -90.0]]), hard=True).numpy())
        [[1. 0.]]
    """
    if not temperature > 0:
        raise InvalidArgument(f"gumbel_softmax takes a temperature above 0, got {temperature!r}")
    noise = -log(-log(UNIFORM_LIKE(x, min=1e-10, max=1.0)))
    soft = softmax((x + noise) * (1.0 / temperature), axis=axis, name=name)
    if not hard:
        return soft
    chosen = moveaxis(one_hot(argmax(soft, axis=axis), soft.shape[axis]), -1, axis).astype(soft.dtype)
    return (chosen - detach(soft)) + soft
