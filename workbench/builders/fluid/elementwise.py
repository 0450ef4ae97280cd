"""`fluid.layers`: arithmetic, element by element and over dimensions, with the arguments of Paddle 1.x."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.builders.layer import activation_op
from workbench.framework.values.dtype import as_dtype
from workbench.ops.math.arithmetic import ADD, DIV, FLOORDIV, MAX, MIN, MOD, MUL, POW, POW_OF, SUB
from workbench.ops.math.arithmetic import scale as scaled
from workbench.ops.math.cast import CAST
from workbench.ops.math.clip import clip as within
from workbench.ops.math.reductions import extreme, folds
from workbench.ops.math.reductions import reduce as reductions
from workbench.ops.math.reductions.accumulate import add_n
from workbench.ops.math.unary import sign as sign_of
from workbench.ops.tensor.assign import assign as assigned
from workbench.ops.tensor.shape import unsqueeze as with_dimensions
from workbench.ops.update.gradient_clip import clip_by_norm as shortened


def _pairwise(record: Any, x: Any, y: Any, axis: int, act: str | None, name: str | None) -> Any:
    activate = activation_op(act, record.type) if act is not None else None
    result = record(x, _aligned(x, y, axis), name=name)
    return result if activate is None else activate(result, name=name)


def _aligned(x: Any, y: Any, axis: int) -> Any:
    """`y` with as many dimensions behind as it takes to begin at dimension `axis` of `x`."""
    behind = len(x.shape) - axis - len(y.shape)
    return y if axis == -1 or behind <= 0 else with_dimensions(y, [-1] * behind)


def elementwise_add(x: Any, y: Any, axis: int = -1, act: str | None = None, name: str | None = None) -> Any:
    """act(x + y); `axis` is the dimension of `x` that the first of `y` belongs to, -1: the last ones.

    Operators of a program are aligned at the last dimension. Where 1.8.5 gives them an axis, as `conv2d` for its bias,
    `y` gets dimensions of size 1 behind by an operator of its own (`unsqueeze2`, `reshape2`), which copies nothing.
    """
    return _pairwise(ADD, x, y, axis, act, name)


def elementwise_sub(x: Any, y: Any, axis: int = -1, act: str | None = None, name: str | None = None) -> Any:
    """act(x - y); see `elementwise_add`."""
    return _pairwise(SUB, x, y, axis, act, name)


def elementwise_mul(x: Any, y: Any, axis: int = -1, act: str | None = None, name: str | None = None) -> Any:
    """act(x * y); see `elementwise_add`."""
    return _pairwise(MUL, x, y, axis, act, name)


def elementwise_div(x: Any, y: Any, axis: int = -1, act: str | None = None, name: str | None = None) -> Any:
    """act(x / y); see `elementwise_add`."""
    return _pairwise(DIV, x, y, axis, act, name)


def elementwise_max(x: Any, y: Any, axis: int = -1, act: str | None = None, name: str | None = None) -> Any:
    """act(max(x, y)); see `elementwise_add`."""
    return _pairwise(MAX, x, y, axis, act, name)


def elementwise_min(x: Any, y: Any, axis: int = -1, act: str | None = None, name: str | None = None) -> Any:
    """act(min(x, y)); see `elementwise_add`."""
    return _pairwise(MIN, x, y, axis, act, name)


def scale(
    x: Any,
    scale: float = 1.0,
    bias: float = 0.0,
    bias_after_scale: bool = True,
    act: str | None = None,
    name: str | None = None,
) -> Any:
    """act(scale * x + bias), or act(scale * (x + bias))."""
    return scaled(x, scale, bias, bias_after_scale, act, name)


def cast(x: Any, dtype: Any) -> Any:
    """`x` in another dtype."""
    return CAST(x, dtype=as_dtype(dtype).name)


def elementwise_pow(x: Any, y: Any, axis: int = -1, act: str | None = None, name: str | None = None) -> Any:
    """act(x ** y); see `elementwise_add`."""
    return _pairwise(POW_OF, x, y, axis, act, name)


def elementwise_mod(x: Any, y: Any, axis: int = -1, act: str | None = None, name: str | None = None) -> Any:
    """act(x % y); see `elementwise_add`."""
    return _pairwise(MOD, x, y, axis, act, name)


def elementwise_floordiv(x: Any, y: Any, axis: int = -1, act: str | None = None, name: str | None = None) -> Any:
    """act(x // y); see `elementwise_add`."""
    return _pairwise(FLOORDIV, x, y, axis, act, name)


def pow(x: Any, factor: Any = 1.0, name: str | None = None) -> Any:
    """x ** factor, a number, or a variable of one element."""
    return POW_OF(x, factor, name=name) if hasattr(factor, "shape") else POW(x, factor=float(factor), name=name)


def clip(x: Any, min: float, max: float, name: str | None = None) -> Any:
    """x kept within [min, max]; the gradient is 0 at and beyond them.

    Raises:
        InvalidArgument: min > max.
    """
    return within(x, min, max, name)


def clip_by_norm(x: Any, max_norm: float, name: str | None = None) -> Any:
    """x, scaled down to a length of `max_norm` where it is longer."""
    return shortened(x, max_norm=float(max_norm), name=name)


def sign(x: Any) -> Any:
    """-1, 0 or 1, as x is."""
    return sign_of(x)


# Reductions


def reduce_mean(input: Any, dim: Any = None, keep_dim: bool = False, name: str | None = None) -> Any:
    """The mean over all elements, or along some dimensions."""
    return reductions.mean(input, dim, keep_dim, name)


def reduce_sum(input: Any, dim: Any = None, keep_dim: bool = False, name: str | None = None) -> Any:
    """The sum of all elements, or along some dimensions."""
    return reductions.sum(input, dim, keepdim=keep_dim, name=name)


def reduce_max(input: Any, dim: Any = None, keep_dim: bool = False, name: str | None = None) -> Any:
    """The largest of all elements, or along some dimensions."""
    return extreme.max(input, dim, keep_dim, name)


def reduce_min(input: Any, dim: Any = None, keep_dim: bool = False, name: str | None = None) -> Any:
    """The smallest of all elements, or along some dimensions."""
    return extreme.min(input, dim, keep_dim, name)


def reduce_prod(input: Any, dim: Any = None, keep_dim: bool = False, name: str | None = None) -> Any:
    """The product of all elements, or along some dimensions."""
    return folds.prod(input, dim, keep_dim, name=name)


def reduce_all(input: Any, dim: Any = None, keep_dim: bool = False, name: str | None = None) -> Any:
    """Whether all elements of a bool variable are true, of all dimensions or some."""
    return folds.all(input, dim, keep_dim, name)


def reduce_any(input: Any, dim: Any = None, keep_dim: bool = False, name: str | None = None) -> Any:
    """Whether an element of a bool variable is true, of all dimensions or some."""
    return folds.any(input, dim, keep_dim, name)


def mean(x: Any, name: str | None = None) -> Any:
    """The mean of all elements, `[1]`."""
    return reductions.mean(x, name=name)


def sum(x: Any) -> Any:
    """The sum of several variables of one shape."""
    return add_n(x)


def sums(input: Sequence[Any], out: Any = None) -> Any:
    """The sum of several variables of one shape, written into `out` if given."""
    result = add_n(list(input))
    return result if out is None else assigned(result, out)
