"""What an optimizer says of its updates: how a parameter and its gradient become the op that updates it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

from workbench.errors import InvalidType
from workbench.framework.op.record import Op
from workbench.framework.program.roles import LR_SCHED, OPTIMIZE
from workbench.framework.values.dtype import float32
from workbench.optimizer.checks import Pairs, checked_clip, checked_number
from workbench.optimizer.clip import ClipGradBase
from workbench.optimizer.groups import GroupOption, Groups
from workbench.optimizer.regularizer import add_decay, as_regularizer
from workbench.optimizer.role import role_of
from workbench.optimizer.states import Accumulator, States, is_half


class UpdateRule:
    """The rule of an optimizer, or of a group of its parameters. A subclass names its op and options.

    Args:
        weight_decay, grad_clip, name: see `Optimizer`.

    Raises:
        InvalidType: an argument of the wrong kind.
    """

    op: ClassVar[Op | None] = None
    """What updates a parameter; declared by `update_op`."""
    options: ClassVar[dict[str, GroupOption]] = {
        "learning_rate": GroupOption("_rate_factor", checked_number),
        "weight_decay": GroupOption("_regularizer", lambda owner, what, value: as_regularizer(value, owner)),
        "grad_clip": GroupOption("_grad_clip", lambda owner, what, value: checked_clip(owner, value)),
    }
    """What a group of parameters may have of its own, and what of this the op gets."""

    def __init__(self, weight_decay: Any, grad_clip: ClipGradBase | None, name: str | None) -> None:
        self._regularizer = as_regularizer(weight_decay, type(self).__name__)
        self._grad_clip = checked_clip(type(self).__name__, grad_clip)
        if not (name is None or isinstance(name, str)):
            raise InvalidType(f"{type(self).__name__} takes a string or None as name, got {name!r}")
        self._name = name
        self._rate_factor: float | None = None
        self._multi_precision = False

    # What a subclass says

    def accumulators(self) -> tuple[Accumulator, ...]:
        """The states every parameter has: those of the op, named after their slots, from 0; powers begin at beta."""
        if self.op is None or self.op.update is None:
            return ()
        update, values = self.op.update, self._op_options()
        factors = dict(zip(update.powers, update.betas, strict=True))
        return tuple(
            Accumulator(f"{beta}_pow_acc", slot.name, values[beta], scalar=True)
            if (beta := factors.get(slot.name))
            else Accumulator(_snake_case(slot.name), slot.name)
            for slot in self.op.inputs
            if slot.name in update.state
        )

    def attributes(self, parameter: Any) -> dict[str, Any]:
        """Attributes of a parameter's update op."""
        return self._op_options()

    def scaled_rate(self, rate: Any, parameter: Any, held: Any, grad: Any, states: dict[str, Any]) -> Any:
        """The rate of one update: `rate`, or what a rule that looks at norms makes of it.

        Args:
            held: what is updated, the parameter or its float32 copy.
        """
        return rate

    # What follows from it

    def _set_options(self, **values: Any) -> None:
        """Check and keep what the constructor was given for `options`."""
        for argument, value in values.items():
            option = self.options[argument]
            setattr(self, option.field, option.check(type(self).__name__, argument, value))

    def _op_options(self) -> dict[str, Any]:
        """The options that are attributes of the op."""
        return {option.attribute: getattr(self, option.field) for option in self.options.values() if option.attribute}

    def has_master(self, parameter: Any) -> bool:
        """Whether a float32 copy of the parameter is what is updated."""
        return self._multi_precision and is_half(parameter.dtype)

    def states_of(self, parameter: Any, states: States) -> dict[str, Any]:
        """The states of a parameter by the slots of the update op."""
        prefix = f"{self._name}_" if self._name else ""
        dtype = parameter.dtype
        if self.has_master(parameter):
            states.master(parameter)
            dtype = float32
        return {kind.slot: states.of(parameter, kind, prefix, dtype) for kind in self.accumulators()}

    def rate_of(self, parameter: Any, states: States) -> Any:
        """The rate, through a `scale` if the parameter has a factor of its own."""
        rate = states.rate(parameter.dtype)
        factor = self._rate_factor
        if factor is None:
            factor = getattr(parameter, "optimize_attr", {}).get("learning_rate", 1.0)
        if factor == 1.0:
            return rate
        with role_of(parameter, OPTIMIZE | LR_SCHED):
            return rate * factor

    def clip(self) -> ClipGradBase | None:
        """What limits the gradients."""
        return self._grad_clip

    def with_decay(self, parameter: Any, raw: Any, grad: Any) -> Any:
        """A gradient and what the regularizer adds to it."""
        with role_of(parameter, OPTIMIZE, [parameter, raw]):
            return add_decay(parameter, grad, self._regularizer)


def _snake_case(name: str) -> str:
    return re.sub(r"\B(?=[A-Z])", "_", name).lower()


def clipped_and_decayed(
    pairs: Pairs, rule_of: Callable[[Any], UpdateRule], groups: Groups
) -> list[tuple[Any, Any, Any]]:
    """(parameter, raw gradient, clipped and decayed gradient); a clip limits each group of parameters by itself."""
    clips: dict[int, tuple[ClipGradBase, Pairs]] = {}
    for parameter, grad in pairs:
        clip = rule_of(parameter).clip()
        if clip is not None:
            clips.setdefault(groups.number_of(parameter), (clip, []))[1].append((parameter, grad))
    clipped = {p.name: g for clip, members in clips.values() for p, g in clip(members)}
    return [(p, raw, rule_of(p).with_decay(p, raw, clipped.get(p.name, raw))) for p, raw in pairs]
