"""How one parameter is updated."""

from __future__ import annotations

from typing import Any

from workbench.framework.op.recorder import current_recorder
from workbench.framework.op.write import OpWrite
from workbench.ops.math.cast import CAST
from workbench.optimizer.states import States
from workbench.optimizer.update_rule import UpdateRule


class ParameterUpdate:
    """How a parameter is updated: the ops of its update, with all that is the same in every step.

    Attributes:
        settings: the optimizer with the options of the parameter's group.
    """

    def __init__(self, settings: UpdateRule, parameter: Any, states: States) -> None:
        self.settings, self._parameter, self._states, self._dtype = settings, parameter, states, parameter.dtype
        self._kept = kept = settings.states_of(parameter, states)
        self._held = held = states.master(parameter) if settings.has_master(parameter) else parameter
        after = {"ParamOut": held, **{f"{slot}Out": state for slot, state in kept.items()}}
        assert settings.op is not None, f"{type(settings).__name__} has no op"
        self._write = OpWrite(settings.op, {"Param": held, **kept}, after, settings.attributes(parameter))
        self._rounding: OpWrite | None = None
        if held is not parameter:
            self._rounding = OpWrite(CAST, {"X": held}, {"Out": parameter}, {"dtype": parameter.dtype.name})

    def is_of(self, parameter: Any, states: States) -> bool:
        """Whether it was made for this parameter as it is."""
        return self._parameter is parameter and self._states is states and self._dtype is parameter.dtype

    def writes(self, grad: Any, rate: Any) -> list[tuple[OpWrite, dict[str, Any]]]:
        """The ops that update the parameter, each with the inputs that change."""
        rate = self.settings.scaled_rate(rate, self._parameter, self._held, grad, self._kept)
        update = self._write, {"Grad": grad, "LearningRate": rate}
        return [update] if self._rounding is None else [update, (self._rounding, {})]

    def apply(self, grad: Any, rate: Any) -> Any:
        """Append the operators; returns that of the update."""
        recorder = current_recorder()
        operator, *_ = [recorder.record_into(*write) for write in self.writes(grad, rate)]
        return operator
