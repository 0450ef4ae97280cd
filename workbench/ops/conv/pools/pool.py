"""2-D pooling: maxima and averages over windows, sliding, adaptive or over the whole image."""

from __future__ import annotations

from typing import Any

from workbench.errors import DtypeError, ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.record import Cost
from workbench.framework.values.dtype import bool_, int32
from workbench.framework.values.spec import Shape, Spec, require_float, size_of
from workbench.ops.arguments import int_list, pair
from workbench.ops.conv.pools.pooling import (
    Windows,
    averages,
    bins,
    maxima,
    pick_maxima,
    positions,
    sliding,
    spread_averages,
    spread_maxima,
)
from workbench.ops.conv.windows import (
    EXPLICIT,
    NCHW,
    as_nchw,
    both_pads,
    count_windows,
    from_nchw,
    in_layout,
    parse_padding,
    require_image,
    require_positive,
    require_result,
)
from workbench.ops.precision import rounded, wide

OFFERED = {"workbench.nn.functional": "adaptive_avg_pool2d adaptive_max_pool2d avg_pool2d max_pool2d"}

_ATTRS: dict[str, Any] = {
    "pooling_type": "max",
    "ksize": [1, 1],
    "strides": [1, 1],
    "paddings": [0, 0, 0, 0],
    "padding_algorithm": EXPLICIT,
    "global_pooling": False,
    "adaptive": False,
    "ceil_mode": False,
    "exclusive": True,
    "data_format": NCHW,
}


def _pads(dims: Shape, attrs: dict[str, Any]) -> Any:
    return both_pads(dims, attrs["ksize"], attrs["strides"], attrs["paddings"], attrs["padding_algorithm"])


def _counts(dims: Shape, attrs: dict[str, Any]) -> tuple[int, ...]:
    """How many windows there are along height and width, -1 where unknown."""
    if attrs["global_pooling"]:
        return (1, 1)
    if attrs["adaptive"]:
        return tuple(attrs["ksize"])
    sizes = zip(dims, attrs["ksize"], attrs["strides"], _pads(dims, attrs), strict=True)
    return tuple(
        count_windows("pool2d", d, k, s, p, attrs["padding_algorithm"], attrs["ceil_mode"]) for d, k, s, p in sizes
    )


def _windows(dims: Shape, attrs: dict[str, Any]) -> list[Windows]:
    """The windows along height and width of real sizes."""
    counts = _counts(dims, attrs)
    if attrs["global_pooling"] or attrs["adaptive"]:
        return [bins(d, c) for d, c in zip(dims, counts, strict=True)]
    sizes = zip(dims, counts, attrs["ksize"], attrs["strides"], _pads(dims, attrs), strict=True)
    return [sliding(d, c, k, s, p, attrs["exclusive"]) for d, c, k, s, p in sizes]


def _infer(x: Spec, **attrs: Any) -> Spec:
    image = require_image("pool2d", x, attrs["data_format"])
    if attrs["pooling_type"] == "avg":
        require_float("average pooling", x)
    elif x.dtype is bool_:
        raise DtypeError("pool2d takes numbers", "a floating-point or integer dtype", x.dtype)
    elif attrs["pooling_type"] != "max":
        raise ShapeError("pool2d: an unknown pooling_type", "'max' or 'avg'", repr(attrs["pooling_type"]))
    require_positive("pool2d", ksize=attrs["ksize"], strides=attrs["strides"])
    _require_entries(image[2:], attrs)
    return x.with_shape(in_layout((*image[:2], *_counts(image[2:], attrs)), attrs["data_format"]))


def _require_entries(dims: Shape, attrs: dict[str, Any]) -> None:
    """Every window has to hold an entry of the image."""
    if 0 in dims:
        raise ShapeError("pool2d takes images that have pixels", "height and width >= 1", list(dims))
    if attrs["global_pooling"] or attrs["adaptive"] or attrs["padding_algorithm"] != EXPLICIT:
        return
    for kernel, pads in zip(attrs["ksize"], _pads(dims, attrs), strict=True):
        if max(pads) >= kernel:
            raise ShapeError("pool2d: padding is smaller than the window", f"padding below {kernel}", list(pads))


def _cost(x: Spec, **attrs: Any) -> Cost:
    out = _infer(x, **attrs)
    moved = (size_of(x.shape) + size_of(out.shape)) * x.dtype.itemsize
    return Cost(size_of(x.shape) + size_of(out.shape), moved)


def _opened(x: Any, attrs: dict[str, Any]) -> tuple[Any, list[Windows]]:
    """The image as NCHW, half precision widened, and its windows."""
    image = as_nchw(wide(x) if attrs["pooling_type"] == "avg" else x, attrs["data_format"])
    return image, _windows(image.shape[2:], attrs)


