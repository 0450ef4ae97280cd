"""Batch and layer normalisation.

Sources: Ioffe and Szegedy, "Batch Normalization", ICML 2015;
    Ba, Kiros and Hinton, "Layer Normalization", 2016.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.errors import InvalidArgument, ShapeError
from workbench.framework.op.rows import flat_rows, from_axis, row_op
from workbench.framework.rows.kernel import COLUMNS, LINES, PLANES
from workbench.framework.values.dtype import wide_dtype
from workbench.framework.values.spec import Shape, Spec, merge_dim, require_float, same_dim, shape_text, size_of
from workbench.ops.nn.channels import channel_axis, other_axes, uses_given_statistics
from workbench.ops.tensor.assign import assign

OFFERED = {"workbench.nn.functional": "batch_norm layer_norm"}

LAYOUTS = ("NCHW", "NHWC")
DATA_FORMATS = {
    "NC": "NCHW", "NCL": "NCHW", "NCHW": "NCHW", "NCDHW": "NCHW",
    "NLC": "NHWC", "NHWC": "NHWC", "NDHWC": "NHWC",
}  # fmt: skip


def _infer_batch_norm(x: Spec, *channels: Spec | None, data_layout: str, **attrs: Any) -> tuple[Spec, ...]:
    require_float("batch_norm", x, *channels)
    if data_layout not in LAYOUTS:
        raise ShapeError("the layout of batch_norm is unknown", "'NCHW' or 'NHWC'", data_layout)
    if len(x.shape) < 2:
        raise ShapeError("batch_norm takes batches of channels", "at least 2 dimensions", shape_text(x.shape))
    count = x.shape[channel_axis(len(x.shape), data_layout)]
    for slot, spec in zip(("Scale", "Bias", "Mean", "Variance"), channels, strict=True):
        if spec is not None and (len(spec.shape) != 1 or not same_dim(spec.shape[0], count)):
            raise ShapeError(f"{slot} of batch_norm has one entry per channel", f"[{count}]", shape_text(spec.shape))
        count = merge_dim(count, spec.shape[0]) if spec is not None else count
    moving_mean, moving_variance = channels[2:]
    assert moving_mean is not None and moving_variance is not None
    saved = Spec((count,), wide_dtype(x.dtype))
    return x, moving_mean, moving_variance, saved, saved


def _given(attrs: dict[str, Any]) -> bool:
    asked = ("is_test", "use_global_stats", "trainable_statistics")
    return uses_given_statistics(*(attrs.get(name, False) for name in asked))


def _require_values(rows: Any, attrs: dict[str, Any]) -> None:
    if not rows.count and not _given(attrs):
        raise InvalidArgument(
            "batch_norm in training needs at least one value per channel\n"
            f"  expected: no empty dimension\n  got:      X of shape {list(rows.shape)}"
        )


def _batch_norm_back(
    rows: Any, x: Any, scale: Any, bias: Any, moving_mean: Any, moving_variance: Any,
    mean: Any, inverse: Any, g: Any, g_mean_out: Any, g_variance_out: Any, g_mean: Any, g_inverse: Any,
    given: bool, **attrs: Any,
) -> tuple[Any, ...]:  # fmt: skip
    if g is None:  # the statistics are by-products: only Y passes gradients on
        return x * 0.0, None if scale is None else scale * 0.0, mean * 0.0
    normal = (x - mean) * inverse
    g_bias, g_scale = rows.sum(g), rows.sum(g * normal)
    slope = inverse if scale is None else inverse * scale
    g_x = g if given else g - (normal * (g_scale / rows.count) + g_bias / rows.count)
    return g_x * slope, None if scale is None else g_scale, g_bias


@row_op(
    "batch_norm",
    "X, Scale?, Bias?, Mean, Variance -> Y, MeanOut, VarianceOut, SavedMean, SavedVariance",
    axes=lambda rank, attrs: other_axes(rank, attrs["data_layout"]),
    per_row="Scale, Bias, Mean, Variance, MeanOut, VarianceOut, SavedMean, SavedVariance",
    wide="SavedMean, SavedVariance",
    numbers="momentum, epsilon",
    options={"given": _given},
    grad_optional="Scale",
    layouts=(LINES, PLANES, COLUMNS),
    row_shape=flat_rows,
    require=_require_values,
    shaped_like={"Mean": "SavedMean", "Variance": "SavedVariance"},
    attrs={
        "momentum": 0.9,
        "epsilon": 1e-5,
        "is_test": False,
        "data_layout": "NCHW",
        "use_global_stats": False,
        "trainable_statistics": False,
    },
    like_x="Y",
    infer=_infer_batch_norm,
    grad_body=_batch_norm_back,
    grad_needs="Y",
    saved="X, Scale, SavedMean, SavedVariance",
    shape_only="Bias, Mean, Variance",
    no_grad="Mean, Variance",
    by_products="MeanOut, VarianceOut, SavedMean, SavedVariance",
    aliases={"MeanOut": "Mean", "VarianceOut": "Variance"},
)
def BATCH_NORM(
    rows: Any, x: Any, scale: Any, bias: Any, moving_mean: Any, moving_variance: Any,
    momentum: float, epsilon: float, given: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """(x - mean) / sqrt(variance + epsilon) * scale + bias per channel, and the moving statistics.

    Training uses the batch's own statistics, the variance being biased (divided by the count), and moves
    `moving = momentum * moving + (1 - momentum) * batch`; otherwise the moving ones are used and kept.
    SavedMean and SavedVariance are the mean and the *inverse standard deviation* that were used (P-5).
    """
    mean = moving_mean if given else rows.mean(x)
    centred = x - mean
    variance = moving_variance if given else rows.mean(centred * centred)
    inverse = 1.0 / rows.sqrt(variance + epsilon)
    y = centred * (inverse if scale is None else inverse * scale)
    y = y if bias is None else y + bias
    if given:
        return y, moving_mean, moving_variance, mean, inverse
    moved = (old * momentum + new * (1 - momentum) for old, new in ((moving_mean, mean), (moving_variance, variance)))
    return y, *moved, mean, inverse


def batch_norm(
    x: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-5,
    data_format: str = "NCHW",
    use_global_stats: bool | None = None,
    name: str | None = None,
) -> Any:
    """Normalise every channel, by the batch's statistics in training and by the running ones otherwise.

    Args:
        x: floating tensor `[N, C, ...]`, or `[N, ..., C]` for a `data_format` that ends in C.
        running_mean, running_var: `[C]`. Where the batch's statistics are used they are overwritten with
            `momentum * running + (1 - momentum) * batch`, the variance being the biased one.
        weight, bias: `[C]` or None.
        training: use the batch's statistics.
        epsilon: added to the variance.
        data_format: `"NC"`, `"NCL"`, `"NCHW"`, `"NCDHW"`, `"NLC"`, `"NHWC"` or `"NDHWC"`.
        use_global_stats: use the running statistics (True) or the batch's (False), whatever `training`.

    Returns:
        a tensor of the shape and dtype of `x`.

    Raises:
        InvalidArgument: an unknown format, or shapes that do not fit; when run in training, an empty batch.

    Example:
        >>> x, zero, one = wb.to_tensor([[1.0], [3.0]]), wb.zeros([1]), wb.ones([1])
        >>> print(F.batch_norm(x, zero, one, one, zero, training=True).numpy().round(3))
        [[-1.]
         [ 1.]]
    """
    if data_format not in DATA_FORMATS:
        raise InvalidArgument(f"data_format is one of {', '.join(DATA_FORMATS)}, got {data_format!r}")
    attrs = {
        "is_test": not training,
        "use_global_stats": not training if use_global_stats is None else use_global_stats,
        "trainable_statistics": use_global_stats is False,
    }
    y, mean_out, variance_out, _, _ = BATCH_NORM(
        x, weight, bias, running_mean, running_var,
        momentum=momentum, epsilon=epsilon, data_layout=DATA_FORMATS[data_format], name=name, **attrs,
    )  # fmt: skip
    if not uses_given_statistics(**attrs):
        assign(mean_out, output=running_mean)
        assign(variance_out, output=running_var)
    return y


def _infer_layer_norm(x: Spec, scale: Spec | None, bias: Spec | None, begin_norm_axis: int, **attrs: Any) -> Any:
    require_float("layer_norm", x, scale, bias)
    if not 0 <= begin_norm_axis < len(x.shape):
        raise ShapeError("begin_norm_axis is out of range", f"an int in [0, {len(x.shape)})", begin_norm_axis)
    normal = x.shape[begin_norm_axis:]
    for slot, spec in (("Scale", scale), ("Bias", bias)):
        if spec is not None and not _is_weight_of(spec.shape, normal):
            raise ShapeError(
                f"{slot} of layer_norm has one entry per normalised element",
                f"[{size_of(normal) if size_of(normal) >= 0 else '?'}] or {shape_text(normal)}",
                shape_text(spec.shape),
            )
    rows = Spec((size_of(x.shape[:begin_norm_axis]),), wide_dtype(x.dtype))
    return x, rows, rows


def _is_weight_of(shape: Shape, normal: Shape) -> bool:
    if len(shape) == 1 and same_dim(shape[0], size_of(normal)):
        return True
    return len(shape) == len(normal) and all(map(same_dim, shape, normal))


def _layer_norm_back(
    rows: Any, x: Any, scale: Any, bias: Any, mean: Any, variance: Any, g: Any, g_mean: Any, g_variance: Any,
    epsilon: float,
) -> tuple[Any, ...]:  # fmt: skip
    if g is None:  # mean and variance are by-products
        return x * 0.0, None if scale is None else scale * 0.0, None if bias is None else bias * 0.0
    inverse = 1.0 / rows.sqrt(variance + epsilon)
    normal = (x - mean) * inverse
    g_normal = g if scale is None else g * scale
    g_x = (g_normal - rows.mean(g_normal) - normal * rows.mean(g_normal * normal)) * inverse
    return g_x, None if scale is None else rows.across(g * normal), rows.across(g)


@row_op(
    "layer_norm",
    "X, Scale?, Bias? -> Y, Mean, Variance",
    axes=from_axis("begin_norm_axis"),
    per_row="Mean, Variance",
    per_place="Scale, Bias",
    wide="Mean, Variance",
    numbers="epsilon",
    grad_optional="Scale",
    row_shape=flat_rows,
    attrs={"epsilon": 1e-5, "begin_norm_axis": 1},
    like_x="Y",
    infer=_infer_layer_norm,
    grad_body=_layer_norm_back,
    grad_needs="Y",
    saved="X, Scale, Mean, Variance",
    by_products="Mean, Variance",
    shape_only="Bias",
)
def LAYER_NORM(rows: Any, x: Any, scale: Any, bias: Any, epsilon: float) -> tuple[Any, ...]:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias over the dimensions from `begin_norm_axis` on.

    Mean and (biased) Variance have one entry per normalised block.
    """
    mean = rows.mean(x)
    centred = x - mean
    variance = rows.mean(centred * centred)
    normal = centred * (1.0 / rows.sqrt(variance + epsilon))
    y = normal if scale is None else normal * scale
    return y if bias is None else y + bias, mean, variance


