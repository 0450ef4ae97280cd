"""What an engine runs and has run, to be read: executors and their inspection ask here."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.errors import InvalidArgument, PreconditionNotMet
from workbench.executors.execution_strategy import ExecutionStrategy
from workbench.executors.feeding.feed_plan import Fed, FeedPlan
from workbench.executors.fetching.local_view import LocalScope
from workbench.executors.lowering.binding import Binding
from workbench.executors.replicas.replicas import Replicas
from workbench.executors.running.finding.compiler import Compiler
from workbench.executors.running.finding.step_cache import StepCache, one_copy_of
from workbench.executors.running.spec import EngineSpec
from workbench.executors.running.step.state import StepState
from workbench.framework.program.program import Program
from workbench.framework.values.place import Place
from workbench.graph.ssa import Graph


class ReadableEngine:
    """An engine as others see it; nothing here runs a step.

    Attributes: see `Engine`.
    """

    spec: EngineSpec
    whole: ReadableEngine
    state: StepState
    started: bool
    replicas: Replicas
    cache: StepCache
    _compiler: Compiler

    # What it is

    @property
    def program(self) -> Program:
        """The snapshot that runs."""
        return self.spec.program

    @property
    def places(self) -> tuple[Place, ...]:
        """The devices."""
        return self.spec.places

    @property
    def execution(self) -> ExecutionStrategy:
        """How steps run."""
        return self.spec.execution

    @property
    def persistables(self) -> list[str]:
        """Names of what stays from step to step."""
        return [variable.name for variable in self.spec.program.persistables()]

    def local_scope(self, device: int) -> LocalScope:
        """What a device sees."""
        if not 0 <= device < len(self.spec.places):
            raise InvalidArgument(
                f"there is no device {device}; devices are numbered from 0 to {len(self.spec.places) - 1}"
            )
        if not self.started:
            raise PreconditionNotMet("the devices get their scopes at the first run")
        return LocalScope(self.replicas.scopes[device], device, self.spec.places[device], self.last)

    @property
    def last(self) -> Binding | None:
        """What the last step ran; None before the first and after a drop."""
        return None if self.state.last is None else self.state.last.binding

    @property
    def steps(self) -> int:
        """How many steps have been applied, of the whole and its pruned programs."""
        return self.state.steps

    @property
    def last_plan(self) -> FeedPlan | None:
        """What was done with the feed of the last step; a `Fed` of it needs no look at feeds like that."""
        return self.cache.last_plan if self.started else None

    # What a step runs

    def graph(self, fetches: Sequence[str], devices: int | None = None, observed: bool = False) -> Graph:
        """The graph of a step that fetches these names, after all passes; see `Compiler.graph`."""
        return self._compiler.graph(fetches, devices, observed)

    def binding(self, fetches: Sequence[str], fed: Fed) -> Binding:
        """What a step of these fetches and feeds of these shapes runs."""
        return self.cache.step(fetches, fed).binding

    def _one_copy(self, graph: Graph) -> set[str]:
        """What all devices share, of a graph of this engine; a pruned program shares what the whole does."""
        return one_copy_of(graph if self.whole is self else self.whole.graph(()))
