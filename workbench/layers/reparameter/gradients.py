"""Clipping gradients that are there already, between `backward()` and the update."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from workbench.errors import ExecutionError, InvalidArgument, Unimplemented
from workbench.layers.values import set_value
from workbench.ops.math.clip import clip
from workbench.ops.math.products.distance import length
from workbench.ops.math.reductions.extreme import max as reduce_max
from workbench.ops.math.reductions.reduce import sum as reduce_sum
from workbench.ops.tensor.creation import zeros
from workbench.ops.tensor.join import stack
from workbench.ops.tensor.shape import reshape

NORMS = (0, 1, 2, float("inf"))
TINY = 1e-6  # keeps the divisor above 0


def _gradients(parameters: Any) -> list[Any]:
    """The gradients of parameters that have one."""
    some = parameters if isinstance(parameters, Iterable) and not hasattr(parameters, "grad") else [parameters]
    return [parameter.grad for parameter in some if parameter.grad is not None]


def _put(gradient: Any, clipped: Any) -> None:
    """Write over a gradient.

    Raises:
        Unimplemented: a function is being recorded.
    """
    try:
        set_value(gradient, clipped)
    except Unimplemented as error:
        error.add_note(
            "what is recorded clips gradients in the update: give the optimizer a grad_clip, "
            "nn.ClipGradByGlobalNorm(max_norm) or nn.ClipGradByValue(max)"
        )
        raise


def clip_grad_norm_(parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False) -> Any:
    """Scale the gradients of parameters, all by one factor, so that their norm together is at most `max_norm`.

    Args:
        parameters: a parameter, or several.
        norm_type: 0, 1, 2 or infinity.
        error_if_nonfinite: refuse a norm that is infinite or NaN.

    Returns:
        the norm before.

    Raises:
        InvalidArgument: another norm. ExecutionError: a norm that is not finite; the gradients are as before.

    Example:
        >>> layer = wb.nn.Linear(2, 1)
        >>> (layer(wb.ones([1, 2])) * 3.0).sum().backward()
        >>> norm = wb.nn.utils.clip_grad_norm_(layer.parameters(), 1.0)
        >>> round(float((layer.bias.grad * layer.bias.grad).sum()), 3)
        0.333
    """
    if norm_type not in NORMS:
        raise InvalidArgument(f"norm_type is 0, 1, 2 or float('inf'), got {norm_type!r}")
    gradients = _gradients(parameters)
    if not gradients:
        return zeros([])
    parts = stack([length(reshape(g, [-1]), norm_type, axis=[0]).astype("float32") for g in gradients])
    total = _together(reshape(parts, [-1]), norm_type)
    if error_if_nonfinite and not _is_finite(total):
        raise ExecutionError(f"the norm of the gradients is {total.item()}, so they cannot be clipped")
    factor = clip(float(max_norm) / (total + TINY), max=1.0)
    for g in gradients:
        _put(g, g * factor.astype(g.dtype))
    return total


def _together(parts: Any, norm_type: float) -> Any:
    """The norm of all elements from the norms of parts."""
    if norm_type == float("inf"):
        return reduce_max(parts)
    return reduce_sum(parts) if norm_type in (0, 1) else length(parts, 2, axis=None)


def _is_finite(total: Any) -> bool:
    value = float(total)
    return value - value == 0


def clip_grad_value_(parameters: Any, clip_value: float) -> None:
    """Clip every element of the gradients of parameters to [-clip_value, clip_value].

    Args:
        parameters: a parameter, or several.

    Example:
        >>> layer = wb.nn.Linear(2, 1)
        >>> (layer(wb.ones([1, 2])) * 3.0).sum().backward()
        >>> wb.nn.utils.clip_grad_value_(layer.parameters(), 0.5)
        >>> print(layer.bias.grad.numpy())
        [0.5]
    """
    for g in _gradients(parameters):
        _put(g, clip(g, min=-float(clip_value), max=float(clip_value)))
