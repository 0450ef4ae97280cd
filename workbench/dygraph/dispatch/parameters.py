"""Making parameters, in either mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.builders import variables
from workbench.builders.initializers.default import default_initializer
from workbench.builders.initializers.initializer import Initializer
from workbench.builders.param_attr import ParamAttr, required_attr
from workbench.dygraph.tensor.parameter import EagerParamBase
from workbench.errors import InvalidArgument, InvalidType
from workbench.framework import names
from workbench.framework.op.infix import Infix
from workbench.framework.program.guard import in_static_mode
from workbench.framework.values.dtype import as_dtype
from workbench.framework.values.memory import MemoryFor, sized
from workbench.framework.values.spec import Spec, as_shape, shape_text


def create_parameter(
    shape: Sequence[int],
    dtype: Any,
    name: str | None = None,
    attr: ParamAttr | str | Initializer | None = None,
    is_bias: bool = False,
    default_initializer: Initializer | None = None,
) -> Infix:
    """A parameter: a tensor in dynamic mode, a variable of both programs in static mode.

    Args:
        shape: known dimensions.
        dtype: element type.
        name: its name if `attr` is None; otherwise `create_parameter_0.w_0` or `attr.name`.
        is_bias: filled with 0 unless an initializer is given; named `.b_k`.
        default_initializer: used where `attr` names none.

    Raises:
        InvalidArgument: an unknown dimension; in a program, a shared name with another shape or dtype.

    Example:
        >>> w = wb.create_parameter([4, 2], "float32", name="w")
        >>> w.shape, w.name
        ([4, 2], 'w')
    """
    if in_static_mode():
        return variables.create_parameter(shape, dtype, name, attr, is_bias, default_initializer)
    given = required_attr(ParamAttr(name=name) if attr is None else attr, "attr", "create_parameter")
    return new_parameter(names.generate("create_parameter"), given, shape, dtype, is_bias, default_initializer)


def new_parameter(
    owner: str,
    attr: ParamAttr,
    shape: Sequence[int],
    dtype: Any,
    is_bias: bool = False,
    default: Initializer | None = None,
) -> EagerParamBase:
    """A parameter of dynamic mode, filled.

    Args:
        owner: the layer's name, `linear_0`; the parameter is called `<owner>.w_k` (bias: `.b_k`) unless `attr` has a
            name.
        default: the initializer where neither `attr` nor `set_global_initializer` names one.

    Raises:
        InvalidArgument: an unknown dimension, or an initializer that does not suit the shape.
        InvalidType: no default initializer for the dtype.
    """
    name = attr.name if attr.name is not None else names.generate(f"{owner}.{'b' if is_bias else 'w'}")
    dims, kind = as_shape(shape, f"the shape of parameter {name!r}"), as_dtype(dtype)
    if -1 in dims:
        raise InvalidArgument(f"every dimension of parameter {name!r} must be known, got {shape_text(dims)}")
    if attr.initializer is None and default is None and not kind.is_float:
        raise InvalidType(
            f"parameter {name!r} of dtype {kind} has no default initializer; give it one in its ParamAttr"
        )
    initializer = attr.initializer or default_initializer(is_bias, default)
    with MemoryFor(f"the initial values of parameter {name!r}, {sized(Spec(dims, kind))}"):
        values = initializer.compute(dims, kind).array
    return EagerParamBase(
        values,
        name=name,
        trainable=attr.trainable,
        optimize_attr={"learning_rate": attr.learning_rate},
        regularizer=attr.regularizer,
        need_clip=attr.need_clip,
        do_model_average=attr.do_model_average,
    )
