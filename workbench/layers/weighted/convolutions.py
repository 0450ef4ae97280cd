"""Convolutions and transposed convolutions."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from workbench.builders.initializers.initializer import Normal
from workbench.errors import InvalidArgument, InvalidType
from workbench.layers.layer import Layer
from workbench.ops.arguments import int_list
from workbench.ops.conv.convolutions.conv import conv2d, conv2d_transpose
from workbench.ops.conv.convolutions.conv1d import conv1d, conv1d_transpose
from workbench.ops.conv.convolutions.conv3d import conv3d, conv3d_transpose
from workbench.ops.tensor.pad import pad

MODES = ("zeros", "reflect", "replicate", "circular")


class ConvolutionLayer(Layer):
    """What convolutions have in common: their options, their parameters and their text."""

    formats: ClassVar[tuple[str, str]]
    """Layouts, channels first and channels last."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
        groups: int, data_format: str,
    ) -> None:  # fmt: skip
        super().__init__()
        kind = type(self).__name__
        if data_format not in self.formats:
            raise InvalidArgument(
                f"{kind} takes {' or '.join(map(repr, self.formats))} as data_format, got {data_format!r}"
            )
        if groups < 1 or in_channels % groups or out_channels % groups:
            raise InvalidArgument(
                f"{kind}: groups divide the channels\n"
                f"  expected: in_channels and out_channels that are multiples of groups\n"
                f"  got:      {in_channels}, {out_channels} and groups={groups}"
            )
        self._in_channels, self._out_channels, self._groups = in_channels, out_channels, groups
        self._kernel_size = self._sizes("kernel_size", kernel_size)
        self._stride, self._dilation = self._sizes("stride", stride), self._sizes("dilation", dilation)
        self._padding, self._data_format = padding, data_format

    def _sizes(self, what: str, value: Any) -> list[int]:
        """An int per spatial dimension."""
        count = len(self.formats[0]) - 2
        sizes = int_list(
            f"{type(self).__name__}'s {what}", value if isinstance(value, list | tuple) else [value] * count
        )
        if len(sizes) != count:
            raise InvalidArgument(f"{type(self).__name__} takes an int or {count} as {what}, got {value!r}")
        return sizes

    def _said(self, *more: str) -> str:
        """The text of the options that are not as usual."""
        ones = [1] * len(self._kernel_size)
        told = [f"{self._in_channels}, {self._out_channels}", f"kernel_size={self._kernel_size}"]
        told += [f"stride={self._stride}"] if self._stride != ones else []
        told += [f"padding={self._padding}"] if self._padding != 0 else []
        told += more
        told += [f"dilation={self._dilation}"] if self._dilation != ones else []
        told += [f"groups={self._groups}"] if self._groups != 1 else []
        return ", ".join([*told, f"data_format={self._data_format}"])


