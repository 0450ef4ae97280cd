"""A step that somebody goes through node by node, while others may run."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter_ns

from workbench.executors.feeding.feed_plan import Fed
from workbench.executors.running.engine.step_runner import StepRunner
from workbench.executors.running.step.bound_step import BoundStep
from workbench.executors.running.step.boundary import require_boundary
from workbench.executors.running.step.state import StepState
from workbench.executors.running.transaction import Fill
from workbench.runtime.storage.scope import Scope


class StepByHand:
    """A step on the observed plan, loaded and not run; nobody may run while it is made.

    Args:
        root: the scope its values are in. state: of its engine. applied: told when it has been applied.

    Attributes:
        counters: those it will move.

    Raises:
        PreconditionNotMet: in the middle of another step of this thread, in a signal handler or a finaliser.
    """

    def __init__(
        self,
        bound: BoundStep,
        fed: Fed,
        runner: StepRunner,
        root: Scope,
        state: StepState,
        applied: Callable[[], None],
    ) -> None:
        self.bound, self._runner, self._root, self._state = bound, runner, root, state
        self._applied = applied
        outer = None if root.step is None else state.at
        try:
            state.begin(perf_counter_ns())
            self.counters = runner.load(bound.binding, fed)
        finally:
            state.end(outer)  # others may step until it is applied

    def apply(self, fills: list[Fill]) -> None:
        """Commit it, when all of it has been run.

        Raises:
            PreconditionNotMet: in the middle of another step of this thread.
        """
        require_boundary(self._root, self._state)
        outer = None if self._root.step is None else self._state.at
        try:
            self._state.begin(perf_counter_ns())
            self._runner.commit(self.bound, self.bound.binding.commit, self.counters, fills)
        finally:
            self._state.end(outer)
        self._applied()
