"""Channels of a batch: where they are, and the steps batch normalisation is made of.

`norm` takes these steps on one batch, `sync_norm` on a batch that is spread over devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.framework.values.sums import add_up
from workbench.ops.precision import rounded, wide


def channel_axis(rank: int, data_layout: str) -> int:
    """The dimension that counts channels."""
    return 1 if data_layout == "NCHW" or rank == 2 else rank - 1


def other_axes(rank: int, data_layout: str) -> tuple[int, ...]:
    """The dimensions a channel's statistics are taken over."""
    channel = channel_axis(rank, data_layout)
    return tuple(i for i in range(rank) if i != channel)


def per_channel(shape: Sequence[int], data_layout: str) -> list[int]:
    """The shape under which a vector of channels broadcasts against `shape`."""
    channel = channel_axis(len(shape), data_layout)
    return [-1 if i == channel else 1 for i in range(len(shape))]


def uses_given_statistics(is_test: bool, use_global_stats: bool, trainable_statistics: bool) -> bool:
    """Whether the moving statistics normalise, not those of the batch."""
    return use_global_stats or (is_test and not trainable_statistics)


def rescaled(centred: Any, x: Any, scale: Any, bias: Any, inverse: Any, columns: Sequence[int]) -> Any:
    """centred * inverse * scale + bias per channel in the dtype of `x`; overwrites `centred`."""
    dtype = centred.dtype
    centred *= (inverse if scale is None else inverse * wide(scale)).astype(dtype).reshape(columns)
    if bias is not None:
        centred += wide(bias).astype(dtype).reshape(columns)
    return rounded(centred, x)


def moved(moving: Any, batch: Any, momentum: float) -> Any:
    """The moving statistic after a batch, in its own dtype."""
    return rounded(wide(moving) * momentum + batch * (1 - momentum), moving)


def normalised(x: Any, mean: Any, inverse: Any, columns: Sequence[int]) -> Any:
    """(x - mean) / std per channel, a new array."""
    return (wide(x) - mean.reshape(columns)) * inverse.reshape(columns)


def gradient_sums(g: Any, normal: Any, axes: tuple[int, ...]) -> tuple[Any, Any]:
    """The sums over channels of g and of g * normal: the gradients of bias and scale."""
    return add_up(g, axes), add_up(g * normal, axes)


def input_gradient(
    xp: Any, g: Any, normal: Any, mean_g: Any, mean_along: Any, scale: Any, inverse: Any, columns: Sequence[int]
) -> Any:
    """The gradient of x from the channel means of g and of g * normal; takes over the memory of `normal`."""
    normal *= mean_along.reshape(columns)
    normal += mean_g.reshape(columns)
    g_x = xp.subtract(g, normal, out=normal)
    g_x *= slope(scale, inverse, columns)
    return g_x


def slope(scale: Any, inverse: Any, columns: Sequence[int]) -> Any:
    """What an element of a channel is multiplied with: scale / std."""
    inverse = inverse.reshape(columns)
    return inverse if scale is None else inverse * wide(scale).reshape(columns)
