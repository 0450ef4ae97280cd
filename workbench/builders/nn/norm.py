"""`static.nn.batch_norm`, `static.nn.data_norm` and `static.nn.layer_norm`."""

from __future__ import annotations

from typing import Any

from workbench.builders.initializers.initializer import Constant
from workbench.builders.layer import LayerBuilder, building
from workbench.builders.param_attr import ParamAttr, required_attr, to_attr
from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.notice import tell_without_effect
from workbench.framework.op.infix import not_a_variable
from workbench.framework.program.variable import Parameter, Variable
from workbench.framework.values.dtype import DType, bfloat16, float16, float32
from workbench.framework.values.spec import size_of
from workbench.ops.nn.data_norm import DATA_NORM
from workbench.ops.nn.norm import BATCH_NORM, LAYER_NORM

_HALVES = (float16, bfloat16)


def _statistics_dtype(x: Variable) -> DType:
    """Scales and statistics of half-precision inputs are kept in float32."""
    return float32 if x.dtype in _HALVES else x.dtype


def _check_float(layer: str, x: Any) -> None:
    if not isinstance(x, Variable):
        raise not_a_variable(f"{layer} takes a Variable as input", x)
    if not x.dtype.is_float:
        raise InvalidType(f"{layer} takes a floating-point input, got {x!r}")


def batch_norm(
    input: Variable,
    act: str | None = None,
    is_test: bool = False,
    momentum: float = 0.9,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    data_layout: str = "NCHW",
    in_place: bool = False,
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True,
    use_global_stats: bool = False,
) -> Variable:
    """Normalise every channel over the batch, then scale and shift.

    In training the batch's mean and biased variance are used and the moving ones follow,
    `moving = momentum * moving + (1 - momentum) * batch`; in test programs the moving ones are used.

    Args:
        input: `[N, C, ...]` (or `[N, ..., C]` for `data_layout="NHWC"`), or `[N, C]`.
        act: activation applied to the result.
        is_test, use_global_stats: normalise with the moving statistics.
        param_attr, bias_attr: scale (filled with 1) and shift (0), shape `[C]`; they cannot be left out.
        in_place, do_model_average_for_mean_and_var: have no effect; who asks for another than the default is told.
        moving_mean_name, moving_variance_name: names of the moving statistics, `<layer>.w_1` and
            `<layer>.w_2` if None.

    Returns:
        shape and dtype of `input`.

    Raises:
        InvalidArgument: an unknown channel dimension, layout or activation.

    Example:
        >>> wb.enable_static()
        >>> static.nn.batch_norm(static.data("image", [None, 3, 8, 8]), act="relu").shape
        (-1, 3, 8, 8)
    """
    _check_float("batch_norm", input)
    averages = not do_model_average_for_mean_and_var
    tell_without_effect("batch_norm", {"in_place": in_place, "do_model_average_for_mean_and_var": averages})
    with building("batch_norm", name) as layer:
        activate = layer.activation(act)
        dtype, shape = _statistics_dtype(input), [_channels("batch_norm", input, data_layout)]
        scale = layer.parameter(
            required_attr(param_attr, "param_attr", "batch_norm"), shape, dtype, default=Constant(1.0)
        )
        shift = layer.parameter(required_attr(bias_attr, "bias_attr", "batch_norm"), shape, dtype, is_bias=True)
        mean = _moving(layer, moving_mean_name, 0.0, shape, dtype)
        variance = _moving(layer, moving_variance_name, 1.0, shape, dtype)
        attrs = {
            "momentum": momentum, "epsilon": epsilon, "data_layout": data_layout,
            "is_test": is_test, "use_global_stats": use_global_stats,
        }  # fmt: skip
        return activate(_normalised_by_batch(layer, input, scale, shift, mean, variance, attrs))


