"""`create_parameter` and `create_global_var`: persistable variables made without a layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.builders.initializers.initializer import Constant, Initializer
from workbench.builders.layer import building
from workbench.builders.param_attr import ParamAttr, required_attr
from workbench.framework.program.variable import Parameter, Variable
from workbench.framework.values.dtype import as_dtype


def create_parameter(
    shape: Sequence[int],
    dtype: Any,
    name: str | None = None,
    attr: ParamAttr | str | Initializer | None = None,
    is_bias: bool = False,
    default_initializer: Initializer | None = None,
) -> Parameter:
    """A parameter in both programs.

    Args:
        shape: known dimensions.
        dtype: element type.
        name: its name if `attr` is None; otherwise `create_parameter_0.w_0` or `attr.name`.
        is_bias: filled with 0 unless an initializer is given; named `.b_k`.
        default_initializer: used where `attr` names none.

    Raises:
        InvalidArgument: an unknown dimension, or a shared name with another shape or dtype.

    Example:
        >>> wb.enable_static()
        >>> w = static.create_parameter([4, 2], "float32", name="w")
        >>> w.shape
        (4, 2)
    """
    with building("create_parameter") as layer:
        if attr is None:
            attr = ParamAttr(name=name)
        checked = required_attr(attr, "attr", "create_parameter")
        return layer.parameter(checked, shape, dtype, is_bias, default_initializer)


def create_global_var(
    shape: Sequence[int],
    value: float,
    dtype: Any,
    persistable: bool = False,
    force_cpu: bool = False,
    name: str | None = None,
) -> Variable:
    """A variable of the global block that the startup program fills with `value`.

    Args:
        persistable: keep it between runs. Where it is filled it is kept either way; a program that reads what
            the startup program filled needs True.
        force_cpu: accepted for Paddle's sake; places are chosen by the executor, and are CPUs.

    Raises:
        AlreadyExists: the name is taken.

    Example:
        >>> wb.enable_static()
        >>> step = static.create_global_var([1], 0.0, "float32", persistable=True, name="step")
        >>> step.persistable
        True
    """
    with building("global_var") as layer:
        variable = layer.global_variable(shape, as_dtype(dtype), Constant(value), name)
        variable.persistable = bool(persistable)
        return variable
