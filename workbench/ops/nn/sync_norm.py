"""Batch normalisation of a batch that is spread over devices (BuildStrategy.sync_batch_norm).

Each device adds up its own rows, a collective adds the sums of all devices, and each device goes on with the total:

    batch_norm:       batch_norm_sums       all_reduce  batch_norm_with_sums
    batch_norm_grad:  batch_norm_grad_sums  all_reduce  batch_norm_grad_with_sums

Sums are float64. The statistics follow from the total alone, so they are the same bits on all devices; a device may
have no rows at all. Gradients of scale and bias stay those of the device's own rows: the engine adds them up like
those of any other parameter.

The total alone must give the variance, as accurately as two passes over the whole batch would. The sum of x * x does
not: its rounding counts (mean / deviation)**2 times, which float64 hides for float32 inputs only. Shifting by the
moving mean needs one that is near (not so in the first steps) and the same on all devices (not promised). So each
device writes x = a + r, its *anchor* `a` being its mean rounded to ANCHOR_BITS. The r are small and are summed as
batch_norm sums; sums of a and a * a have so few bits that they are exact, and what is subtracted from them later
cancels exactly. Rounding counts once until the mean is 2**ANCHOR_BITS deviations. No wider copy of X is made.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from workbench.errors import DtypeError, InvalidArgument, ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.grad_op import require_like
from workbench.framework.op.record import Op
from workbench.framework.values.dtype import float64
from workbench.framework.values.spec import Spec, require_float, same_dim, shape_text
from workbench.ops.nn.channels import (
    gradient_sums,
    input_gradient,
    moved,
    normalised,
    other_axes,
    per_channel,
    rescaled,
)
from workbench.ops.nn.norm import BATCH_NORM
from workbench.ops.precision import rounded, wide

ANCHOR_BITS = 14  # a * a times a count below 2**25 fits the 53 bits of float64
FORWARD_ROWS = 6  # count, and the sums of a, a * a, r, a * r, r * r
BACKWARD_ROWS = 3  # count, and the sums of g and g * normal
CHANNELS = Spec((-1,), float64)  # one number per channel, however many there are


def _channels(x: Spec, data_layout: str, mean: Spec = CHANNELS, variance: Spec = CHANNELS) -> int:
    """The number of channels, -1 if unknown; refuses what batch_norm refuses."""
    return int(BATCH_NORM.infer(x, None, None, mean, variance, data_layout=data_layout)[3].shape[0])


def _require_sums(slot: str, sums: Spec, rows: int, channels: int) -> None:
    if sums.dtype != float64:
        raise DtypeError(f"{slot} is what the sums op gives", float64, sums.dtype)
    fits = len(sums.shape) == 2 and same_dim(sums.shape[0], rows) and same_dim(sums.shape[1], channels)
    if not fits:
        raise ShapeError(f"{slot} is what the sums op gives", shape_text((rows, channels)), shape_text(sums.shape))


@op(
    "batch_norm_sums",
    "X -> Sums",
    attrs={"data_layout": "NCHW"},
    infer=lambda x, data_layout: Spec((FORWARD_ROWS, _channels(x, data_layout)), float64),
    cost=BATCH_NORM.cost,
)
def BATCH_NORM_SUMS(xp: Any, x: Any, data_layout: str) -> Any:
    """What one device adds to the statistics of the whole batch: `[6, C]` float64, all zero without rows."""
    axes, columns = other_axes(x.ndim, data_layout), per_channel(x.shape, data_layout)
    count = math.prod(x.shape[a] for a in axes)
    if not count:
        return xp.zeros((FORWARD_ROWS, x.shape[columns.index(-1)]), "float64")
    w = wide(x)
    anchor = _coarse(xp, w.mean(axis=axes).astype("float64"))
    rest = w - anchor.astype(w.dtype).reshape(columns)
    first = rest.sum(axis=axes).astype("float64")
    rest *= rest
    second = rest.sum(axis=axes).astype("float64")
    counts = xp.full_like(anchor, count)
    return xp.stack([counts, counts * anchor, counts * anchor * anchor, first, anchor * first, second])


def _coarse(xp: Any, values: Any) -> Any:
    """Values rounded to ANCHOR_BITS significant bits."""
    mantissa, exponent = xp.frexp(values)
    return xp.ldexp(xp.rint(xp.ldexp(mantissa, ANCHOR_BITS)), exponent - ANCHOR_BITS)


def _statistics(xp: Any, sums: Any) -> tuple[Any, Any]:
    """Mean and biased variance, float64, from the sums of all devices: moments about a common anchor."""
    count, anchors, squares, first, along, second = sums
    anchor = _coarse(xp, anchors / count)
    between = (squares - 2 * anchor * anchors) + count * anchor * anchor  # of the devices' anchors; no rounding
    moment = between + 2 * (along - anchor * first) + second
    shift = ((anchors - count * anchor) + first) / count
    return anchor + shift, xp.maximum(moment / count - shift * shift, 0.0)


def _infer_with_sums(
    x: Spec, scale: Spec | None, bias: Spec | None, mean: Spec, variance: Spec, sums: Spec,
    data_layout: str, **attrs: Any,
) -> tuple[Spec, ...]:  # fmt: skip
    specs = BATCH_NORM.infer(x, scale, bias, mean, variance, data_layout=data_layout)
    _require_sums("Sums", sums, FORWARD_ROWS, specs[3].shape[0])
    return tuple(specs)


@op(
    "batch_norm_with_sums",
    "X, Scale?, Bias?, Mean, Variance, Sums -> Y, MeanOut, VarianceOut, SavedMean, SavedVariance",
    attrs={"momentum": 0.9, "epsilon": 1e-5, "data_layout": "NCHW"},
    like_x="Y",
    replicated="MeanOut, VarianceOut, SavedMean, SavedVariance",
    by_products="MeanOut, VarianceOut, SavedMean, SavedVariance",
    infer=_infer_with_sums,
    aliases=dict(BATCH_NORM.aliases),
    cost=BATCH_NORM.cost,
)
def BATCH_NORM_WITH_SUMS(
    xp: Any, x: Any, scale: Any, bias: Any, moving_mean: Any, moving_variance: Any, sums: Any,
    momentum: float, epsilon: float, data_layout: str,
) -> tuple[Any, ...]:  # fmt: skip
    """The outputs of `batch_norm` in training for the rows of one device; Sums are those of all devices."""
    columns = per_channel(x.shape, data_layout)
    if not x.size:
        _require_values(sums)
    mean, variance = _statistics(xp, sums)
    w = wide(x)
    saved_mean = mean.astype(w.dtype)
    inverse = (1 / xp.sqrt(variance + epsilon)).astype(w.dtype)
    return (
        rescaled(w - saved_mean.reshape(columns), x, scale, bias, inverse, columns),
        moved(moving_mean, mean, momentum),
        moved(moving_variance, variance, momentum),
        saved_mean,
        inverse,
    )


def _require_values(sums: Any) -> None:
    if not sums[0].all():
        raise InvalidArgument(
            "synchronised batch_norm needs at least one value per channel\n"
            "  expected: rows on some device\n  got:      an empty X on every device"
        )


def _infer_grad_sums(x: Spec, saved_mean: Spec, saved_inverse: Spec, g_y: Spec, data_layout: str) -> Spec:
    require_float("batch_norm_grad_sums", g_y)
    require_like("Y@GRAD", "Y", g_y, x)
    return Spec((BACKWARD_ROWS, _channels(x, data_layout, saved_mean, saved_inverse)), float64)


@op(
    "batch_norm_grad_sums",
    "X, SavedMean, SavedVariance, Y@GRAD -> Sums",
    attrs={"data_layout": "NCHW"},
    infer=_infer_grad_sums,
    cost=BATCH_NORM.cost,
)
def BATCH_NORM_GRAD_SUMS(xp: Any, x: Any, saved_mean: Any, saved_inverse: Any, g_y: Any, data_layout: str) -> Any:
    """What one device adds to the gradient of the whole batch: `[3, C]` float64.

    These are sums of wide numbers as `batch_norm_grad` takes them; nothing large cancels in them.
    """
    axes, columns = other_axes(x.ndim, data_layout), per_channel(x.shape, data_layout)
    g_sum, along = gradient_sums(wide(g_y), normalised(x, saved_mean, saved_inverse, columns), axes)
    counts = xp.full(g_sum.shape, math.prod(x.shape[a] for a in axes), "float64")
    return xp.stack([counts, g_sum.astype("float64"), along.astype("float64")])


def _infer_grad_with_sums(
    x: Spec, scale: Spec | None, bias: Spec | None, saved_mean: Spec, saved_inverse: Spec, g_y: Spec,
    local_sums: Spec, sums: Spec, data_layout: str,
) -> tuple[Spec | None, ...]:  # fmt: skip
    require_float("batch_norm_grad_with_sums", g_y)
    require_like("Y@GRAD", "Y", g_y, x)
    channels = _channels(x, data_layout, saved_mean, saved_inverse)
    for slot, spec in (("LocalSums", local_sums), ("Sums", sums)):
        _require_sums(slot, spec, BACKWARD_ROWS, channels)
    return x, scale, bias


@op(
    "batch_norm_grad_with_sums",
    "X, Scale?, Bias?, SavedMean, SavedVariance, Y@GRAD, LocalSums, Sums -> X@GRAD, Scale@GRAD?, Bias@GRAD?",
    attrs={"data_layout": "NCHW"},
    infer=_infer_grad_with_sums,
    shape_only="Bias",
    cost=BATCH_NORM.cost,
)
def BATCH_NORM_GRAD_WITH_SUMS(
    xp: Any, x: Any, scale: Any, bias: Any, saved_mean: Any, saved_inverse: Any, g_y: Any,
    local_sums: Any, sums: Any, data_layout: str,
) -> tuple[Any, ...]:  # fmt: skip
    """The outputs of `batch_norm_grad` for the rows of one device.

    X@GRAD comes from the Sums of all devices; Scale@GRAD and Bias@GRAD are this device's share, taken from its
    LocalSums (what its `batch_norm_grad_sums` gave, before the collective).
    """
    columns = per_channel(x.shape, data_layout)
    normal = normalised(x, saved_mean, saved_inverse, columns)
    count, g_sum, along = sums
    mean_g, mean_along = (g_sum / count).astype(normal.dtype), (along / count).astype(normal.dtype)
    g_x = input_gradient(xp, wide(g_y), normal, mean_g, mean_along, scale, saved_inverse, columns)
    return (
        rounded(g_x, x),
        None if scale is None else rounded(local_sums[2], scale),
        None if bias is None else rounded(local_sums[1], bias),
    )


class Spread(NamedTuple):
    """What takes the place of an op on every device: before the sums of all devices are known, and with them."""

    sums: Op
    with_sums: Op


SPREAD = {
    BATCH_NORM.type: Spread(BATCH_NORM_SUMS, BATCH_NORM_WITH_SUMS),
    BATCH_NORM.grad_type: Spread(BATCH_NORM_GRAD_SUMS, BATCH_NORM_GRAD_WITH_SUMS),
}
