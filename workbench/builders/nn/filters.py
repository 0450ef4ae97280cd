"""The parameters of convolutions: filters and biases, of images and of volumes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from workbench.builders.initializers.initializer import Normal
from workbench.builders.layer import LayerBuilder, require_float_input
from workbench.builders.param_attr import ParamAttr, to_attr
from workbench.framework.op.infix import not_a_variable
from workbench.framework.program.variable import Variable
from workbench.framework.values.dtype import DType


class Channels(NamedTuple):
    """How many channels a convolution makes and reads, and into how many groups both are divided."""

    filters: int
    groups: int
    inputs: int

    def filter(self, layer: LayerBuilder, attr: ParamAttr, window: Sequence[int], dtype: DType) -> Variable:
        """`[filters, inputs / groups, *window]`, normal with deviation sqrt(2 / (window * inputs)) by default."""
        spread = Normal(0.0, math.sqrt(2.0 / (math.prod(window) * self.inputs)))
        return layer.parameter(attr, [self.filters, self.inputs // self.groups, *window], dtype, default=spread)

    def transposed_filter(self, layer: LayerBuilder, attr: ParamAttr, window: Sequence[int], dtype: DType) -> Variable:
        """`[inputs, filters / groups, *window]`."""
        return layer.parameter(attr, [self.inputs, self.filters // self.groups, *window], dtype)

    def bias(self, layer: LayerBuilder, attr: Any, dtype: DType) -> Variable | None:
        """`[filters]`, or None where a user's `bias_attr` is False."""
        given = to_attr(attr, "bias_attr")
        return None if given is None else layer.parameter(given, [self.filters], dtype, is_bias=True)


def require_input(owner: str, x: Any) -> None:
    if not isinstance(x, Variable):
        raise not_a_variable(f"{owner} takes a Variable as input", x)
    require_float_input(owner, x)
