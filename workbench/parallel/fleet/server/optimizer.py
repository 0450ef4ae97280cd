"""ServerFleetOptimizer: from a program for one trainer to those of trainers and servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from workbench.errors import InvalidType, Unimplemented
from workbench.framework.program.guard import default_startup_program
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.undo import restored_on_error
from workbench.framework.program.variable import Variable
from workbench.optimizer.checks import Pairs
from workbench.parallel.fleet.base import DistributedOptimizer
from workbench.parallel.fleet.server.strategies import ServerFleetStrategy, strategy_of
from workbench.precision.program import MixedPrecisionOptimizer


class ServerTrainer(Protocol):
    """What an optimizer asks of its fleet."""

    def _transpile(self, strategy: ServerFleetStrategy, main: Program, startup: Program) -> None:
        """Make this process's programs of a program for one."""


class ServerFleetOptimizer(DistributedOptimizer):
    """An optimizer whose `minimize` makes of a program what this process of a fleet with servers runs.

    Args:
        optimizer: what updates the parameters, on the servers. strategy: how trainers and servers work together.
        fleet: that this process is in.

    Raises:
        InvalidType: no optimizer, another kind of strategy. Unimplemented: one in mixed precision.
    """

    def __init__(self, optimizer: Any, strategy: Any, fleet: ServerTrainer) -> None:
        super().__init__(optimizer, strategy_of(strategy))
        if isinstance(optimizer, MixedPrecisionOptimizer):
            raise Unimplemented("servers do not take mixed precision: give the optimizer that decorate was given")
        self._fleet = fleet

    def minimize(
        self,
        loss: Any,
        startup_program: Program | None = None,
        parameter_list: Sequence[Any] | None = None,
        no_grad_set: set[Any] | None = None,
    ) -> tuple[list[Operator], Pairs]:
        """Append gradient and update operators; `fleet.main_program` is then what this process runs.

        Raises:
            InvalidType: a list of losses, or no loss.
        """
        if not isinstance(loss, Variable):
            raise InvalidType(f"minimize takes one loss, a Variable, got {loss!r}")
        startup = default_startup_program() if startup_program is None else startup_program
        main = loss.block.program
        with self._updating._all_or_nothing(main, startup), restored_on_error(main, startup):
            result: tuple[list[Operator], Pairs] = self._optimizer.minimize(loss, startup, parameter_list, no_grad_set)
            self._fleet._transpile(self._strategy, main, startup)
        return result
