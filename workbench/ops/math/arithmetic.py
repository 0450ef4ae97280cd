"""Arithmetic: the four operations and their kin, powers, scaling.

Binary ops broadcast as NumPy does and take tensors of one dtype; float16 stays float16.
"""

from __future__ import annotations

from typing import Any

from workbench.errors import InvalidType, ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.elementwise import elementwise
from workbench.framework.op.infix import Infix, fit_to_number, is_number, tensor_method
from workbench.framework.op.record import find_op
from workbench.framework.values.dtype import float32
from workbench.framework.values.rows import Rows
from workbench.framework.values.spec import Spec, require_float
from workbench.ops.arguments import has_value
from workbench.ops.math.compare import where
from workbench.ops.math.unary import floor, log
from workbench.ops.pointwise import (
    Tensor,
    binary,
    float_elementwise,
    number_elementwise,
    number_for,
    require_whole,
)

OFFERED = {"workbench": "add divide floor_divide floor_mod maximum minimum mod multiply pow remainder scale subtract"}


# Two operands


@elementwise("elementwise_add", "X, Y -> Out", grad=lambda g, out, x, y: (g, g), saved="")
def ADD(xp: Any, x: Any, y: Any) -> Any:
    """x + y."""
    return xp.add(x, y)


@number_elementwise(
    "elementwise_sub",
    "X, Y -> Out",
    grad=lambda g, out, x, y: (g, lambda: -g),
    saved="",
)
def SUB(xp: Any, x: Any, y: Any) -> Any:
    """x - y."""
    return xp.subtract(x, y)


@elementwise(
    "elementwise_mul",
    "X, Y -> Out",
    grad=lambda g, out, x, y: (lambda: g * y, lambda: g * x),
)
def MUL(xp: Any, x: Any, y: Any) -> Any:
    """x * y."""
    return xp.multiply(x, y)


@float_elementwise(
    "elementwise_div",
    "X, Y -> Out",
    grad=lambda g, out, x, y: (lambda: g / y, lambda: -g * out / y),
    saved="Y, Out",
)
def DIV(xp: Any, x: Any, y: Any) -> Any:
    """x / y."""
    return xp.divide(x, y)


@number_elementwise(
    "elementwise_mod",
    "X, Y -> Out",
    grad=lambda g, out, x, y: (g, lambda: -g * floor(x / y)),
)
def MOD(xp: Any, x: Any, y: Any) -> Any:
    """What is left of x after division by y, with the sign of y."""
    return xp.remainder(x, y)


@number_elementwise("elementwise_floordiv", "X, Y -> Out")
def FLOORDIV(xp: Any, x: Any, y: Any) -> Any:
    """The largest integer that is not above x / y."""
    return xp.floor_divide(x, y)


# At a tie the gradient goes to Y, as in Paddle.
@elementwise(
    "elementwise_max",
    "X, Y -> Out",
    grad=lambda g, out, x, y: (lambda: g * (x > y), lambda: g * (x <= y)),
)
def MAX(xp: Any, x: Any, y: Any) -> Any:
    """The larger of x and y."""
    return xp.maximum(x, y)


@elementwise(
    "elementwise_min",
    "X, Y -> Out",
    grad=lambda g, out, x, y: (lambda: g * (x < y), lambda: g * (x >= y)),
)
def MIN(xp: Any, x: Any, y: Any) -> Any:
    """The smaller of x and y."""
    return xp.minimum(x, y)


def _pow_grad(g: Any, out: Any, x: Any, y: Any) -> tuple[Any, ...]:
    # 0 ** y is 0 for y > 0 whatever y, so its derivative by y is 0, not 0 * log(0).
    return lambda: g * y * x ** (y - 1.0), lambda: g * out * log(where(x == 0.0, 1.0, x))


@number_elementwise("elementwise_pow", "X, Y -> Out", grad=_pow_grad, saved="X, Y, Out")
def POW_OF(xp: Any, x: Any, y: Any) -> Any:
    """x to the power of y."""
    return xp.power(x, y)