def _pool_rule(g: Any, out: Any, x: Any, **attrs: Any) -> Any:
    return SPREAD(x, g, **attrs)


@op(
    "pool2d",
    "X -> Out",
    attrs=_ATTRS,
    same_rows="Out",
    infer=_infer,
    grad=_pool_rule,
    cost=_cost,
)
def POOL(xp: Any, x: Any, **attrs: Any) -> Any:
    """Maxima or averages over windows."""
    image, windows = _opened(x, attrs)
    if attrs["pooling_type"] == "avg":
        out = averages(xp, image, windows)
    else:
        out = maxima(xp, image, windows)
    return rounded(from_nchw(xp, out, attrs["data_format"]), x)


def _infer_spread(x: Spec, grad: Spec, **attrs: Any) -> Spec:
    require_result("pool2d_spread", grad, _infer(x, **attrs))
    return grad.with_shape(x.shape)


def _spread_rule(g: Any, out: Any, x: Any, grad: Any, **attrs: Any) -> Any:
    return None, PICK(x, g, **attrs)


@op(
    "pool2d_spread",
    "X, Grad -> Out",
    attrs=_ATTRS,
    infer=_infer_spread,
    grad=_spread_rule,
    shape_only="Grad",
    no_grad="X",
)
def SPREAD(xp: Any, x: Any, grad: Any, **attrs: Any) -> Any:
    """The gradient of pool2d's input: to each window's first maximum, or equally to all its entries."""
    image, windows = _opened(x, attrs)
    g = as_nchw(wide(grad), attrs["data_format"])
    out = spread_averages(xp, g, windows) if attrs["pooling_type"] == "avg" else spread_maxima(xp, image, g, windows)
    return rounded(from_nchw(xp, out, attrs["data_format"]), grad)


@op(
    "pool2d_pick",
    "X, Value -> Out",
    attrs=_ATTRS,
    infer=lambda x, value, **attrs: value.with_shape(_infer(x, **attrs).shape),
    grad=lambda g, out, x, value, **attrs: (None, SPREAD(x, g, **attrs)),
    shape_only="Value",
    no_grad="X",
)
def PICK(xp: Any, x: Any, value: Any, **attrs: Any) -> Any:
    """Value where X has each window's first maximum, or its averages: the derivative along Value."""
    image, windows = _opened(x, attrs)
    values = as_nchw(wide(value), attrs["data_format"])
    out = averages(xp, values, windows) if attrs["pooling_type"] == "avg" else pick_maxima(xp, image, values, windows)
    return rounded(from_nchw(xp, out, attrs["data_format"]), value)


# max_pool2d_with_index


def _infer_with_index(x: Spec, **attrs: Any) -> tuple[Spec, Spec]:
    out = _infer(x, **attrs)
    return out, out.with_dtype(int32)


@op(
    "max_pool2d_with_index",
    "X -> Out, Mask",
    attrs=_ATTRS,
    infer=_infer_with_index,
    grad=lambda gs, outs, x, **attrs: SPREAD(x, gs[0], **attrs),
    cost=_cost,
)
def MAX_POOL_WITH_INDEX(xp: Any, x: Any, **attrs: Any) -> tuple[Any, Any]:
    """Maxima, and the place of each in its plane: h * width + w."""
    image, windows = _opened(x, attrs)
    places = pick_maxima(xp, image, positions(xp, image.shape), windows)
    return POOL.forward(xp, x, **attrs), from_nchw(xp, places.astype("int32"), attrs["data_format"])


# Public functions


def max_pool2d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Any:
    """The maximum of every window.

    Args:
        x: [n, c, h, w], or [n, h, w, c] with data_format "NHWC".
        kernel_size: an int or (height, width).
        stride: an int or (height, width); the kernel size by default.
        padding: an int, [h, w], [top, bottom, left, right], a pair per dimension, "SAME" or "VALID"; smaller
            than the window. Padding never is the maximum.
        return_mask: also return where each maximum was, int32 `h * width + w` in its plane (NCHW only).
        ceil_mode: keep a last window that hangs over the edge.

    Returns:
        [n, c, oh, ow] with oh = (h + top + bottom - kernel) // stride + 1, or channels last; with
        `return_mask` a pair. The gradient of a window goes to the first of its largest entries.

    Raises:
        InvalidArgument: sizes that do not fit.

    Example:
        >>> F.max_pool2d(wb.ones([1, 3, 8, 8]), kernel_size=2).shape
        [1, 3, 4, 4]
    """
    attrs = _sliding_attrs("max_pool2d", kernel_size, stride, padding, ceil_mode, data_format)
    if return_mask:
        return MAX_POOL_WITH_INDEX(x, **_masked(attrs), name=name)
    return POOL(x, pooling_type="max", **attrs, name=name)


