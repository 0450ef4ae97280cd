"""Pools, and their inverses."""

from __future__ import annotations

from functools import partial
from typing import Any

from workbench.layers.thin.function_layer import REQUIRED, function_layer
from workbench.ops.conv.pools import pool, pool1d, pool3d, unpool

SEQUENCE, IMAGE, VOLUME = "wb.rand([1, 2, 6])", "wb.rand([1, 2, 6, 6])", "wb.rand([1, 2, 4, 4, 4])"
WINDOW: dict[str, Any] = {"kernel_size": REQUIRED, "stride": None, "padding": 0}
KERNEL = {"kernel_size": "ksize"}
DIVISOR = {**KERNEL, "divisor_override": "divisor"}

_pool = partial(function_layer, prefix="", shown="kernel_size stride padding", use="2")
_adaptive = partial(function_layer, shown="output_size", use="2")
_inverse = partial(function_layer, inputs="x, indices", prefix="", attributes=KERNEL, shown="output_size", use="2")


def _mean(**more: Any) -> dict[str, Any]:
    return {**WINDOW, "ceil_mode": False, "exclusive": True, "divisor_override": None, **more}


def _largest(**more: Any) -> dict[str, Any]:
    return {**WINDOW, "return_mask": False, "ceil_mode": False, **more}


def _back(data_format: str) -> dict[str, Any]:
    return {**WINDOW, "data_format": data_format, "output_size": None}


AvgPool1D = _pool("AvgPool1D", pool1d.avg_pool1d, {**WINDOW, "exclusive": True, "ceil_mode": False}, on=SEQUENCE)
AvgPool2D = _pool("AvgPool2D", pool.avg_pool2d, _mean(data_format="NCHW"), attributes=DIVISOR, on=IMAGE)
AvgPool3D = _pool("AvgPool3D", pool3d.avg_pool3d, _mean(data_format="NCDHW"), attributes=DIVISOR, on=VOLUME)
MaxPool1D = _pool("MaxPool1D", pool1d.max_pool1d, _largest(), inputs="input", on=SEQUENCE)
MaxPool2D = _pool("MaxPool2D", pool.max_pool2d, _largest(data_format="NCHW"), attributes=KERNEL, on=IMAGE)
MaxPool3D = _pool("MaxPool3D", pool3d.max_pool3d, _largest(data_format="NCDHW"), attributes=KERNEL, on=VOLUME)

AdaptiveAvgPool1D = _adaptive(
    "AdaptiveAvgPool1D", pool1d.adaptive_avg_pool1d, {"output_size": REQUIRED}, inputs="input", prefix="", on=SEQUENCE
)
AdaptiveAvgPool2D = _adaptive(
    "AdaptiveAvgPool2D", pool.adaptive_avg_pool2d, {"output_size": REQUIRED, "data_format": "NCHW"}, on=IMAGE
)
AdaptiveAvgPool3D = _adaptive(
    "AdaptiveAvgPool3D", pool3d.adaptive_avg_pool3d, {"output_size": REQUIRED, "data_format": "NCDHW"}, on=VOLUME
)
AdaptiveMaxPool1D = _adaptive(
    "AdaptiveMaxPool1D", pool1d.adaptive_max_pool1d, {"output_size": REQUIRED, "return_mask": False},
    inputs="input", prefix="", shown="output_size return_mask", on=SEQUENCE,
)  # fmt: skip
AdaptiveMaxPool2D = _adaptive(
    "AdaptiveMaxPool2D", pool.adaptive_max_pool2d, {"output_size": REQUIRED, "return_mask": False},
    shown="output_size return_mask", on=IMAGE,
)  # fmt: skip
AdaptiveMaxPool3D = _adaptive(
    "AdaptiveMaxPool3D", pool3d.adaptive_max_pool3d, {"output_size": REQUIRED, "return_mask": False},
    shown="output_size return_mask", on=VOLUME,
)  # fmt: skip

MaxUnPool1D = _inverse(
    "MaxUnPool1D",
    unpool.max_unpool1d,
    _back("NCL"),
    on=f"*wb.nn.functional.max_pool1d({SEQUENCE}, 2, return_mask=True)",
)
MaxUnPool3D = _inverse(
    "MaxUnPool3D",
    unpool.max_unpool3d,
    _back("NCDHW"),
    on=f"*wb.nn.functional.max_pool3d({VOLUME}, 2, return_mask=True)",
)
MaxUnPool2D = _inverse(
    "MaxUnPool2D", unpool.max_unpool2d, _back("NCHW"), on=f"*wb.nn.functional.max_pool2d({IMAGE}, 2, return_mask=True)"
)