@tensor_method("add")
def add(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """x + y.

    Args:
        x, y: tensors of one dtype whose shapes broadcast; one may be a number.
        name: layer name of the result in a Program.

    Returns:
        a tensor of the broadcast shape and the same dtype.

    Raises:
        InvalidType: the dtypes differ (cast one with `.astype()`), or neither is a tensor.
        InvalidArgument: the shapes do not broadcast.

    Example:
        >>> print(wb.add(wb.to_tensor([1.0, 2.0]), wb.to_tensor([10.0, 20.0])).numpy())
        [11. 22.]
    """
    return binary(ADD, x, y, name)


@tensor_method("subtract")
def subtract(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """x - y. Args, Returns and Raises: as for `add`.

    Example:
        >>> print(wb.subtract(wb.to_tensor([1.0, 2.0]), wb.to_tensor([3.0, 1.0])).numpy())
        [-2.  1.]
    """
    return binary(SUB, x, y, name)


@tensor_method("multiply")
def multiply(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """x * y, element by element. Args, Returns and Raises: as for `add`.

    Example:
        >>> print(wb.multiply(wb.to_tensor([1.0, 2.0]), wb.to_tensor([3.0, 4.0])).numpy())
        [3. 8.]
    """
    return binary(MUL, x, y, name)


@tensor_method("divide")
def divide(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """x / y; integers are cast to float32 first. Args, Returns and Raises: as for `add`.

    Example:
        >>> print(wb.divide(wb.to_tensor([1.0, 3.0]), wb.to_tensor([2.0, 2.0])).numpy())
        [0.5 1.5]
    """
    return binary(DIV, _as_float(x), _as_float(y), name)


def _as_float(x: Any) -> Any:
    return x.astype(float32) if isinstance(x, Infix) and not x.dtype.is_float else x


@tensor_method("floor_divide")
def floor_divide(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """x / y rounded down. Has no gradient. Args, Returns and Raises: as for `add`.

    Example:
        >>> print(wb.floor_divide(wb.to_tensor([7, 9]), wb.to_tensor([2, 4])).numpy())
        [3 2]
    """
    return binary(FLOORDIV, x, y, name)


@tensor_method("mod", "remainder", "floor_mod")
def remainder(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """x - y * floor(x / y): what is left of x, with the sign of y. Args, Returns and Raises: as for `add`.

    Example:
        >>> print(wb.remainder(wb.to_tensor([7, -7]), wb.to_tensor([3, 3])).numpy())
        [1 2]
    """
    return binary(MOD, x, y, name)


mod = floor_mod = remainder


@tensor_method("maximum")
def maximum(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """The larger of x and y; NaN if either is. At a tie the gradient goes to y.

    Args, Returns and Raises: as for `add`.

    Example:
        >>> print(wb.maximum(wb.to_tensor([1.0, 5.0]), wb.to_tensor([3.0, 2.0])).numpy())
        [3. 5.]
    """
    return binary(MAX, x, y, name)


@tensor_method("minimum")
def minimum(x: Tensor, y: Tensor, name: str | None = None) -> Tensor:
    """The smaller of x and y; NaN if either is. At a tie the gradient goes to y.

    Args, Returns and Raises: as for `add`.

    Example:
        >>> print(wb.minimum(wb.to_tensor([1.0, 5.0]), wb.to_tensor([3.0, 2.0])).numpy())
        [1. 2.]
    """
    return binary(MIN, x, y, name)


# Powers


def _infer_pow(x: Spec, factor: float) -> Spec:
    require_whole("a power", x, factor)
    if not x.dtype.is_float and factor < 0:
        raise ShapeError("integers have no negative powers; cast to a floating dtype first", "a power >= 0", factor)
    return x


def _pow_factor_grad(g: Any, out: Any, x: Any, factor: float) -> Any:
    if factor == 0:
        return g * 0.0
    return g * (x ** (factor - 1.0) * factor) if factor != 1 else g


@elementwise("pow", "X -> Out", attrs={"factor": 1.0}, infer=_infer_pow, grad=_pow_factor_grad)
def POW(xp: Any, x: Any, factor: float) -> Any:
    """x to the power of a number."""
    if factor == 2:
        return xp.square(x)
    if factor == 0.5:
        return xp.sqrt(x)
    if factor == -1:
        return xp.reciprocal(x)
    return xp.power(x, number_for(x, factor))


@tensor_method("pow")
def pow(x: Tensor, y: Any, name: str | None = None) -> Tensor:
    """x to the power of y.

    Args:
        x: tensor. An integer tensor is cast to float32 if `y` is a fractional number.
        y: a number, or a tensor of the dtype of `x`; the shapes broadcast.

    Returns:
        a tensor of the broadcast shape and the dtype of `x`. Fractional powers of negative numbers are NaN.

    Raises:
        InvalidType: the dtypes differ. InvalidArgument: shapes that do not broadcast, an integer tensor to a
            negative power.

    Example:
        >>> print(wb.pow(wb.to_tensor([1.0, 2.0, 3.0]), 2).numpy())
        [1. 4. 9.]
    """
    if is_number(y) and isinstance(x, Infix):
        return POW(fit_to_number(x, y), factor=float(y), name=name)
    return binary(POW_OF, x, y, name)


# Scale


def _infer_scale(x: Spec, scale: float, bias: float, bias_after_scale: bool) -> Spec:
    require_whole("scale", x, scale, bias)
    return x


def _infer_scale_rows(x: Spec, scale: float, bias: float, bias_after_scale: bool) -> Spec:
    require_float("scale of a sparse gradient", x)
    if bias:
        raise ShapeError("scale adds nothing to a sparse gradient, which has no other rows to add to", 0.0, bias)
    return x


_SCALE_ATTRS = {"scale": 1.0, "bias": 0.0, "bias_after_scale": True}


@op("scale_rows", "X -> Out", attrs=_SCALE_ATTRS, sparse="X", infer=_infer_scale_rows)
def SCALE_ROWS(xp: Any, x: Rows, scale: float, bias: float, bias_after_scale: bool) -> Rows:
    """What `scale` makes of a sparse gradient: its rows times one number."""
    return x.scale(x.dtype.type(scale))


@elementwise(
    "scale",
    "X -> Out",
    attrs=_SCALE_ATTRS,
    rows_form=SCALE_ROWS,
    infer=_infer_scale,
    grad=lambda g, out, x, scale, bias, bias_after_scale: g * scale if scale != 1 else g,
    saved="",
)
def SCALE(xp: Any, x: Any, scale: float, bias: float, bias_after_scale: bool) -> Any:
    """x * scale + bias, or (x + bias) * scale."""
    scale, bias = number_for(x, scale), number_for(x, bias)
    if bias == 0:
        return xp.multiply(x, scale)
    if scale == 1:
        return xp.add(x, bias)
    return x * scale + bias if bias_after_scale else (x + bias) * scale


@tensor_method("scale")
def scale(
    x: Tensor,
    scale: float = 1.0,
    bias: float = 0.0,
    bias_after_scale: bool = True,
    act: str | None = None,
    name: str | None = None,
) -> Tensor:
    """x * scale + bias.

    Args:
        x: tensor; integers take whole numbers only.
        scale, bias: numbers.
        bias_after_scale: False computes (x + bias) * scale.
        act: type of an activation applied to the result, e.g. `"relu"`.

    Raises:
        InvalidType: scale or bias is no number, or fractional for integers. NotFound: no such activation.

    Example:
        >>> print(wb.scale(wb.to_tensor([1.0, 2.0]), scale=10.0, bias=1.0).numpy())
        [11. 21.]
    """
    if isinstance(scale, Infix) and has_value(scale):
        scale = float(scale)
    for what, value in (("scale", scale), ("bias", bias)):
        if not is_number(value):
            raise InvalidType(f"{what} of scale is a number, got {value!r}; multiply tensors with *")
    out = SCALE(x, scale=float(scale), bias=float(bias), bias_after_scale=bias_after_scale, name=name)
    return out if act is None else find_op(act)(out)
