"""What gradient clipping is made of.

The norms take dense and sparse gradients (`Rows`); `clip` and `elementwise_mul`, which clip dense ones, have
counterparts for sparse ones here.
"""

from __future__ import annotations

from typing import Any

from workbench.errors import DtypeError, ShapeError
from workbench.framework.op.declare import op
from workbench.framework.values.dtype import wide_dtype
from workbench.framework.values.rows import Rows
from workbench.framework.values.spec import DENSE, ROWS, Spec, require_float, shape_text, size_of
from workbench.ops.precision import rounded, wide


def _merged(xp: Any, x: Any) -> tuple[Any, Any]:
    """A gradient in which no row comes twice, and its values."""
    if not isinstance(x, Rows):
        return x, x
    merged = x.merge(xp)
    return merged, merged.values


def _square_sum(values: Any) -> Any:
    flat = wide(values).reshape(-1)
    return (flat * flat).sum()


def _infer_squared(x: Spec) -> Spec:
    require_float("squared_l2_norm", x)
    return Spec((1,), wide_dtype(x.dtype))


def through_squared_norm(g: Any, x: Any) -> Any:
    """The gradient of `squared_l2_norm`, of tensors as of expressions."""
    return x * g * 2.0


@op(
    "squared_l2_norm",
    "X -> Out",
    sparse="X",
    infer=_infer_squared,
    grad=lambda g, out, x: through_squared_norm(g, x),
)
def squared_l2_norm(xp: Any, x: Any) -> Any:
    """The sum of squares in shape [1]; of half-precision tensors in float32, where it does not overflow."""
    return _square_sum(_merged(xp, x)[1]).reshape(1)


def _infer_clip(x: Spec, max_norm: float) -> Spec:
    require_float("clip_by_norm", x)
    if not max_norm > 0:
        raise ShapeError("max_norm of clip_by_norm is out of range", "a number > 0", max_norm)
    return x


def clip_factor(xp: Any, square: Any, max_norm: Any) -> Any:
    """What a gradient is multiplied with, from the square of its norm."""
    return max_norm / xp.maximum(xp.sqrt(square), max_norm)


@op("clip_by_norm", "X -> Out", sparse="X", attrs={"max_norm": 1.0}, infer=_infer_clip)
def clip_by_norm(xp: Any, x: Any, max_norm: float) -> Any:
    """x max_norm / max(norm, max_norm): at most `max_norm` long (P-45)."""
    merged, values = _merged(xp, x)
    factor = clip_factor(xp, _square_sum(values), max_norm)
    clipped = rounded(wide(values) * factor.astype(wide(values).dtype), values)
    return Rows(merged.rows, clipped, merged.height) if isinstance(merged, Rows) else clipped


def _require_rows(what: str, x: Spec) -> None:
    require_float(what, x)
    if x.kind != ROWS:
        raise DtypeError(f"{what} takes a sparse gradient", "rows", x)


def _infer_multiply(x: Spec, factor: Spec) -> Spec:
    _require_rows("multiply_rows", x)
    if size_of(factor.shape) not in (1, -1):
        raise ShapeError("the factor of multiply_rows is one number", "[1]", shape_text(factor.shape))
    return x


@op("multiply_rows", "X, Factor -> Out", sparse="X", infer=_infer_multiply)
def multiply_rows(xp: Any, x: Rows, factor: Any) -> Rows:
    """Every value times the one number in `factor`."""
    return x.scale(factor.reshape(()))


def _infer_clip_rows(x: Spec, min: float, max: float) -> Spec:
    _require_rows("clip_rows", x)
    return Spec(x.shape, x.dtype, ROWS if min <= 0 <= max else DENSE)


@op("clip_rows", "X -> Out", sparse="X", attrs={"min": -1.0, "max": 1.0}, infer=_infer_clip_rows)
def clip_rows(xp: Any, x: Rows, min: float, max: float) -> Any:
    """Every element, its row merged first, into [min, max]; dense if that moves the other rows' zeros."""
    if not min <= 0 <= max:
        return xp.clip(x.to_dense(xp), min, max)
    merged = x.merge(xp)
    return Rows(merged.rows, xp.clip(merged.values, min, max), merged.height)
