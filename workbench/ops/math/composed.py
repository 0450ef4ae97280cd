"""Functions of numbers, element by element, composed of other ops."""

from __future__ import annotations

import math
from typing import Any

from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.op.infix import Infix, tensor_method
from workbench.framework.values.default_dtype import default_dtype
from workbench.framework.values.dtype import float32
from workbench.framework.values.spec import normalize_axis
from workbench.ops.arguments import as_number, one_int
from workbench.ops.math.arithmetic import maximum
from workbench.ops.math.clip import clip
from workbench.ops.math.compare import where
from workbench.ops.math.unary import exp, isfinite, isnan, log, log1p, sqrt
from workbench.ops.pointwise import Tensor
from workbench.ops.tensor.creation import full_like, linspace
from workbench.ops.tensor.join import concat
from workbench.ops.tensor.slicing import slice as part_of

OFFERED = {
    "workbench": (
        "deg2rad diff fmax fmin heaviside hypot ldexp lerp logaddexp logit logspace masked_fill nan_to_num rad2deg "
        "trapezoid"
    ),
}


@tensor_method("lerp")
def lerp(x: Tensor, y: Tensor, weight: Any, name: str | None = None) -> Any:
    """`x + weight * (y - x)`: x where the weight is 0, y where it is 1.

    Args:
        x, y: floating tensors that broadcast.
        weight: a number, or a tensor that broadcasts with them.

    Example:
        >>> print(wb.lerp(wb.zeros([2]), wb.to_tensor([4.0, 8.0]), 0.5).numpy())
        [2. 4.]
    """
    return x + (y - x) * weight


