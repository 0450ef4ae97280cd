"""Values kept within limits."""

from __future__ import annotations

from typing import Any

from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.op.elementwise import elementwise
from workbench.framework.op.infix import Infix, is_number, tensor_method
from workbench.framework.values.spec import Spec
from workbench.ops.math.arithmetic import maximum, minimum
from workbench.ops.math.compare import logical_and
from workbench.ops.pointwise import Tensor, number_for, require_whole

OFFERED = {"workbench": "clip"}


def _infer_clip(x: Spec, min: float | None, max: float | None) -> Spec:
    require_whole("a bound", x, min, max)
    return x


def _clip_grad(g: Any, out: Any, x: Any, min: float | None, max: float | None) -> Any:
    if min is None and max is None:
        return g
    if min is None:
        return g * (x < max)
    if max is None:
        return g * (x > min)
    return g * logical_and(x > min, x < max)


@elementwise("clip", "X -> Out", attrs={"min": None, "max": None}, infer=_infer_clip, grad=_clip_grad)
def CLIP(xp: Any, x: Any, min: float | None, max: float | None) -> Any:
    """x kept within [min, max]; None leaves a side open."""
    if min is not None:
        x = xp.maximum(x, number_for(x, min))
    if max is not None:
        x = xp.minimum(x, number_for(x, max))
    return x if min is not None or max is not None else xp.multiply(x, 1)


@tensor_method("clip")
def clip(x: Tensor, min: Any = None, max: Any = None, name: str | None = None) -> Tensor:
    """x kept within [min, max].

    Args:
        x: tensor; integers take whole bounds.
        min, max: numbers, or tensors whose shapes broadcast to that of `x`; None leaves that side open.

    Returns:
        a tensor like `x`. The gradient is 0 at and beyond a bound given as a number, as in Paddle.

    Raises:
        InvalidArgument: min > max.
        InvalidType: a bound is neither number nor tensor, or fractional for integers.

    Example:
        >>> print(wb.clip(wb.to_tensor([-2.0, 0.5, 3.0]), -1.0, 1.0).numpy())
        [-1.   0.5  1. ]
    """
    if isinstance(min, Infix) or isinstance(max, Infix):
        x = x if min is None else maximum(x, min)
        return x if max is None else minimum(x, max, name)
    for what, bound in (("min", min), ("max", max)):
        if bound is not None and not is_number(bound):
            raise InvalidType(f"{what} of clip is a number or a tensor, got {bound!r}")
    low, high = (None if b is None else float(b) for b in (min, max))
    if low is not None and high is not None and low > high:
        raise InvalidArgument(f"clip: min {low} is greater than max {high}")
    return CLIP(x, min=low, max=high, name=name)