def layer_norm(
    x: Any,
    normalized_shape: int | Sequence[int],
    weight: Any = None,
    bias: Any = None,
    epsilon: float = 1e-5,
    name: str | None = None,
) -> Any:
    """Normalise the last dimensions to mean 0 and variance 1, then scale and shift them.

    Args:
        x: floating tensor `[..., *normalized_shape]`.
        normalized_shape: the dimensions normalised together, the last ones of `x`; an int means one.
        weight, bias: of shape `normalized_shape`, or one dimension with as many elements.
        epsilon: added to the (biased) variance.

    Returns:
        a tensor of the shape and dtype of `x`.

    Raises:
        InvalidArgument: `x` does not end in `normalized_shape`, or a weight does not fit it.

    Example:
        >>> print(F.layer_norm(wb.to_tensor([[1.0, 3.0]]), 2).numpy().round(3))
        [[-1.  1.]]
    """
    wanted = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    begin = len(x.shape) - len(wanted)
    if not wanted or begin < 0 or not all(map(same_dim, x.shape[begin:], wanted)):
        raise InvalidArgument(
            "layer_norm normalises the last dimensions\n"
            f"  expected: x of shape [..., {', '.join(map(str, wanted))}]\n  got:      {shape_text(x.shape)}"
        )
    return LAYER_NORM(x, weight, bias, epsilon=epsilon, begin_norm_axis=begin, name=name)[0]