@tensor_method("logaddexp")
def logaddexp(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """log(exp(x) + exp(y)) without overflow; integers are cast to float32 first.

    Example:
        >>> print(wb.logaddexp(wb.to_tensor([1000.0]), wb.to_tensor([1000.0])).numpy().round(3))
        [1000.693]
    """
    x, y = (v if v.dtype.is_float else v.astype(float32) for v in (x, y))
    is_larger = x >= y
    larger, smaller = where(is_larger, x, y), where(is_larger, y, x)
    gap = smaller - larger
    is_number = isfinite(gap)  # it is infinite, or that of two infinities
    return where(is_number, larger + log1p(exp(where(is_number, gap, 0.0))), maximum(x, y), name=name)


@tensor_method("heaviside")
def heaviside(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """0 where `x` is negative or NaN, 1 where it is positive, `y` where it is 0.

    Args:
        x, y: tensors of one dtype that broadcast.

    Example:
        >>> print(wb.heaviside(wb.to_tensor([-2.0, 0.0, 3.0]), wb.to_tensor([0.5])).numpy())
        [0.  0.5 1. ]
    """
    return where(x == 0, y, (x > 0).astype(x.dtype))


@tensor_method("hypot")
def hypot(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """sqrt(x² + y²), the length of the hypotenuse.

    Args:
        x, y: floating tensors that broadcast.

    Example:
        >>> print(wb.hypot(wb.to_tensor([3.0]), wb.to_tensor([4.0])).numpy())
        [5.]
    """
    return sqrt(x * x + y * y, name=name)


@tensor_method("ldexp")
def ldexp(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """`x` times 2 to the power of `y`; integers are cast to float32 first.

    Raises:
        InvalidType: no tensors.

    Example:
        >>> print(wb.ldexp(wb.to_tensor([1.0, 3.0]), wb.to_tensor([2], dtype="int32")).numpy())
        [ 4. 12.]
    """
    for value in (x, y):
        if not isinstance(value, Infix):
            raise InvalidType(f"ldexp takes tensors, got {value!r}")
    x, y = (v if v.dtype.is_float else v.astype(float32) for v in (x, y))
    return x * full_like(y, 2.0) ** y


@tensor_method("deg2rad")
def deg2rad(x: Tensor, name: str | None = None) -> Any:
    """Degrees as radians; integers are cast to float32.

    Example:
        >>> print(wb.deg2rad(wb.to_tensor([180.0, 90.0])).numpy().round(3))
        [3.142 1.571]
    """
    return x * (math.pi / 180.0)


@tensor_method("rad2deg")
def rad2deg(x: Tensor, name: str | None = None) -> Any:
    """Radians as degrees; integers are cast to float32.

    Example:
        >>> print(wb.rad2deg(wb.to_tensor([0.0, 3.14159265])).numpy().round(3))
        [  0. 180.]
    """
    return x * (180.0 / math.pi)


@tensor_method("nan_to_num")
def nan_to_num(
    x: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None, name: str | None = None
) -> Any:
    """`x` with numbers in place of NaN and infinities.

    Args:
        x: floating tensor.
        nan, posinf, neginf: what takes their place; None is the largest, or smallest, number of the dtype.

    Example:
        >>> print(wb.nan_to_num(wb.to_tensor([float("nan"), 1.0, float("inf")]), posinf=9.0).numpy())
        [0. 1. 9.]
    """
    top = float(_limits(x).max)
    x = where(isnan(x), float(nan), x)
    x = where(x == math.inf, float(top if posinf is None else posinf), x)
    return where(x == -math.inf, float(-top if neginf is None else neginf), x, name=name)


def _limits(x: Any) -> Any:
    import ml_dtypes  # NumPy's own finfo does not know bfloat16

    return ml_dtypes.finfo(x.dtype.numpy)


@tensor_method("logit")
def logit(x: Tensor, eps: float | None = None, name: str | None = None) -> Any:
    """log(x / (1 - x)), the inverse of sigmoid.

    Args:
        x: floating tensor.
        eps: `x` counts as within [eps, 1 - eps]; None leaves it, and NaN is the answer outside [0, 1].

    Example:
        >>> print(wb.logit(wb.to_tensor([0.5, 0.9])).numpy().round(3))
        [0.    2.197]
    """
    if eps:
        x = clip(x, eps, 1.0 - eps)
    return log(x / (1.0 - x), name=name)


@tensor_method("fmax")
def fmax(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """The larger of x and y; the other one where one is NaN. At a tie the gradient goes to x.

    Args:
        x, y: floating tensors of one dtype that broadcast.

    Example:
        >>> print(wb.fmax(wb.to_tensor([1.0, float("nan")]), wb.to_tensor([3.0, 2.0])).numpy())
        [3. 2.]
    """
    return where(isnan(y) | (x >= y), x, y, name=name)


@tensor_method("fmin")
def fmin(x: Tensor, y: Tensor, name: str | None = None) -> Any:
    """The smaller of x and y; the other one where one is NaN. Args: as for `fmax`.

    Example:
        >>> print(wb.fmin(wb.to_tensor([1.0, float("nan")]), wb.to_tensor([3.0, 2.0])).numpy())
        [1. 2.]
    """
    return where(isnan(y) | (x <= y), x, y, name=name)


@tensor_method("masked_fill")
def masked_fill(x: Tensor, mask: Tensor, value: Any, name: str | None = None) -> Any:
    """`value` where `mask` holds, `x` elsewhere.

    Args:
        mask: bool, broadcasts with `x`.
        value: a number, or a tensor without dimensions of the dtype of `x`.

    Raises:
        InvalidType: the mask is not bool.

    Example:
        >>> print(wb.masked_fill(wb.ones([2]), wb.to_tensor([True, False]), 5.0).numpy())
        [5. 1.]
    """
    return where(mask, value, x, name=name)


@tensor_method("diff")
def diff(
    x: Tensor, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None, name: str | None = None
) -> Any:
    """The differences of neighbours along `axis`.

    Args:
        n: how many times.
        prepend, append: tensors that are joined to `x` before and after.

    Raises:
        InvalidArgument: n below 1, or an axis that `x` does not have.

    Example:
        >>> print(wb.diff(wb.to_tensor([1.0, 4.0, 9.0])).numpy())
        [3. 5.]
    """
    if one_int("diff's n", n) < 1:
        raise InvalidArgument(f"diff takes n >= 1, got {n}")
    axis = normalize_axis(axis, len(x.shape))
    joined = [v for v in (prepend, x, append) if v is not None]
    x = concat(joined, axis) if len(joined) > 1 else x
    for _ in range(n):
        later, earlier = part_of(x, [axis], [1], [_FAR]), part_of(x, [axis], [0], [-1])
        x = later ^ earlier if x.dtype.kind == "bool" else later - earlier
    return x


_FAR = 2**31 - 1  # an end beyond any dimension


@tensor_method("trapezoid")
def trapezoid(y: Tensor, x: Any = None, dx: float | None = None, axis: int = -1, name: str | None = None) -> Any:
    """The integral of `y` along `axis` by the trapezoidal rule.

    Args:
        y: floating tensor.
        x: where its values are, a tensor that broadcasts with it; None where they are `dx` (1.0) apart.

    Raises:
        InvalidArgument: both x and dx; an axis that `y` does not have.

    Example:
        >>> print(wb.trapezoid(wb.to_tensor([4.0, 5.0, 6.0])).item())
        10.0
    """
    return trapezoids(y, x, dx, axis).sum(axis)


def trapezoids(y: Any, x: Any, dx: float | None, axis: int) -> Any:
    """The areas between neighbours along `axis`. Args and Raises: as for `trapezoid`."""
    if x is not None and dx is not None:
        raise InvalidArgument("trapezoid takes x or dx, not both")
    axis = normalize_axis(axis, len(y.shape))
    heights = part_of(y, [axis], [1], [_FAR]) + part_of(y, [axis], [0], [-1])
    if x is None:
        return heights * ((1.0 if dx is None else dx) / 2.0)
    widths = diff(x, axis=axis if len(x.shape) == len(y.shape) else -1)
    if len(x.shape) == 1 and len(y.shape) > 1:
        widths = widths.reshape([-1 if i == axis else 1 for i in range(len(y.shape))])
    return heights * widths * 0.5


def logspace(start: Any, stop: Any, num: int, base: float = 10.0, dtype: Any = None, name: str | None = None) -> Any:
    """`base` to the power of `num` numbers from `start` to `stop`. Args and Raises: as for `linspace`.

    Example:
        >>> print(wb.logspace(0, 3, 4).numpy())
        [   1.   10.  100. 1000.]
    """
    exponents = linspace(start, stop, num, "float64")
    return (full_like(exponents, as_number("base of logspace", base)) ** exponents).astype(dtype or default_dtype())