class PlainConvolution(ConvolutionLayer):
    """A convolution. Its filters are normal with standard deviation sqrt(2 / (window * in_channels)) by default."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any, padding: Any, dilation: Any,
        groups: int, padding_mode: str, weight_attr: Any, bias_attr: Any, data_format: str,
    ) -> None:  # fmt: skip
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, data_format)
        if padding_mode not in MODES:
            raise InvalidArgument(f"padding_mode is one of {', '.join(MODES)}, got {padding_mode!r}")
        self._padding_mode = padding_mode
        self._around = [] if padding_mode == "zeros" else self._entries_around(padding)
        window = [in_channels // groups, *self._kernel_size]
        spread = math.sqrt(2.0 / (math.prod(self._kernel_size) * in_channels))
        self.weight = self.create_parameter(
            [out_channels, *window], weight_attr, default_initializer=Normal(0.0, spread)
        )
        self.bias = self.create_parameter([out_channels], bias_attr, is_bias=True)

    def _entries_around(self, padding: Any) -> list[int]:
        """What `pad` takes: two sizes per spatial dimension, the last one first."""
        try:
            sizes = self._sizes("padding", padding)
        except InvalidArgument:
            raise InvalidType(
                f"padding_mode {self._padding_mode!r} takes an int per dimension as padding, got {padding!r}"
            ) from None
        return [size for size in reversed(sizes) for _ in (0, 1)]

    def _padded(self, x: Any) -> tuple[Any, Any]:
        """The input with what the mode adds around it, and the padding that is left to the convolution."""
        if not self._around:
            return x, self._padding
        return pad(x, self._around, self._padding_mode, data_format=self._data_format), 0

    def extra_repr(self) -> str:
        """Channels, and the options that are not as usual."""
        return self._said(*([f"padding_mode={self._padding_mode}"] if self._padding_mode != "zeros" else []))


class Conv1D(PlainConvolution):
    """1-D convolution; see `conv1d`.

    Args:
        in_channels, out_channels: channels before and after.
        kernel_size, stride, dilation: an int.
        padding: an int, `[before, after]`, "SAME" or "VALID".
        groups: every group of channels has its own filters.
        padding_mode: what is added: "zeros", "reflect", "replicate" or "circular".
        weight_attr: the filters `[out_channels, in_channels / groups, kernel_size]`.
        bias_attr: the bias `[out_channels]`; False leaves it out.
        data_format: "NCL" or "NLC".

    Raises:
        InvalidArgument: groups that do not divide the channels, or unknown options.

    Example:
        >>> layer = wb.nn.Conv1D(3, 4, 3, padding=1)
        >>> list(layer(wb.ones([2, 3, 8])).shape)
        [2, 4, 8]
    """

    formats = ("NCL", "NLC")

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, padding_mode: str = "zeros", weight_attr: Any = None,
        bias_attr: Any = None, data_format: str = "NCL",
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, padding_mode, weight_attr,
            bias_attr, data_format,
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        """`[n, in_channels, l]` to `[n, out_channels, ol]`, or channels last."""
        x, padding = self._padded(x)
        return conv1d(x, self.weight, self.bias, self._stride, padding, self._dilation, self._groups, self._data_format)


class Conv2D(PlainConvolution):
    """2-D convolution; see `conv2d`.

    Args:
        in_channels, out_channels: channels before and after.
        kernel_size, stride, dilation: an int or (height, width).
        padding: an int, `[h, w]`, `[top, bottom, left, right]`, "SAME" or "VALID".
        groups: every group of channels has its own filters.
        padding_mode: what is added: "zeros", "reflect", "replicate" or "circular".
        weight_attr: the filters `[out_channels, in_channels / groups, kh, kw]`.
        bias_attr: the bias `[out_channels]`; False leaves it out.
        data_format: "NCHW" or "NHWC".

    Raises:
        InvalidArgument: groups that do not divide the channels, or unknown options.

    Example:
        >>> layer = wb.nn.Conv2D(3, 4, 3, padding=1)
        >>> list(layer(wb.ones([2, 3, 8, 8])).shape)
        [2, 4, 8, 8]
    """

    formats = ("NCHW", "NHWC")

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, padding_mode: str = "zeros", weight_attr: Any = None,
        bias_attr: Any = None, data_format: str = "NCHW",
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, padding_mode, weight_attr,
            bias_attr, data_format,
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        """`[n, in_channels, h, w]` to `[n, out_channels, oh, ow]`, or channels last."""
        x, padding = self._padded(x)
        return conv2d(x, self.weight, self.bias, self._stride, padding, self._dilation, self._groups, self._data_format)


class Conv3D(PlainConvolution):
    """3-D convolution; see `conv3d`.

    Args:
        kernel_size, stride, dilation: an int or (depth, height, width).
        padding: an int, three sizes, two for each of them, "SAME" or "VALID".
        weight_attr: the filters `[out_channels, in_channels / groups, kd, kh, kw]`.
        data_format: "NCDHW" or "NDHWC".
        Others: as of `Conv2D`.

    Example:
        >>> layer = wb.nn.Conv3D(3, 4, 3, padding=1)
        >>> list(layer(wb.ones([2, 3, 4, 4, 4])).shape)
        [2, 4, 4, 4, 4]
    """

    formats = ("NCDHW", "NDHWC")

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        dilation: Any = 1, groups: int = 1, padding_mode: str = "zeros", weight_attr: Any = None,
        bias_attr: Any = None, data_format: str = "NCDHW",
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, padding_mode, weight_attr,
            bias_attr, data_format,
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        """`[n, in_channels, d, h, w]` to `[n, out_channels, od, oh, ow]`, or channels last; all but n known."""
        x, padding = self._padded(x)
        return conv3d(x, self.weight, self.bias, self._stride, padding, self._dilation, self._groups, self._data_format)


class TransposedConvolution(ConvolutionLayer):
    """A transposed convolution. Its filters are Xavier uniform by default."""

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any, padding: Any, output_padding: Any,
        dilation: Any, groups: int, weight_attr: Any, bias_attr: Any, data_format: str,
    ) -> None:  # fmt: skip
        super().__init__(in_channels, out_channels, kernel_size, stride, padding, dilation, groups, data_format)
        self.output_padding = output_padding
        self.weight = self.create_parameter([in_channels, out_channels // groups, *self._kernel_size], weight_attr)
        self.bias = self.create_parameter([out_channels], bias_attr, is_bias=True)

    def _rest(self, output_size: Any) -> Any:
        """The output padding, which a size that is asked for takes the place of."""
        return self.output_padding if output_size is None else 0

    def extra_repr(self) -> str:
        """Channels, and the options that are not as usual."""
        return self._said(*([f"output_padding={self.output_padding}"] if self.output_padding != 0 else []))


class Conv1DTranspose(TransposedConvolution):
    """1-D transposed convolution; see `conv1d_transpose`.

    Args:
        output_padding: entries added at the end, less than the stride.
        weight_attr: the filters `[in_channels, out_channels / groups, kernel_size]`.
        Others: as of `Conv1D`.

    Example:
        >>> layer = wb.nn.Conv1DTranspose(3, 4, 2, stride=2)
        >>> list(layer(wb.ones([2, 3, 8])).shape)
        [2, 4, 16]
    """

    formats = ("NCL", "NLC")

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, groups: int = 1, dilation: Any = 1, weight_attr: Any = None, bias_attr: Any = None,
        data_format: str = "NCL",
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, output_padding, dilation, groups, weight_attr,
            bias_attr, data_format,
        )  # fmt: skip

    def forward(self, x: Any, output_size: Any = None) -> Any:
        """`[n, in_channels, l]` to `[n, out_channels, ol]`, or channels last; `output_size` chooses ol."""
        return conv1d_transpose(
            x, self.weight, self.bias, self._stride, self._padding, self._rest(output_size), self._groups,
            self._dilation, output_size, self._data_format,
        )  # fmt: skip


class Conv2DTranspose(TransposedConvolution):
    """2-D transposed convolution; see `conv2d_transpose`.

    Args:
        output_padding: rows and columns added at the end, less than the stride.
        weight_attr: the filters `[in_channels, out_channels / groups, kh, kw]`.
        Others: as of `Conv2D`.

    Example:
        >>> layer = wb.nn.Conv2DTranspose(3, 4, 2, stride=2)
        >>> list(layer(wb.ones([2, 3, 8, 8])).shape)
        [2, 4, 16, 16]
    """

    formats = ("NCHW", "NHWC")

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, dilation: Any = 1, groups: int = 1, weight_attr: Any = None, bias_attr: Any = None,
        data_format: str = "NCHW",
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, output_padding, dilation, groups, weight_attr,
            bias_attr, data_format,
        )  # fmt: skip

    def forward(self, x: Any, output_size: Any = None) -> Any:
        """`[n, in_channels, h, w]` to `[n, out_channels, oh, ow]`, or channels last; `output_size` chooses oh, ow."""
        return conv2d_transpose(
            x, self.weight, self.bias, self._stride, self._padding, self._rest(output_size), self._dilation,
            self._groups, output_size, self._data_format,
        )  # fmt: skip


class Conv3DTranspose(TransposedConvolution):
    """3-D transposed convolution; see `conv3d_transpose`.

    Args:
        output_padding: planes, rows and columns added at the end, less than the stride.
        weight_attr: the filters `[in_channels, out_channels / groups, kd, kh, kw]`.
        Others: as of `Conv3D`.

    Example:
        >>> layer = wb.nn.Conv3DTranspose(3, 4, 2, stride=2)
        >>> list(layer(wb.ones([2, 3, 4, 4, 4])).shape)
        [2, 4, 8, 8, 8]
    """

    formats = ("NCDHW", "NDHWC")

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
        output_padding: Any = 0, dilation: Any = 1, groups: int = 1, weight_attr: Any = None, bias_attr: Any = None,
        data_format: str = "NCDHW",
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, output_padding, dilation, groups, weight_attr,
            bias_attr, data_format,
        )  # fmt: skip

    def forward(self, x: Any, output_size: Any = None) -> Any:
        """`[n, in_channels, d, h, w]` to `[n, out_channels, od, oh, ow]`, or channels last; all but n known."""
        return conv3d_transpose(
            x, self.weight, self.bias, self._stride, self._padding, self._rest(output_size), self._groups,
            self._dilation, output_size, self._data_format,
        )  # fmt: skip
