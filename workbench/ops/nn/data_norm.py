"""Normalising features by summaries kept of all data so far: how many values, their sum, and that of their squares."""

from __future__ import annotations

from typing import Any

from workbench.errors import ShapeError
from workbench.framework.op.declare import op
from workbench.framework.values.spec import Spec, require_float, require_same_dtype, same_dim, shape_text
from workbench.ops.math.compare import where
from workbench.ops.math.reductions.reduce import sum as reduce_sum
from workbench.ops.math.unary import ABS, SQRT
from workbench.ops.nn.channels import channel_axis, other_axes, per_channel
from workbench.ops.precision import in_float32
from workbench.ops.tensor.creation import ones_like
from workbench.ops.tensor.shape import reshape
from workbench.ops.tensor.slicing import strided_slice
from workbench.ops.tensor.tile import tile

_NONE = 1e-7  # a number of shows up to this is none


def _infer(
    x: Spec, size: Spec, total: Spec, squares: Spec, scale: Spec | None, bias: Spec | None,
    data_layout: str, slot_dim: int, enable_scale_and_shift: bool, **attrs: Any,
) -> Any:  # fmt: skip
    require_float("data_norm", x)
    require_same_dtype("data_norm", *[s for s in (x, size, total, squares, scale, bias) if s is not None])
    if len(x.shape) < 2:
        raise ShapeError("data_norm takes rows of features", "at least two dimensions", shape_text(x.shape))
    if data_layout not in ("NCHW", "NHWC"):
        raise ShapeError("the layout of data_norm is unknown", "'NCHW' or 'NHWC'", data_layout)
    channels = x.shape[channel_axis(len(x.shape), data_layout)]
    for name, spec in zip(("BatchSize", "BatchSum", "BatchSquareSum"), (size, total, squares), strict=True):
        _require_one_each(name, spec, channels)
    if enable_scale_and_shift and (scale is None or bias is None):
        raise ShapeError("data_norm with enable_scale_and_shift", "scale_w and bias", "without")
    for name, weight in (("scale_w", scale), ("bias", bias)):
        if weight is not None:
            _require_one_each(name, weight, channels)
    if slot_dim > 0 and (len(x.shape) != 2 or (channels >= 0 and channels % slot_dim)):
        raise ShapeError("data_norm with slots", f"[rows, a multiple of {slot_dim}]", shape_text(x.shape))
    return x, size, size


def _require_one_each(name: str, spec: Spec, channels: int) -> None:
    if len(spec.shape) != 1 or not same_dim(spec.shape[0], channels):
        raise ShapeError(f"{name} of data_norm has one entry per channel", f"[{channels}]", shape_text(spec.shape))


def _rule(
    g: Any, out: Any, x: Any, size: Any, total: Any, squares: Any, scale: Any, bias: Any,
    epsilon: float, data_layout: str, slot_dim: int, enable_scale_and_shift: bool, **attrs: Any,
) -> tuple[Any, ...]:  # fmt: skip
    axes, columns = list(other_axes(len(x.shape), data_layout)), per_channel(x.shape, data_layout)
    shown = _shown_elements(x, slot_dim) if slot_dim > 0 else ones_like(x)
    centred = x - reshape(total / size, columns)
    scales = reshape(SQRT(size / squares), columns)
    arriving = g[0] * shown
    weight = reshape(scale, columns) if enable_scale_and_shift else None

    def summary(values: Any) -> Any:
        """The sum over what is shown; per slot the mean of it."""
        added = reduce_sum(values * shown, axis=axes)
        count = reduce_sum(shown, axis=axes)
        return where(count > 0.0, added / count, added) if slot_dim > 0 else added

    def summary_of_squares() -> Any:
        return summary(centred * centred) + reduce_sum(shown, axis=axes) * epsilon

    return (
        arriving * scales if weight is None else arriving * scales * weight,
        lambda: summary(ones_like(x)),
        lambda: summary(x),
        summary_of_squares,
        (lambda: reduce_sum(arriving * centred * scales, axis=axes)) if enable_scale_and_shift else None,
        (lambda: reduce_sum(arriving, axis=axes)) if enable_scale_and_shift else None,
    )


def _shown_elements(x: Any, slot_dim: int) -> Any:
    """1 for elements of slots that were shown, 0 for those of others, shaped as `x`."""
    shows = strided_slice(x, [1], [0], [x.shape[1]], [slot_dim])
    is_shown = (ABS(shows) > _NONE).astype(x.dtype)
    return reshape(tile(reshape(is_shown, [-1, x.shape[1] // slot_dim, 1]), [1, 1, slot_dim]), [-1, x.shape[1]])


@op(
    "data_norm",
    "X, BatchSize, BatchSum, BatchSquareSum, scale_w?, bias? -> Y, Means, Scales",
    attrs={
        "epsilon": 1e-5,
        "data_layout": "NCHW",
        "slot_dim": -1,
        "summary_decay_rate": 0.9999999,
        "sync_stats": False,
        "enable_scale_and_shift": False,
    },
    infer=_infer,
    grad=_rule,
    saved="X, BatchSize, BatchSum, BatchSquareSum, scale_w",
    shape_only="bias",
    by_products="Means, Scales",
)
@in_float32
def DATA_NORM(
    xp: Any, x: Any, size: Any, total: Any, squares: Any, scale: Any, bias: Any,
    data_layout: str, slot_dim: int, enable_scale_and_shift: bool, **attrs: Any,
) -> tuple[Any, ...]:  # fmt: skip
    """(x - total / size) * sqrt(size / squares) per channel, then scaled and shifted where that is asked for.

    Of a slot (`slot_dim` features, the first of which counts shows) that was never shown in a row, the row gets zeros.

    The three summaries have no derivatives. What arrives at them as gradients is the summary of the batch: how many
    values there were, their sum, and that of their squared distances from the mean, with epsilon for each (with
    slots: their means over the rows that show them). Parameter servers add that up.
    """
    columns = per_channel(x.shape, data_layout)
    means, scales = total / size, xp.sqrt(size / squares)
    y = (x - means.reshape(columns)) * scales.reshape(columns)
    if enable_scale_and_shift:
        y = y * scale.reshape(columns) + bias.reshape(columns)
    if slot_dim > 0:
        y = xp.where(xp.repeat(xp.abs(x[:, ::slot_dim]) > _NONE, slot_dim, axis=1), y, x.dtype.type(0))
    return y, means, scales
