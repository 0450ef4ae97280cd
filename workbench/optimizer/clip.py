"""Gradient clipping (P-42, P-43, P-45). Also public as `workbench.nn.ClipGradBy…`.

A clip appends operators with role Optimize between backward and decay. The results are new variables, so
`P@GRAD` keeps the raw gradient. The operators of one parameter carry `op_role_var = [P, P@GRAD]`, those that
many parameters share carry none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.program.roles import OPTIMIZE
from workbench.framework.values.dtype import promote
from workbench.ops.math.arithmetic import DIV, MAX, MUL
from workbench.ops.math.clip import CLIP
from workbench.ops.math.reductions.accumulate import SUM
from workbench.ops.math.unary import SQRT
from workbench.ops.tensor.creation import FILL_CONSTANT
from workbench.ops.update.gradient_clip import clip_by_norm, clip_rows, multiply_rows, squared_l2_norm
from workbench.optimizer.role import role_of

Pairs = list[tuple[Any, Any]]


def _positive(owner: str, what: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidType(f"{owner} takes a number as {what}, got {value!r}")
    if not (value > 0 and math.isfinite(value)):
        raise InvalidArgument(f"{owner} takes a finite {what} above 0, got {value}")
    return float(value)


class ClipGradBase:
    """Base class. Parameters with `need_clip=False` pass untouched and do not count in norms."""

    def __call__(self, params_grads: Sequence[tuple[Any, Any]]) -> Pairs:
        """Append the clipping operators.

        Args:
            params_grads: (parameter, gradient) pairs; pairs without a gradient are left out of the result.

        Returns:
            the pairs with clipped gradients, in the same order.
        """
        pairs = [(p, g) for p, g in params_grads if g is not None]
        chosen = [(p, g) for p, g in pairs if getattr(p, "need_clip", True)]
        if not chosen:
            return pairs
        clipped = {p.name: g for (p, _), g in zip(chosen, self.clip(chosen), strict=True)}
        return [(p, clipped.get(p.name, g)) for p, g in pairs]

    def clip(self, pairs: Pairs) -> list[Any]:
        """Append operators; returns the clipped gradient of every pair."""
        raise NotImplementedError


class ClipGradByValue(ClipGradBase):
    """Every element into `[min, max]`.

    Args:
        max: upper bound.
        min: lower bound, `-max` if None (then `max` must be above 0).

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> loss = wb.mean(static.nn.fc(x, 2))
        >>> ops, pairs = wb.optimizer.SGD(0.1, grad_clip=wb.nn.ClipGradByValue(0.5)).minimize(loss)
    """

    def __init__(self, max: float, min: float | None = None) -> None:
        if min is None:
            min = -_positive("ClipGradByValue", "max (without min)", max)
        for what, value in (("max", max), ("min", min)):
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise InvalidType(f"ClipGradByValue takes a number as {what}, got {value!r}")
        if not min <= max:
            raise InvalidArgument(f"ClipGradByValue takes min <= max, got min={min} and max={max}")
        self.max, self.min = float(max), float(min)

    def clip(self, pairs: Pairs) -> list[Any]:
        clipped = []
        for parameter, grad in pairs:
            with role_of(parameter, OPTIMIZE, [parameter, grad]):
                clip = clip_rows if grad.is_selected_rows() else CLIP
                clipped.append(clip(grad, min=self.min, max=self.max))
        return clipped

    def __repr__(self) -> str:
        return f"ClipGradByValue(max={self.max}, min={self.min})"


class ClipGradByNorm(ClipGradBase):
    """Every gradient by itself: g * clip_norm / max(||g||, clip_norm).

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> loss = wb.mean(static.nn.fc(x, 2))
        >>> ops, pairs = wb.optimizer.SGD(0.1, grad_clip=wb.nn.ClipGradByNorm(1.0)).minimize(loss)
    """

    def __init__(self, clip_norm: float) -> None:
        self.clip_norm = _positive("ClipGradByNorm", "clip_norm", clip_norm)

    def clip(self, pairs: Pairs) -> list[Any]:
        clipped = []
        for parameter, grad in pairs:
            with role_of(parameter, OPTIMIZE, [parameter, grad]):
                clipped.append(clip_by_norm(grad, max_norm=self.clip_norm))
        return clipped

    def __repr__(self) -> str:
        return f"ClipGradByNorm(clip_norm={self.clip_norm})"


class ClipGradByGlobalNorm(ClipGradBase):
    """All gradients of a group by one factor: clip_norm / max(clip_norm, sqrt(sum ||g||^2)).

    A group is one of the dicts the optimizer was given as `parameters`, as in Paddle 2.6; without such, all parameters.

    Args:
        clip_norm: bound of the norm over all gradients of a group together.
        group_name: accepted for Paddle's sake; the groups are those of the optimizer.

    Source: Pascanu, Mikolov and Bengio, "On the difficulty of training recurrent neural networks", 2013.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> loss = wb.mean(static.nn.fc(x, 2))
        >>> ops, pairs = wb.optimizer.SGD(0.1, grad_clip=wb.nn.ClipGradByGlobalNorm(1.0)).minimize(loss)
    """

    def __init__(self, clip_norm: float, group_name: str = "default_group") -> None:
        self.clip_norm = _positive("ClipGradByGlobalNorm", "clip_norm", clip_norm)
        self.group_name = group_name

    def clip(self, pairs: Pairs) -> list[Any]:
        squares = []
        for parameter, grad in pairs:
            with role_of(parameter, OPTIMIZE, [parameter, grad]):
                squares.append(squared_l2_norm(grad))
        with role_of(pairs[0][0], OPTIMIZE):
            factor = self._factor(squares)
            factors = {grad.dtype: factor.astype(grad.dtype) for _, grad in pairs}
        clipped = []
        for parameter, grad in pairs:
            with role_of(parameter, OPTIMIZE, [parameter, grad]):
                multiply = multiply_rows if grad.is_selected_rows() else MUL
                clipped.append(multiply(grad, factors[grad.dtype]))
        return clipped

    def _factor(self, squares: list[Any]) -> Any:
        """clip_norm / max(clip_norm, global norm), shape [1]."""
        dtype = squares[0].dtype
        for square in squares:
            dtype = promote(dtype, square.dtype)
        norm = SQRT(SUM([s.astype(dtype) for s in squares]))
        bound = FILL_CONSTANT(shape=(1,), value=self.clip_norm, dtype=dtype.name)
        return DIV(bound, MAX(bound, norm))

    def __repr__(self) -> str:
        return f"ClipGradByGlobalNorm(clip_norm={self.clip_norm})"
