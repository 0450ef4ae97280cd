"""What element-wise ops and their public functions share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from workbench.errors import DtypeError, InvalidType
from workbench.framework.op.elementwise import elementwise
from workbench.framework.op.infix import Infix, constant_like, fit_to_number, is_number, tensor_method
from workbench.framework.op.record import Op
from workbench.framework.values.dtype import float32
from workbench.framework.values.spec import Spec, broadcast_shapes, require_float, require_numbers, require_same_dtype

Tensor = Infix  # a Variable (static mode) or a Tensor (dynamic mode)


def float_elementwise(type: str, slots: str = "X -> Out", **record: Any) -> Callable[[Callable[..., Any]], Op]:
    """Declare an element-wise op that refuses integers; further arguments as in `elementwise`."""

    return elementwise(type, slots, infer=_infer_where(require_float, type), **record)


def number_elementwise(type: str, slots: str = "X -> Out", **record: Any) -> Callable[[Callable[..., Any]], Op]:
    """Declare an element-wise op that refuses Booleans; further arguments as in `elementwise`."""
    return elementwise(type, slots, infer=_infer_where(require_numbers, type), **record)


def _infer_where(require: Callable[..., None], type: str) -> Callable[..., Spec]:
    def infer(*specs: Spec, **attrs: Any) -> Spec:
        require(type, *specs)
        require_same_dtype(type, *specs)
        return specs[0].with_shape(broadcast_shapes(*(s.shape for s in specs)))

    return infer


def unary(
    op: Op,
    text: str,
    floating: bool = True,
    name: str = "",
    methods: str | None = None,
    *,
    example: tuple[str, str],
) -> Callable[..., Any]:
    """The public function of an op with one input and no attributes.

    Args:
        op: the op.
        text: what it computes, the first line of the docstring.
        floating: the op refuses integers (said in the docstring).
        name: of the function, if it is not the op's type; `methods`: its names as a tensor method
            (default: the function's name, "" = none).
        example: a line of Python for the docstring, and what it prints.
    """

    def function(x: Tensor, name: str | None = None) -> Any:
        return op(x, name=name)

    takes = "floating" if floating else "integer or floating"
    dtype = "bool" if op.infer(Spec((), float32)).dtype.kind == "bool" else "that of `x`"
    function.__name__ = function.__qualname__ = name or op.type
    function.__module__ = sys._getframe(1).f_globals["__name__"]
    function.__doc__ = (
        f"{text}\n\nArgs:\n    x: {takes} tensor of any shape.\n"
        "    name: layer name of the result in a Program.\n\n"
        f"Returns:\n    a tensor of the shape of `x`; its dtype is {dtype}.\n"
    )
    if floating:
        function.__doc__ += "\nRaises:\n    InvalidType: `x` is not floating; cast it first.\n"
    function.__doc__ += f"\nExample:\n    >>> {example[0]}\n    {example[1]}\n"
    own = (name or op.type) if methods is None else methods
    return tensor_method(*own.split())(function)


def binary(op: Op, x: Any, y: Any, name: str | None) -> Any:
    """Apply a two-input op; one of the two may be a number.

    Raises:
        InvalidType: neither is a tensor, or the dtypes differ.
    """
    if is_number(y) and isinstance(x, Infix):
        x = fit_to_number(x, y)
        y = constant_like(x, y)
    elif is_number(x) and isinstance(y, Infix):
        y = fit_to_number(y, x)
        x = constant_like(y, x)
    elif not (isinstance(x, Infix) or isinstance(y, Infix)):
        raise InvalidType(f"{op.type} takes tensors (one may be a number), got {_kind(x)} and {_kind(y)}")
    return op(x, y, name=name)


def _kind(value: Any) -> str:
    return type(value).__name__


def number_for(x: Any, value: float) -> float | int:
    """An attribute as the plain number that leaves the dtype of `x` as it is."""
    return int(value) if x.dtype.kind in "iub" else float(value)


def require_whole(what: str, x: Spec, *values: float | None) -> None:
    """Refuse fractional attributes for integer tensors, and any for Booleans: the result would not be Boolean.

    Raises:
        DtypeError: `x` is an integer tensor and a value has a fraction; or `x` is Boolean.
    """
    if x.dtype.is_float:
        return
    if not x.dtype.is_integer:
        raise DtypeError(
            f"{what} needs numbers; cast it first, as in x.astype('int64')", "an integer or floating dtype", x.dtype
        )
    for value in values:
        if value is not None and value != int(value):
            raise DtypeError(
                f"{what} of an integer tensor takes whole numbers; cast it first, as in x.astype('float32')",
                "a whole number",
                value,
            )