def _normalised_by_batch(
    layer: LayerBuilder,
    x: Variable,
    scale: Variable,
    shift: Variable,
    mean: Variable,
    variance: Variable,
    attrs: dict[str, Any],
) -> Variable:
    saved_mean, saved_variance = (layer.temporary(mean.dtype, stop_gradient=True) for _ in range(2))
    out = layer.temporary(x.dtype)
    layer.block.append_op(
        BATCH_NORM.type,
        inputs={"X": x, "Scale": scale, "Bias": shift, "Mean": mean, "Variance": variance},
        outputs={
            "Y": out, "MeanOut": mean, "VarianceOut": variance,
            "SavedMean": saved_mean, "SavedVariance": saved_variance,
        },
        attrs=attrs,
    )  # fmt: skip
    return out


def _channels(layer: str, x: Variable, data_layout: str) -> int:
    axes = {"NCHW": 1, "NHWC": x.ndim - 1}
    if data_layout not in axes:
        raise InvalidArgument(f"{layer} takes 'NCHW' or 'NHWC' as data_layout, got {data_layout!r}")
    if x.ndim < 2:
        raise InvalidArgument(f"{layer} takes an input of at least two dimensions, [N, C, ...], got {x!r}")
    return x.shape[axes[data_layout]]


def _moving(layer: LayerBuilder, name: str | None, value: float, shape: list[int], dtype: DType) -> Parameter:
    """A moving statistic: a parameter that is not trained (P-11)."""
    return layer.parameter(ParamAttr(name=name, initializer=Constant(value), trainable=False), shape, dtype)


_SUMMARIES = {"batch_size": 1e4, "batch_sum": 0.0, "batch_square": 1e4}
_SHIFTS = {"scale_w": 1.0, "bias": 0.0}


def data_norm(
    input: Variable,
    act: str | None = None,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    data_layout: str = "NCHW",
    in_place: bool = False,
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True,
    slot_dim: int = -1,
    sync_stats: bool = False,
    summary_decay_rate: float = 0.9999999,
    enable_scale_and_shift: bool = False,
) -> Variable:
    """Normalise every channel by summaries of all data so far, then an activation.

    `(x - batch_sum / batch_size) * sqrt(batch_size / batch_square_sum)`, with the parameters `<name>.batch_size`,
    `.batch_sum` and `.batch_square_sum`, shape `[C]`. They have no derivatives: as their gradients arrive how many
    values the batch has, their sum, and that of their squared distances from the mean. As in Paddle the optimizer then
    takes them for gradients, as it does for every parameter; Paddle's parameter servers add them up.

    Args:
        input: `[N, C]`, `[N, C, ...]`, or `[N, ..., C]` for `data_layout="NHWC"`; C known.
        epsilon: added to each squared distance, in [0, 0.001].
        param_attr: a dictionary of what the parameters are filled with: "batch_size" (10000), "batch_sum" (0),
            "batch_square" (10000), "scale_w" (1), "bias" (0).
        name: the beginning of the parameters' names; "dn", or "dn_1" and so on where that is taken.
        slot_dim: features of a slot, the first of which counts how often it was shown; where that is 0 the slot gets
            zeros and does not count. -1: no slots.
        enable_scale_and_shift: multiply with `<name>.scale_w` and add `<name>.bias`, too.
        Others: have no effect; who asks for another than the default is told.

    Returns:
        shape and dtype of `input`.

    Raises:
        InvalidArgument: an unknown channel dimension, layout or activation, sizes that do not fit.

    Example:
        >>> wb.enable_static()
        >>> static.nn.data_norm(static.data("x", [None, 100])).shape
        (-1, 100)
    """
    _check_float("data_norm", input)
    without_effect = {
        "in_place": in_place, "moving_mean_name": moving_mean_name is not None,
        "moving_variance_name": moving_variance_name is not None,
        "do_model_average_for_mean_and_var": not do_model_average_for_mean_and_var, "sync_stats": sync_stats,
        "summary_decay_rate": summary_decay_rate != 0.9999999,
    }  # fmt: skip
    tell_without_effect("data_norm", without_effect)
    if not 0 <= epsilon <= 0.001:
        raise InvalidArgument(f"data_norm takes an epsilon in [0, 0.001], got {epsilon!r}")
    with building("data_norm", name) as layer:
        activate = layer.activation(act)
        shape = [_channels("data_norm", input, data_layout)]
        prefix = name if name is not None else _free_prefix(layer, "dn")
        starts = _filled_with(param_attr)

        def parameter(suffix: str, start: str) -> Parameter:
            attr = ParamAttr(name=f"{prefix}.{suffix}", initializer=Constant(starts[start]))
            return layer.parameter(attr, shape, input.dtype)

        shifts = [parameter(start, start) for start in _SHIFTS] if enable_scale_and_shift else [None, None]
        summaries = [
            parameter(suffix, start)
            for suffix, start in zip(("batch_size", "batch_sum", "batch_square_sum"), _SUMMARIES, strict=True)
        ]
        out, _, _ = DATA_NORM(
            input, *summaries, *shifts, epsilon=epsilon, data_layout=data_layout, slot_dim=slot_dim,
            enable_scale_and_shift=enable_scale_and_shift, name=layer.name,
        )  # fmt: skip
        return activate(out)


