"""Activations that write their result over the tensor itself: `F.relu_(x)` is `F.relu(x)` in the memory of `x`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.dygraph.tensor.inplace import writing
from workbench.dygraph.tensor.tensor import Tensor
from workbench.ops.loss.softmax import softmax
from workbench.ops.nn.activation import elu
from workbench.ops.nn.composed_activation import thresholded_relu
from workbench.ops.nn.piecewise import hardtanh, leaky_relu, relu


def _in_place(function: Callable[..., Any]) -> Callable[..., Tensor]:
    name = function.__name__
    writer = writing(f"{name}_", function)
    writer.__name__ = writer.__qualname__ = f"{name}_"
    writer.__module__ = __name__
    writer.__doc__ = f"""`{name}` in place: the result takes the place of the tensor's value; returns the tensor.

    Raises:
        InvalidArgument: `x` is a leaf that wants a gradient, while gradients are recorded. What `{name}` raises.

    Example:
        >>> x = wb.to_tensor([-1.0, 2.0])
        >>> F.{name}_(x) is x
        True
    """
    return writer


elu_ = _in_place(elu)
hardtanh_ = _in_place(hardtanh)
leaky_relu_ = _in_place(leaky_relu)
relu_ = _in_place(relu)
softmax_ = _in_place(softmax)
thresholded_relu_ = _in_place(thresholded_relu)
