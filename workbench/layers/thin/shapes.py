"""Layers that move, repeat, drop or add entries, and distances."""

from __future__ import annotations

from functools import partial
from typing import Any

from workbench.layers.layer import Layer
from workbench.layers.thin.function_layer import REQUIRED, function_layer
from workbench.ops.conv.images import channel_order, patches
from workbench.ops.conv.images.interpolate import interpolate
from workbench.ops.math.products import distance
from workbench.ops.nn import alpha_dropout
from workbench.ops.random import dropout
from workbench.ops.tensor.pad import pad, zeropad2d
from workbench.ops.tensor.shape import flatten

SEQUENCE, IMAGE, VOLUME = "wb.rand([1, 4, 6])", "wb.rand([1, 4, 6, 6])", "wb.rand([1, 4, 4, 4, 4])"

_layer = partial(function_layer, shows_name=True)
_plain = partial(_layer, inputs="input", prefix="")
_dropout = partial(_plain, follows_training=True)


def _padding(data_format: str) -> dict[str, Any]:
    return {"padding": REQUIRED, "mode": "constant", "value": 0.0, "data_format": data_format}


def padded(x: Any, padding: Any, data_format: str, **options: Any) -> Any:
    """`x` with entries added around it, as many on each side where `padding` is one int."""
    sides = 2 * (len(data_format) - 2)
    return pad(x, [padding] * sides if isinstance(padding, int) else padding, data_format=data_format, **options)


_pad = partial(_layer, attributes={"padding": "_pad"}, shown="padding mode value data_format", use="1")

Pad1D = _pad("Pad1D", padded, _padding("NCL"), on=SEQUENCE)
Pad2D = _pad("Pad2D", padded, _padding("NCHW"), on=IMAGE)
Pad3D = _pad("Pad3D", padded, _padding("NCDHW"), on=VOLUME)
ZeroPad2D = _layer(
    "ZeroPad2D", zeropad2d, {"padding": REQUIRED, "data_format": "NCHW"}, attributes={"padding": "_pad"},
    shown="padding data_format", use="1", on=IMAGE,
)  # fmt: skip

Dropout = _dropout(
    "Dropout", dropout.dropout, {"p": 0.5, "axis": None, "mode": "upscale_in_train"}, shown="p axis mode"
)
Dropout2D = _dropout("Dropout2D", dropout.dropout2d, {"p": 0.5, "data_format": "NCHW"}, shown="p data_format", on=IMAGE)
Dropout3D = _dropout(
    "Dropout3D", dropout.dropout3d, {"p": 0.5, "data_format": "NCDHW"}, shown="p data_format", on=VOLUME
)
AlphaDropout = _dropout("AlphaDropout", alpha_dropout.alpha_dropout, {"p": 0.5}, shown="p")

Flatten = _plain("Flatten", flatten, {"start_axis": 1, "stop_axis": -1}, has_name=False, on=IMAGE)
Unflatten = _plain(
    "Unflatten", channel_order.unflatten, {"axis": REQUIRED, "shape": REQUIRED}, shown="axis shape", use="1, [2, 2]"
)


def _size_or_scale(*options: str) -> Any:
    """What says the size or the scale, and options."""

    def told(layer: Any) -> list[str]:
        first = "scale_factor" if layer.scale_factor is not None else "size"
        return [f"{name}={getattr(layer, name)}" for name in (first, *options)]

    return told


_SIZE: dict[str, Any] = {"size": None, "scale_factor": None}
_image = partial(_layer, prefix="", use="scale_factor=2", on=IMAGE)

Upsample = _image(
    "Upsample", interpolate,
    {**_SIZE, "mode": "nearest", "align_corners": False, "align_mode": 0, "data_format": "NCHW"},
    shown=_size_or_scale("mode", "align_corners", "align_mode", "data_format"),
)  # fmt: skip
UpsamplingNearest2D = _image(
    "UpsamplingNearest2D", interpolate, {**_SIZE, "data_format": "NCHW"}, fixed={"mode": "nearest"},
    shown=_size_or_scale("data_format"),
)  # fmt: skip
UpsamplingBilinear2D = _image(
    "UpsamplingBilinear2D", interpolate, {**_SIZE, "data_format": "NCHW"},
    fixed={"mode": "bilinear", "align_corners": True}, shown=_size_or_scale("data_format"),
)  # fmt: skip
PixelShuffle = _layer(
    "PixelShuffle", channel_order.pixel_shuffle, {"upscale_factor": REQUIRED, "data_format": "NCHW"},
    shown="upscale_factor", use="2", on=IMAGE,
)  # fmt: skip
PixelUnshuffle = _layer(
    "PixelUnshuffle", channel_order.pixel_unshuffle, {"downscale_factor": REQUIRED, "data_format": "NCHW"},
    shown="downscale_factor", use="2", on=IMAGE,
)  # fmt: skip
ChannelShuffle = _layer(
    "ChannelShuffle", channel_order.channel_shuffle, {"groups": REQUIRED, "data_format": "NCHW"}, shown="groups",
    use="2", on=IMAGE,
)  # fmt: skip

_SHOWN = "kernel_size:kernel_sizes dilation:dilations padding:paddings stride:strides"
_WINDOWS: dict[str, Any] = {"kernel_sizes": REQUIRED, "dilations": 1, "paddings": 0, "strides": 1}
Unfold = _plain("Unfold", patches.unfold, _WINDOWS, shown=_SHOWN, use="2", on=IMAGE)
Fold = _plain(
    "Fold", patches.fold, {"output_sizes": REQUIRED, **_WINDOWS}, shown=_SHOWN, use="[3, 3], 2", on="wb.rand([1, 8, 4])"
)

CosineSimilarity = _layer(
    "CosineSimilarity", distance.cosine_similarity, {"axis": 1, "eps": 1e-8}, inputs="x1, x2", has_name=False,
    shown="axis eps", on="wb.rand([2, 4]), wb.rand([2, 4])",
)  # fmt: skip


def _norm(layer: Any) -> list[str]:
    """The norm, and what is not as usual."""
    told = [f"p={layer.p}"]
    told += [f"epsilon={layer.epsilon}"] if layer.epsilon != 1e-6 else []
    return told + ([f"keepdim={layer.keepdim}"] if layer.keepdim else [])


PairwiseDistance = _layer(
    "PairwiseDistance", distance.pairwise_distance, {"p": 2.0, "epsilon": 1e-6, "keepdim": False}, inputs="x, y",
    prefix="", shown=_norm, on="wb.rand([2, 4]), wb.rand([2, 4])",
)  # fmt: skip


class Identity(Layer):
    """The input as it is.

    Args:
        arguments, options: accepted, and of no use.

    Example:
        >>> x = wb.ones([2])
        >>> wb.nn.Identity(54, unused=True)(x) is x
        True
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        """The input."""
        return input