def avg_pool2d(
    x: Any,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: float | None = None,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Any:
    """The average of every window.

    Args:
        x, kernel_size, stride, padding, ceil_mode, data_format: as in `max_pool2d`; `x` is floating.
        exclusive: leave padding out of the average, instead of counting it as zeros.
        divisor_override: divide sums by this number instead.

    Raises:
        InvalidArgument: sizes that do not fit. InvalidType: not floating.

    Example:
        >>> F.avg_pool2d(wb.ones([1, 3, 8, 8]), kernel_size=2).shape
        [1, 3, 4, 4]
    """
    attrs = _sliding_attrs("avg_pool2d", kernel_size, stride, padding, ceil_mode, data_format)
    if divisor_override is None:
        return POOL(x, pooling_type="avg", exclusive=bool(exclusive), **attrs, name=name)
    return _sums(x, attrs, name) * (1.0 / _divisor(divisor_override))


def _divisor(number: float) -> float:
    if not number > 0:
        raise ShapeError("avg_pool2d: divisor_override", "a number > 0", number)
    return float(number)


def _sums(x: Any, attrs: dict[str, Any], name: str | None) -> Any:
    """Window sums: every window's average over a full window's size (padding counted), times that size.

    A window that hangs over the padded edge counts fewer entries, so ceil_mode would divide by less.
    """
    if attrs["ceil_mode"]:
        raise ShapeError("avg_pool2d: divisor_override goes without ceil_mode", "ceil_mode=False", True)
    kh, kw = attrs["ksize"]
    return POOL(x, pooling_type="avg", exclusive=False, **attrs, name=name) * float(kh * kw)


def _sliding_attrs(
    what: str, kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, data_format: str
) -> dict[str, Any]:
    kernel = pair(f"{what}'s kernel_size", kernel_size)
    paddings, algorithm = parse_padding(what, padding, data_format)
    return {
        "ksize": kernel,
        "strides": kernel if stride is None else pair(f"{what}'s stride", stride),
        "paddings": paddings,
        "padding_algorithm": algorithm,
        "ceil_mode": bool(ceil_mode),
        "data_format": data_format,
    }


def _masked(attrs: dict[str, Any]) -> dict[str, Any]:
    if attrs["data_format"] != NCHW:
        raise ShapeError("return_mask needs channels in front of height and width", NCHW, attrs["data_format"])
    return attrs


def _output_size(what: str, x: Any, output_size: Any, data_format: str) -> list[int]:
    """The number of bins along height and width; None keeps a dimension."""
    given = list(output_size) if isinstance(output_size, list | tuple) else [output_size] * 2
    dims = require_image(what, Spec(tuple(x.shape), x.dtype), data_format)[2:]
    sizes = int_list(f"{what}'s output_size", [d if s is None else s for s, d in zip(given, dims, strict=False)])
    if len(given) != 2 or min(sizes) < 1:
        raise ShapeError(f"{what} takes an output size", "an int >= 1 or two (None keeps a known one)", output_size)
    return sizes


def adaptive_avg_pool2d(x: Any, output_size: Any, data_format: str = "NCHW", name: str | None = None) -> Any:
    """Averages over `output_size` bins that cover the image, from floor(i h / oh) to ceil((i + 1) h / oh).

    Args:
        x: [n, c, h, w], or [n, h, w, c] with data_format "NHWC"; floating.
        output_size: an int or (height, width); None keeps a dimension.

    Raises:
        InvalidArgument: sizes that do not fit, or None for an unknown dimension. InvalidType: not floating.

    Example:
        >>> F.adaptive_avg_pool2d(wb.ones([1, 3, 8, 8]), 2).shape
        [1, 3, 2, 2]
    """
    sizes = _output_size("adaptive_avg_pool2d", x, output_size, data_format)
    return POOL(x, pooling_type="avg", adaptive=True, ksize=sizes, data_format=data_format, name=name)


def adaptive_max_pool2d(x: Any, output_size: Any, return_mask: bool = False, name: str | None = None) -> Any:
    """Maxima over `output_size` bins that cover the image, see `adaptive_avg_pool2d`; `x` is [n, c, h, w].

    Args:
        return_mask: also return where each maximum was, see `max_pool2d`.

    Raises:
        InvalidArgument: sizes that do not fit, or None for an unknown dimension.

    Example:
        >>> F.adaptive_max_pool2d(wb.ones([1, 3, 8, 8]), 2).shape
        [1, 3, 2, 2]
    """
    sizes = _output_size("adaptive_max_pool2d", x, output_size, NCHW)
    if return_mask:
        return MAX_POOL_WITH_INDEX(x, adaptive=True, ksize=sizes, name=name)
    return POOL(x, pooling_type="max", adaptive=True, ksize=sizes, name=name)
