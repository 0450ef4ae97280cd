"""RecomputeOptimizer: an optimizer whose backward pass recomputes what lies between checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.errors import InvalidForm, InvalidType, PreconditionNotMet
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.undo import unchanged_on_error
from workbench.framework.program.variable import Variable
from workbench.optimizer.checks import Pairs
from workbench.optimizer.optimizer import Optimizer


class RecomputeOptimizer:
    """Trains a program with less memory: values between checkpoints are not kept, but computed twice.

    Parameters come to the same bits as without it.

    Args:
        optimizer: what updates the parameters.

    Raises:
        InvalidType: no optimizer.

    Example:
        >>> import workbench.fluid as fluid
        >>> h = fluid.layers.fc(fluid.data("x", [None, 4]), 8, act="tanh")
        >>> loss = fluid.layers.mean(fluid.layers.fc(h, 2))
        >>> optimizer = fluid.optimizer.RecomputeOptimizer(fluid.optimizer.SGD(0.1))
        >>> optimizer._set_checkpoints([h])
        >>> ops, pairs = optimizer.minimize(loss)
        >>> any("@RECOMPUTED" in v.name for v in fluid.default_main_program().list_vars())
        True
    """

    def __init__(self, optimizer: Any) -> None:
        if not (isinstance(optimizer, Optimizer) or hasattr(optimizer, "apply_optimize")):
            raise InvalidType(f"RecomputeOptimizer takes an optimizer, got {optimizer!r}")
        self._optimizer = optimizer
        self._checkpoints: list[Any] = []

    def _set_checkpoints(self, checkpoints: Sequence[Variable | str]) -> None:
        """Keep these values for the backward pass, and none between them.

        Raises:
            InvalidForm: no list of Variables or names.
        """
        given = list(checkpoints) if isinstance(checkpoints, list | tuple) else None
        if given is None or not all(isinstance(one, Variable | str) for one in given):
            raise InvalidForm(f"checkpoints are a list of Variables or names, got {checkpoints!r}")
        self._checkpoints = given

    def backward(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Sequence[Any] | None = None,
        no_grad_set: set[Any] | None = None,
        callbacks: Sequence[Any] | None = None,
    ) -> Pairs:
        """Append the gradient operators alone.

        Raises:
            PreconditionNotMet: no checkpoints are set. Others: as `append_backward`.
        """
        if not self._checkpoints:
            raise PreconditionNotMet("set the values to keep first: _set_checkpoints([…])")
        pairs: Pairs = self._optimizer.backward(
            loss, startup_program, parameter_list, no_grad_set, callbacks, checkpoints=self._checkpoints
        )
        return pairs

    def apply_gradients(self, params_grads: Pairs) -> list[Operator]:
        """Append clip, decay and update operators."""
        ops: list[Operator] = self._optimizer.apply_gradients(params_grads)
        return ops

    def apply_optimize(self, loss: Variable, startup_program: Program | None, params_grads: Pairs) -> list[Operator]:
        """The same, with states filled by `startup_program`."""
        ops: list[Operator] = self._optimizer.apply_optimize(loss, startup_program, params_grads)
        return ops

    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Sequence[Any] | None = None,
        no_grad_set: set[Any] | None = None,
    ) -> tuple[list[Operator], Pairs]:
        """Append gradient and update operators; see `Optimizer.minimize`."""
        with unchanged_on_error(loss.block.program):
            pairs = self.backward(loss, startup_program, parameter_list, no_grad_set)
            return self.apply_optimize(loss, startup_program, pairs), pairs
