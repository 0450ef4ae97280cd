"""Weight decay as a term added to the gradient (P-42 … P-44). Also public as `workbench.regularizer`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from workbench.errors import InvalidArgument, InvalidType, did_you_mean
from workbench.framework.names import grad_name
from workbench.framework.program.variable import Variable
from workbench.framework.values.portable import portable
from workbench.framework.values.spec import ROWS
from workbench.ops.math.arithmetic import SCALE
from workbench.ops.math.reductions.accumulate import SUM
from workbench.ops.math.unary import SIGN

NEW_GRAD = "@NEWGRAD@"  # P-8


class WeightDecayRegularizer:
    """Base class: a regularizer says which term is added to a parameter's gradient.

    Args:
        coeff: weight of the penalty, at least 0.

    Raises:
        InvalidType, InvalidArgument: not a number, negative or not finite.
    """

    def __init__(self, coeff: float = 0.0) -> None:
        if isinstance(coeff, bool) or not isinstance(coeff, int | float):
            raise InvalidType(f"{type(self).__name__} takes a number as coeff, got {coeff!r}")
        if not (coeff >= 0 and math.isfinite(coeff)):
            raise InvalidArgument(f"{type(self).__name__} takes a finite coeff of at least 0, got {coeff}")
        self.coeff = float(coeff)

    def term(self, parameter: Any) -> Any:
        """Append the operators that compute the term; shape and dtype of `parameter`."""
        raise NotImplementedError

    def to_config(self) -> dict[str, Any]:
        """The regularizer as JSON types; `from_config` reads it back."""
        return {"type": type(self).__name__, "coeff": self.coeff}

    def __repr__(self) -> str:
        return f"{type(self).__name__}(coeff={self.coeff})"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.coeff == self.coeff

    def __hash__(self) -> int:
        return hash((type(self), self.coeff))


@portable
class L2Decay(WeightDecayRegularizer):
    """Penalty coeff/2 * sum(param^2): the term is coeff * param.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> loss = wb.mean(static.nn.fc(x, 2))
        >>> ops, pairs = wb.optimizer.SGD(0.1, weight_decay=wb.regularizer.L2Decay(1e-4)).minimize(loss)
    """

    def term(self, parameter: Any) -> Any:
        return SCALE(parameter, scale=self.coeff)


@portable
class L1Decay(WeightDecayRegularizer):
    """Penalty coeff * sum(|param|): the term is coeff * sign(param).

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> loss = wb.mean(static.nn.fc(x, 2))
        >>> ops, pairs = wb.optimizer.SGD(0.1, weight_decay=wb.regularizer.L1Decay(1e-4)).minimize(loss)
    """

    def term(self, parameter: Any) -> Any:
        return SCALE(SIGN(parameter), scale=self.coeff)


_KINDS: dict[str, type[WeightDecayRegularizer]] = {"L1Decay": L1Decay, "L2Decay": L2Decay}


def from_config(config: Mapping[str, Any]) -> WeightDecayRegularizer:
    """The regularizer `to_config` describes.

    Raises:
        InvalidArgument: an unknown type, or other keys than `type` and `coeff`.
    """
    if set(config) != {"type", "coeff"}:
        raise InvalidArgument(f"the description of a regularizer has the keys 'type' and 'coeff', got {sorted(config)}")
    kind = config["type"]
    if kind not in _KINDS:
        raise InvalidArgument(f"there is no regularizer {kind!r}.{did_you_mean(str(kind), _KINDS)}")
    return _KINDS[kind](config["coeff"])


def as_regularizer(weight_decay: Any, owner: str) -> WeightDecayRegularizer | None:
    """An optimizer's `weight_decay` argument: a number stands for L2Decay.

    Raises:
        InvalidType: neither a number, a regularizer nor None.
    """
    if weight_decay is None or isinstance(weight_decay, WeightDecayRegularizer):
        return weight_decay
    if isinstance(weight_decay, bool) or not isinstance(weight_decay, int | float):
        raise InvalidType(f"{owner} takes a number or a regularizer as weight_decay, got {weight_decay!r}")
    return L2Decay(weight_decay)


def add_decay(parameter: Any, grad: Any, default: WeightDecayRegularizer | None) -> Any:
    """Append the decay of one parameter to its gradient, or add it at once.

    Args:
        default: used unless the parameter has a regularizer of its own (P-44).

    Returns:
        in a program `grad` itself, written in place (P-43); for a sparse gradient a new dense variable
        `P@GRAD@NEWGRAD@` (P-8). In dynamic mode a new tensor.
    """
    own = getattr(parameter, "regularizer", None)
    regularizer = own if own is not None else default
    if regularizer is None:
        return grad
    term = regularizer.term(parameter)
    if not isinstance(grad, Variable):
        return SUM([grad, term])
    block = grad.block
    out = grad
    if grad.kind == ROWS:
        out = block.create_var(_free(block, grad_name(parameter.name) + NEW_GRAD), parameter.shape, parameter.dtype)
    block.append_op(SUM.type, inputs={"X": [grad, term]}, outputs={"Out": out})
    return out


def _free(block: Any, name: str) -> str:
    while block.has_var(name):
        name = "grad/" + name
    return name
