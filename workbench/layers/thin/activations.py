"""Activations without parameters."""

from __future__ import annotations

from functools import partial
from typing import Any

from workbench.errors import ShapeError
from workbench.framework.values.spec import shape_text
from workbench.layers.thin.function_layer import REQUIRED, function_layer
from workbench.ops.loss.softmax import log_softmax, softmax
from workbench.ops.nn import activation as ops
from workbench.ops.nn import composed_activation as composed
from workbench.ops.nn import piecewise

_layer = partial(function_layer, shows_name=True)


def softmax2d(x: Any, name: str | None = None) -> Any:
    """Softmax over the channels of every pixel of `[N, C, H, W]` or `[C, H, W]`."""
    if len(x.shape) not in (3, 4):
        raise ShapeError("Softmax2D takes images", "[N, C, H, W] or [C, H, W]", shape_text(x.shape))
    return softmax(x, axis=-3, name=name)


CELU = _layer("CELU", ops.celu, {"alpha": 1.0}, shown="alpha")
ELU = _layer("ELU", ops.elu, {"alpha": 1.0}, shown="alpha")
GELU = _layer("GELU", ops.gelu, {"approximate": False}, shown="approximate")
GLU = _layer("GLU", composed.glu, {"axis": -1}, shown="axis")
Hardshrink = _layer("Hardshrink", composed.hardshrink, {"threshold": 0.5}, shown="threshold")
Hardsigmoid = _layer("Hardsigmoid", piecewise.hardsigmoid, prefix="")
Hardswish = _layer("Hardswish", piecewise.hardswish)
Hardtanh = _layer("Hardtanh", piecewise.hardtanh, {"min": -1.0, "max": 1.0}, shown="min max")
LeakyReLU = _layer("LeakyReLU", piecewise.leaky_relu, {"negative_slope": 0.01}, shown="negative_slope")
LogSigmoid = _layer("LogSigmoid", ops.log_sigmoid)
LogSoftmax = _layer("LogSoftmax", log_softmax, {"axis": -1}, shown="axis")
Maxout = _layer("Maxout", composed.maxout, {"groups": REQUIRED, "axis": 1}, shown="groups axis", use="2")
Mish = _layer("Mish", ops.mish)
ReLU = _layer("ReLU", piecewise.relu)
ReLU6 = _layer("ReLU6", piecewise.relu6)
RReLU = _layer(
    "RReLU", composed.rrelu, {"lower": 1.0 / 8.0, "upper": 1.0 / 3.0}, follows_training=True,
    shown=lambda layer: [
        f"lower={layer._lower}", f"upper={layer._upper}", f"training={layer.training}", f"dtype={layer._dtype}",
    ],
)  # fmt: skip
SELU = _layer("SELU", ops.selu, {"scale": ops.SELU_SCALE, "alpha": ops.SELU_ALPHA}, shown="scale alpha")
Sigmoid = _layer("Sigmoid", ops.sigmoid, prefix="")
Silu = _layer("Silu", ops.silu)
Softmax = _layer("Softmax", softmax, {"axis": -1}, shown="axis")
Softmax2D = _layer("Softmax2D", softmax2d, on="wb.rand([1, 3, 2, 2])")
Softplus = _layer("Softplus", ops.softplus, {"beta": 1, "threshold": 20}, shown="beta threshold")
Softshrink = _layer("Softshrink", composed.softshrink, {"threshold": 0.5}, shown="threshold")
Softsign = _layer("Softsign", ops.softsign)
Swish = _layer("Swish", ops.swish)
Tanh = _layer("Tanh", ops.tanh)
Tanhshrink = _layer("Tanhshrink", ops.tanhshrink)
ThresholdedReLU = _layer("ThresholdedReLU", composed.thresholded_relu, {"threshold": 1.0}, shown="threshold")
