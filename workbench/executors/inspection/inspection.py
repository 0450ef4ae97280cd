"""Inspection: what an executor is and does, to be read: for dashboards, profiles, tests, and whoever is curious."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from workbench import events
from workbench.executors.execution_strategy import ExecutionStrategy
from workbench.executors.feeding.feed import Feed
from workbench.executors.feeding.feed_plan import Fed
from workbench.executors.inspection.observed import Observation
from workbench.executors.lowering.binding import Binding
from workbench.executors.planning.plan import Plan
from workbench.executors.running.engine.engine import Engine
from workbench.executors.running.finding.plan_cache import KeptPlan
from workbench.executors.running.step.bound_step import BoundStep
from workbench.executors.running.step.state import Phase
from workbench.executors.running.trainers import Trainers
from workbench.executors.running.watching.moment import Guard
from workbench.framework.program.program import Program
from workbench.framework.values.place import Place
from workbench.graph.ssa import Graph
from workbench.graph.strategy import BuildStrategy
from workbench.runtime.device import DeviceMemory
from workbench.runtime.storage.scope import Scope
from workbench.runtime.storage.tensor import LoDTensor


class Inspection:
    """Of one executor; nothing can be set, and nothing of it runs or changes a step.

    What it gives is what the executor works with, not a copy of it, and may be another one after the next step: read
    it between steps, or where events are told. Made by `exe.inspection`.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> y = static.nn.fc(x, 2)
        >>> executor = static.Executor()
        >>> startup = executor.run(static.default_startup_program())
        >>> out = executor.run(feed={"x": np.ones((6, 4), np.float32)}, fetch_list=[y])
        >>> inspection = executor.compiled().inspection
        >>> inspection.steps, [place.kind for place in inspection.places]
        (1, ['cpu'])
    """

    __slots__ = ("_engine",)

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    # What runs

    @property
    def name(self) -> str:
        """What events call the executor."""
        return self._engine.reporter.name

    @property
    def program(self) -> Program:
        """The snapshot that runs."""
        return self._engine.program

    @property
    def places(self) -> tuple[Place, ...]:
        """The devices."""
        return self._engine.places

    @property
    def data_parallel(self) -> bool:
        """Whether the devices train together."""
        return self._engine.spec.data_parallel

    @property
    def build(self) -> BuildStrategy:
        """How the graph is made."""
        return self._engine.spec.build

    @property
    def execution(self) -> ExecutionStrategy:
        """How steps run."""
        return self._engine.execution

    @property
    def scope(self) -> Scope:
        """Where the variables of device 0 live."""
        return self._engine.scope

    @property
    def persistables(self) -> list[str]:
        """Names of what stays from step to step."""
        return self._engine.persistables

    def tensor(self, name: str, device: int) -> LoDTensor | None:
        """A device's own value of a persistable variable; None if it has none yet."""
        return self._engine.replicas.find(name, device) if self.started else None

    def shared_variables(self) -> set[str]:
        """Names of the variables of which all devices have one copy; settles the strategies."""
        return self._engine.shared_variables()

    # Steps

    @property
    def started(self) -> bool:
        """Whether strategies are settled and the devices have their scopes, as they are from the first run on."""
        return self._engine.started

    @property
    def steps(self) -> int:
        """How many have been applied."""
        return self._engine.steps

    @property
    def trainers(self) -> Trainers | None:
        """The processes it trains with, and how they vote; None if it is alone."""
        return self._engine.trainers

    @property
    def phase(self) -> Phase:
        """Where the step is."""
        return self._engine.state.phase

    @property
    def last(self) -> Binding | None:
        """What the last step ran; None before the first and after a drop."""
        return self._engine.last

    @property
    def last_step(self) -> BoundStep | None:
        """The same with what its steps need beside it, such as the step as one call."""
        return self._engine.state.last

    @property
    def last_rows(self) -> Mapping[str, tuple[int, ...]]:
        """How many rows of every feed each device got in the last step."""
        return self._engine.cache.last_rows if self.started else {}

    @property
    def newest_feed(self) -> tuple[int, Fed] | None:
        """Number and feed of the newest step, applied or not; the arrays are those the caller gave it."""
        return self._engine.newest_feed

    @property
    def drops(self) -> Sequence[events.ScopeDrop]:
        """The newest drops of temporaries, as they were told of."""
        return tuple(self._engine.reporter.drops)

    @property
    def dropped(self) -> int:
        """How many drops there have been."""
        return self._engine.reporter.drop_count

    def feed_of(self, step: int, fed: Fed) -> events.Feed:
        """What is told of a feed."""
        return self._engine.reporter.feed_of(step, self._engine.state.begun, fed)

    @property
    def guards(self) -> tuple[Guard, ...]:
        """Who is called when a step has a NaN or an Inf in it."""
        return self._engine.guards.all

    def guard(self, guard: Guard) -> Callable[[], None]:
        """Be told of a NaN or an Inf; see `Engine.guard`.

        Returns:
            what takes the guard away again.
        """
        return self._engine.guard(guard)

    # How they run

    @property
    def arenas(self) -> Mapping[int, DeviceMemory]:
        """The memory of temporaries, by device."""
        return self._engine.workspace.arenas if self.started else {}

    @property
    def plans(self) -> list[Plan]:
        """Those that are kept, the one used longest ago first."""
        return [kept.plan for kept in self._kept if kept.plan is not None]

    @property
    def refusals(self) -> list[str]:
        """Why shapes that change are planned each for itself, instead of once for all: one reason per form of feeds.

        Empty where one plan serves them, and where there have been too few shapes yet.
        """
        return self._engine.cache.refusals if self.started else []

    @property
    def bindings(self) -> list[Binding]:
        """Those that are kept."""
        return [kept.step.binding for kept in self._kept if kept.step is not None]

    @property
    def _kept(self) -> list[KeptPlan]:
        return self._engine.workspace.plans.of(self._engine.number) if self.started else []

    def fed(self, feed: Feed) -> Fed:
        """What a feed gives each device.

        Raises:
            EnforceNotMet: as `run` would.
        """
        return self._engine.prepare(feed)

    def graph(self, fetches: Sequence[str], observed: bool = False) -> Graph:
        """The graph of a step that fetches these names, after all passes; settles the strategies.

        Args:
            observed: without fused nodes, as a stepper runs it.
        """
        self._engine.start()
        return self._engine.graph(fetches, observed=observed)

    def binding(self, fetches: Sequence[str], feed: Feed) -> Binding:
        """What a run with this feed uses, made if there is none yet.

        Raises:
            EnforceNotMet: as `run` would.
        """
        with self._engine.scope.in_use(self._engine.execution.timeout):
            return self._engine.binding(fetches, self._engine.prepare(feed))

    def observe(self, fetches: Sequence[str], feed: Feed) -> Observation:
        """A step on the observed plan, begun and not run, which is to be run under `scope.in_use()` and left there.

        Raises:
            EnforceNotMet: as `run` would.
        """
        self._engine.require_alone()
        return Observation(self._engine, fetches, self._engine.prepare(feed))

    def __repr__(self) -> str:
        return f"Inspection({self.name}: {self.program!r} on {', '.join(map(str, self.places))}, {self.steps} steps)"
