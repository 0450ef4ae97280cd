"""1-D convolutions: images one pixel high."""

from __future__ import annotations

from typing import Any

from workbench.errors import InvalidArgument, ShapeError
from workbench.framework.values.spec import shape_text
from workbench.ops.arguments import one_int
from workbench.ops.conv.convolutions import conv
from workbench.ops.tensor.shape import squeeze, unsqueeze

OFFERED = {"workbench.nn.functional": "conv1d conv1d_transpose"}

LAYOUTS = {"NCL": "NCHW", "NLC": "NHWC"}


def image_layout(what: str, x: Any, data_format: str) -> tuple[str, int]:
    """The image layout of a 1-D one, and the axis at which the height goes in.

    Raises:
        InvalidArgument: another layout. ShapeError: not three dimensions.
    """
    if data_format not in LAYOUTS:
        raise InvalidArgument(f"{what} takes 'NCL' or 'NLC' as data_format, got {data_format!r}")
    if len(x.shape) != 3:
        raise ShapeError(f"{what} takes three dimensions", data_format, shape_text(x.shape))
    return LAYOUTS[data_format], 2 if data_format == "NCL" else 1


def one(what: str, value: Any) -> int:
    """An int, or a list of one."""
    return one_int(what, value[0] if isinstance(value, list | tuple) and len(value) == 1 else value)


def padding_1d(padding: Any) -> Any:
    """Padding of an image one pixel high from that of a sequence."""
    if isinstance(padding, str):
        return padding
    if isinstance(padding, list | tuple):
        if len(padding) == 3:  # a pair per dimension, batch and channels among them
            padding = next((pair for pair in padding if any(pair)), [0, 0])
        if len(padding) == 1:
            return [0, 0, *_pair(padding[0])]
        return [0, 0, *padding]
    return [0, 0, padding, padding]


def _pair(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value, value]


def conv1d(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    data_format: str = "NCL",
    name: str | None = None,
) -> Any:
    """1-D convolution (cross-correlation).

    Args:
        x: [n, c, l], or [n, l, c] with data_format "NLC"; floating.
        weight: [kernels, c / groups, k] in either format.
        bias: [kernels], added to every entry.
        padding: an int, `[k]`, `[before, after]`, "SAME" or "VALID".
        Others: as in `conv2d`.

    Returns:
        [n, kernels, ol], ol = (l + before + after - dilation (k - 1) - 1) // stride + 1; or channels last.

    Raises:
        InvalidArgument: channels, groups or sizes that do not fit. InvalidType: other dtypes, or two.

    Example:
        >>> list(F.conv1d(wb.ones([1, 3, 8]), wb.ones([4, 3, 3]), padding=1).shape)
        [1, 4, 8]
    """
    layout, axis = image_layout("conv1d", x, data_format)
    out = conv.conv2d(
        unsqueeze(x, axis), unsqueeze(weight, 2), bias, [1, one("stride", stride)], padding_1d(padding),
        [1, one("dilation", dilation)], groups, layout,
    )  # fmt: skip
    return squeeze(out, axis, name=name)


def conv1d_transpose(
    x: Any,
    weight: Any,
    bias: Any = None,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    groups: int = 1,
    dilation: Any = 1,
    output_size: Any = None,
    data_format: str = "NCL",
    name: str | None = None,
) -> Any:
    """1-D transposed convolution: the gradient of a convolution as a layer of its own.

    Args:
        x: [n, c, l], or [n, l, c] with data_format "NLC"; floating.
        weight: [c, kernels / groups, k] in either format.
        output_size: the length wanted, instead of `output_padding`.
        Others: as in `conv1d` and `conv2d_transpose`.

    Returns:
        [n, kernels, ol], ol = (l - 1) stride - before - after + dilation (k - 1) + 1 + output_padding.

    Raises:
        InvalidArgument: channels, groups or sizes that do not fit. InvalidType: other dtypes, or two.

    Example:
        >>> list(F.conv1d_transpose(wb.ones([1, 3, 8]), wb.ones([3, 4, 2]), stride=2).shape)
        [1, 4, 16]
    """
    layout, axis = image_layout("conv1d_transpose", x, data_format)
    size = None if output_size is None else [1, one("output_size", output_size)]
    out = conv.conv2d_transpose(
        unsqueeze(x, axis), unsqueeze(weight, 2), bias, [1, one("stride", stride)], padding_1d(padding),
        [0, one("output_padding", output_padding)], [1, one("dilation", dilation)], groups, size, layout,
    )  # fmt: skip
    return squeeze(out, axis, name=name)