def _free_prefix(layer: LayerBuilder, first: str) -> str:
    """`dn`, or `dn_1` and so on: parameters are shared by a name the user gives, never by accident."""
    prefix, number = first, 0
    while layer.block.find_var(f"{prefix}.batch_size") is not None:
        number += 1
        prefix = f"{first}_{number}"
    return prefix


def _filled_with(param_attr: Any) -> dict[str, float]:
    known = {**_SUMMARIES, **_SHIFTS}
    if param_attr is None:
        return known
    if not isinstance(param_attr, dict):
        raise InvalidType(f"data_norm takes a dictionary as param_attr, got {param_attr!r}")
    unknown = [key for key in param_attr if key not in known]
    if unknown:
        raise InvalidArgument(f"param_attr of data_norm has the keys {', '.join(known)}, got {unknown[0]!r}")
    return {**known, **{key: float(value) for key, value in param_attr.items()}}


def layer_norm(
    input: Variable,
    scale: bool = True,
    shift: bool = True,
    begin_norm_axis: int = 1,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """Normalise every row over the dimensions from `begin_norm_axis` on, then scale and shift.

    Args:
        scale, shift: whether there is a scale (filled with 1), a shift (0), each of the size of the
            normalised dimensions, which have to be known.
        act: activation applied to the result.

    Returns:
        shape and dtype of `input`.

    Raises:
        InvalidArgument: `begin_norm_axis` out of range, unknown dimensions or activation.

    Source: Ba, Kiros and Hinton, "Layer Normalization", 2016.

    Example:
        >>> wb.enable_static()
        >>> static.nn.layer_norm(static.data("x", [None, 5, 8]), begin_norm_axis=2).shape
        (-1, 5, 8)
    """
    _check_float("layer_norm", input)
    if not 1 <= begin_norm_axis < input.ndim:
        raise InvalidArgument(
            f"layer_norm: begin_norm_axis out of range\n"
            f"  expected: an int in [1, {input.ndim}) for {input!r}\n  got:      {begin_norm_axis}"
        )
    with building("layer_norm", name) as layer:
        activate = layer.activation(act)
        dtype, shape = _statistics_dtype(input), [size_of(input.shape[begin_norm_axis:])]
        inputs: dict[str, Any] = {"X": input}
        scale_attr, shift_attr = to_attr(param_attr, "param_attr"), to_attr(bias_attr, "bias_attr")
        if scale and scale_attr is not None:
            inputs["Scale"] = layer.parameter(scale_attr, shape, dtype, default=Constant(1.0))
        if shift and shift_attr is not None:
            inputs["Bias"] = layer.parameter(shift_attr, shape, dtype, is_bias=True)
        mean, variance = (layer.temporary(dtype, stop_gradient=True) for _ in range(2))
        out = layer.temporary(input.dtype)
        layer.block.append_op(
            LAYER_NORM.type,
            inputs=inputs,
            outputs={"Y": out, "Mean": mean, "Variance": variance},
            attrs={"begin_norm_axis": begin_norm_axis, "epsilon": epsilon},
        )
        return activate(out)
