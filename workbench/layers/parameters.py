"""Making a layer's parameters in the mode that is on: tensors with values, or variables of the current programs."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.builders.initializers.initializer import Initializer
from workbench.builders.layer import LayerBuilder
from workbench.builders.param_attr import to_attr
from workbench.dygraph.dispatch.parameters import new_parameter
from workbench.dygraph.tensor.parameter import EagerParamBase
from workbench.dygraph.tensor.tensor import Tensor
from workbench.framework.program.guard import default_main_program, in_static_mode
from workbench.framework.program.variable import Parameter
from workbench.framework.values.dtype import as_dtype


def is_parameter(value: Any) -> bool:
    """Whether a value is a parameter of either mode."""
    return isinstance(value, EagerParamBase | Parameter)


def make_parameter(layer: str, shape: Any, attr: Any, dtype: Any, is_bias: bool, default: Initializer | None) -> Any:
    """A new parameter `<layer>.w_k` (bias: `.b_k`), None if `attr` is False.

    Args:
        default: the layer's own default initializer.

    Raises:
        InvalidArgument: an unknown dimension. InvalidType: `attr` is nothing a parameter can be described by, or the
            dtype has no default initializer.
    """
    wanted = to_attr(attr, "attr")
    if wanted is None:
        return None
    if in_static_mode():
        return LayerBuilder(layer, layer).parameter(wanted, shape, as_dtype(dtype), is_bias, default)
    return new_parameter(layer, wanted, shape, dtype, is_bias, default)


def make_tensor(name: str, dtype: Any, persistable: bool) -> Any:
    """A new tensor without dimensions, or a variable of the current block."""
    kind = as_dtype(dtype)
    if in_static_mode():
        return default_main_program().current_block().create_var(name, (), kind, persistable=persistable)
    tensor = Tensor(np.zeros((), kind.numpy))
    tensor.name, tensor.persistable = name, persistable
    return tensor
