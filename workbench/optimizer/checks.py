"""What optimizers check in their arguments."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from workbench.errors import InvalidArgument, InvalidType, described
from workbench.framework.op.infix import Infix
from workbench.framework.program.variable import Parameter, Variable
from workbench.optimizer.clip import ClipGradBase
from workbench.optimizer.lr import LRScheduler

Pairs = list[tuple[Any, Any]]
"""(parameter, gradient): Parameters and Variables of a program, or tensors of dynamic mode."""


def checked_number(owner: str, what: str, value: Any) -> float:
    """A finite number of at least 0, or InvalidType / InvalidArgument naming optimizer and argument.

    A tensor of dynamic mode with one element is a number, too.
    """
    if isinstance(value, Infix) and not isinstance(value, Variable):
        value = float(value)  # type: ignore[arg-type]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidType(f"{owner} takes a number as {what}, got {value!r}")
    if not (value >= 0 and math.isfinite(value)):
        raise InvalidArgument(f"{owner} takes a finite {what} of at least 0, got {value}")
    return float(value)


def checked_beta(owner: str, what: str, value: Any) -> float:
    """A decay rate in [0, 1)."""
    beta = checked_number(owner, what, value)
    if beta >= 1:
        raise InvalidArgument(f"{owner} takes a {what} in [0, 1), got {value}")
    return beta


def checked_flag(owner: str, what: str, value: Any) -> bool:
    """Whether something is asked for."""
    return bool(value)


def checked_clip(owner: str, grad_clip: Any) -> ClipGradBase | None:
    """A `ClipGradBy…` object or None."""
    if not (grad_clip is None or isinstance(grad_clip, ClipGradBase)):
        raise InvalidType(f"{owner} takes a ClipGradBy… object as grad_clip, got {grad_clip!r}")
    return grad_clip


def checked_rate(owner: str, rate: Any) -> Any:
    """A number of at least 0, a schedule, or a variable that the program computes the rate in, shape [1]."""
    if isinstance(rate, LRScheduler):
        return rate
    if isinstance(rate, Variable):
        if rate.shape != (1,) or not rate.dtype.is_float:
            raise InvalidArgument(f"{owner} takes a floating variable of shape [1] as learning rate, got {rate!r}")
        return rate
    if isinstance(rate, bool) or not isinstance(rate, int | float):
        listed = isinstance(rate, Iterable) and not isinstance(rate, str | Infix)
        hint = f"; parameters come after it, as in {owner}(0.1, parameters=…)" if listed else ""
        got = described(rate) if listed else repr(rate)
        raise InvalidType(f"{owner} takes a number or an optimizer.lr schedule as learning rate, got {got}{hint}")
    return checked_number(owner, "learning rate", rate)


def checked_parameters(owner: str, parameters: Any) -> list[Any] | None:
    """Parameters of a program, their names, or tensors of dynamic mode, as a list; None stands for all."""
    if parameters is None:
        return None
    if isinstance(parameters, str | Infix | dict) or not isinstance(parameters, Iterable):
        raise InvalidType(f"{owner} takes a list of Parameters or names as parameters, got {parameters!r}")
    chosen = list(parameters)
    for p in chosen:
        if not isinstance(p, str | Infix) or (isinstance(p, Variable) and not isinstance(p, Parameter)):
            raise InvalidType(f"{owner} takes Parameters or names as parameters, got {p!r} in the list")
    return chosen


def are_tensors(params_grads: Sequence[Any]) -> bool:
    """Whether they are (parameter, gradient) pairs of dynamic mode."""
    return bool(params_grads) and all(
        isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], Infix)
        and not isinstance(pair[0], Variable)
        for pair in params_grads
    )  # fmt: skip


def checked_pairs(owner: str, params_grads: Any) -> Pairs:
    """The (Parameter, gradient) pairs of one program that there is something to do for."""
    pairs: Pairs = []
    for pair in params_grads:
        if not (isinstance(pair, tuple | list) and len(pair) == 2 and isinstance(pair[0], Parameter)):
            raise InvalidType(f"{owner} takes (Parameter, gradient) pairs, got {pair!r}")
        parameter, grad = pair
        if not (grad is None or isinstance(grad, Variable)):
            raise InvalidType(f"{owner}: the gradient of {parameter.name!r} is a Variable or None, got {grad!r}")
        if grad is not None and parameter.trainable:
            pairs.append((parameter, grad))
    if not pairs:
        raise InvalidArgument(f"{owner}: no trainable parameter has a gradient, so there is nothing to update")
    seen: set[str] = set()
    for parameter, _ in pairs:
        if parameter.name in seen:
            raise InvalidArgument(f"{owner}: parameter {parameter.name!r} comes twice")
        if parameter.block.program is not pairs[0][0].block.program:
            raise InvalidArgument(f"{owner}: {pairs[0][0].name!r} and {parameter.name!r} belong to different programs")
        seen.add(parameter.name)
    return pairs
