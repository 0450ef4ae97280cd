"""Layer normalisation of rows, batch normalisation of planes."""

from __future__ import annotations

from typing import Any

from workbench.runtime.reach.declare import FLOAT, reaches, span
from workbench.runtime.reach.divide import divides


@divides("rows", x=(FLOAT, "width"), y=(FLOAT, "width"), mean=(FLOAT,), variance=(FLOAT,))
@reaches("x", "scale", "bias", "y", "mean", "variance")
def layer_norm(
    x: Any, scale: Any, bias: Any, y: Any, mean: Any, variance: Any, rows: int, width: int, epsilon: float
) -> Any:
    whole, row, column = FLOAT * rows * width, FLOAT * width, FLOAT * rows
    return whole, row, row, whole, column, column


@reaches("x", "g", "scale", "mean", "variance", "g_x", "g_scale", "g_bias", "partial")
def layer_norm_grad(
    x: Any, g: Any, scale: Any, mean: Any, variance: Any, g_x: Any, g_scale: Any, g_bias: Any, partial: Any,
    rows: int, width: int, epsilon: float,
) -> Any:  # fmt: skip
    whole, row, column = FLOAT * rows * width, FLOAT * width, FLOAT * rows
    return whole, whole, row, column, column, whole, row, row, 2 * row


@divides("count", x=(FLOAT, "width"), mean=(FLOAT,), variance=(FLOAT,))
@reaches("x", "mean", "variance")
def plane_moments(x: Any, mean: Any, variance: Any, batch: int, channels: int, width: int, count: int) -> Any:
    return _channels(batch, channels, width, count), FLOAT * count, FLOAT * count


@divides("batch", x=(FLOAT, "channels", "width"), y=(FLOAT, "channels", "width"))
@reaches("x", "mean", "slope", "bias", "y")
def plane_shift(
    x: Any, mean: Any, slope: Any, bias: Any, y: Any, batch: int, channels: int, width: int
) -> Any:  # fmt: skip
    whole, each = FLOAT * batch * channels * width, FLOAT * channels
    return whole, each, each, each, whole


@divides(
    "count", x=(FLOAT, "width"), g=(FLOAT, "width"), mean=(FLOAT,), inverse=(FLOAT,), g_scale=(FLOAT,), g_bias=(FLOAT,)
)  # fmt: skip
@reaches("x", "g", "mean", "inverse", "g_scale", "g_bias")
def plane_sums(
    x: Any, g: Any, mean: Any, inverse: Any, g_scale: Any, g_bias: Any, batch: int, channels: int, width: int,
    count: int,
) -> Any:  # fmt: skip
    some, each = _channels(batch, channels, width, count), FLOAT * count
    return some, some, each, each, each, each


@divides("batch", x=(FLOAT, "channels", "width"), g=(FLOAT, "channels", "width"), g_x=(FLOAT, "channels", "width"))
@reaches("x", "g", "mean", "inverse", "along", "level", "slope", "g_x")
def plane_gradients(
    x: Any, g: Any, mean: Any, inverse: Any, along: Any, level: Any, slope: Any, g_x: Any, batch: int, channels: int,
    width: int,
) -> Any:  # fmt: skip
    whole, each = FLOAT * batch * channels * width, FLOAT * channels
    return whole, whole, each, each, each, each, each, whole


def _channels(batch: int, channels: int, width: int, count: int) -> Any:
    """Bytes from the first of some channels to the end of the last one."""
    return span((batch, FLOAT * channels * width), (count, FLOAT * width), (width, FLOAT))
