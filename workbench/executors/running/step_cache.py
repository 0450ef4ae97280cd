"""What is kept from step to step: plans, what binds them to memory, and that memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter_ns
from typing import Any, NamedTuple

from workbench.errors import EnforceNotMet, InvalidArgument, Unavailable
from workbench.executors.failures import no_memory
from workbench.executors.feeding.feed_plan import Fed, FeedPlan
from workbench.executors.lowering.binding import Binding, Ground, bind, ground_of
from workbench.executors.lowering.open_binding import OpenBinding
from workbench.executors.lowering.operands import Scratch
from workbench.executors.planning.open_plan import OpenDims
from workbench.executors.planning.plan import Plan
from workbench.executors.planning.sizes.unknowns import Unsettled
from workbench.executors.reference.calls import Call
from workbench.executors.replicas.replicas import Replicas
from workbench.executors.running.bound_step import BoundStep
from workbench.executors.running.compiler import Compiler, shapes_of, specs_of
from workbench.executors.running.open_bindings import Fit, OpenBindings
from workbench.executors.running.spec import EngineSpec
from workbench.executors.running.state import StepState
from workbench.executors.running.trainers import Trainers
from workbench.executors.workers.pool import WorkerPool
from workbench.graph.ssa import Graph
from workbench.graph.strategy import BuildStrategy, Settings
from workbench.runtime.collector import collector_paused
from workbench.runtime.comm.local import LocalCommunicator
from workbench.runtime.device import Device, DeviceMemory

_FEEDS = 8192  # pairs of fetches and feed plans whose step is found at once


class _Found(NamedTuple):
    """The step for feeds of one signature, and the key of its plan. It keeps the feed plan: no other has its id."""

    plan: FeedPlan
    names: tuple[str, ...]
    key: Any
    step: BoundStep


class StepCache:
    """Of one engine: a plan, and what it is bound to, for every combination of fetches and shapes.

    Args:
        settings: of the graph. training: the devices depend on each other.
        one_copy: what all devices share in Reduce mode, of a graph.
        trainers: who trains with this process, None if nobody does.

    Attributes:
        arenas: the memory of temporaries, by device; all plans use the same. bound: what is bound to it.
    """

    def __init__(
        self,
        spec: EngineSpec,
        settings: Settings,
        compiler: Compiler,
        replicas: Replicas,
        devices: Sequence[Device],
        state: StepState,
        training: bool,
        one_copy: Callable[[Graph], set[str]],
        trainers: Trainers | None,
    ) -> None:
        self._spec, self._settings, self._compiler, self._replicas = spec, settings, compiler, replicas
        self._devices, self._state, self._training, self._one_copy = devices, state, training, one_copy
        self._program = spec.program
        self._persistables = [variable.name for variable in spec.program.persistables()]
        self._comm = LocalCommunicator(len(spec.places)) if trainers is None else trainers.comm
        self._trainers = trainers
        self._rows_of_all = 0  # of the step under way, where a device's weight depends on them
        self._blocks: dict[int, list[Call]] = {}
        self.arenas: dict[int, DeviceMemory] = {}
        self.bound: dict[Any, BoundStep] = {}
        self._scratch: dict[int, Scratch] = {}  # one step runs at a time: all bindings use the same
        self._by_feed: dict[tuple[tuple[str, ...], int], _Found] = {}
        self._newest: _Found | None = None
        self._last: FeedPlan | None = None
        self._open = OpenBindings()

    @property
    def last_plan(self) -> FeedPlan | None:
        """What was done with the feed of the last step."""
        return self._last

    @property
    def last_rows(self) -> Mapping[str, tuple[int, ...]]:
        """How many rows of every feed each device got in the last step."""
        return {} if self._last is None else self._last.rows

    def find(self, fetches: Sequence[str], fed: Fed, pool: WorkerPool) -> BoundStep:
        """What a step runs; without looking at the feed where one of its signature has been seen."""
        if self._trainers is not None and self._is_weighted:
            self._count_rows(self._trainers, fed)
        names, newest = tuple(fetches), self._newest
        if newest is None or newest.plan is not fed.plan or newest.names != names:
            self._last = fed.plan
            newest = self._newest = self._seen(names, fed, pool)
        binding = newest.step.binding
        # `set_lr` makes a schedule of what was a variable
        if binding.schedules != len(self._program.lr_schedulers) or not binding.storage.is_current():
            return self._find(names, fed, pool).step
        return newest.step

    def _seen(self, names: tuple[str, ...], fed: Fed, pool: WorkerPool) -> _Found:
        """What was found for an earlier feed of this signature."""
        entry = self._by_feed.get((names, id(fed.plan)))
        if entry is None or entry.plan is not fed.plan:
            return self._find(names, fed, pool)
        self._compiler.use(entry.key)
        return entry

    def _find(self, names: tuple[str, ...], fed: Fed, pool: WorkerPool) -> _Found:
        """The step, which is found at once the next time."""
        step = self.step(names, fed, pool)
        if len(self._by_feed) > _FEEDS:
            self._by_feed.clear()
        entry = _Found(fed.plan, names, self._key(names, fed, False), step)
        self._by_feed[names, id(fed.plan)] = self._newest = entry
        return entry

    def _key(self, names: Sequence[str], fed: Fed, observed: bool) -> Any:
        """What a plan is kept under."""
        return tuple(names), shapes_of(fed), observed, len(self._program.lr_schedulers), self._rows_of_all

    def step(self, fetches: Sequence[str], fed: Fed, pool: WorkerPool, observed: bool = False) -> BoundStep:
        """What a step of these fetches runs for this feed's shapes, bound or bound anew where needed.

        Args:
            observed: one of its own, without fused nodes, in which every value keeps its memory.
        """
        key = self._key(fetches, fed, observed)
        bound = self.bound.get(key)
        if bound is not None and bound.binding.storage.is_current():
            self._compiler.use(key)
            return bound
        with collector_paused():
            return self._bind(key, fetches, fed, pool, observed)

    def _bind(self, key: Any, fetches: Sequence[str], fed: Fed, pool: WorkerPool, observed: bool) -> BoundStep:
        is_new = not observed and key not in self._compiler.plans
        binding = self._filled_in(key, fetches, fed, pool) if is_new else None
        if binding is None:
            binding = self._bound_anew(key, fetches, fed, pool, observed)
        self._forget(self.bound.keys() - self._compiler.plans.keys())
        step = BoundStep(binding, self._training, self._spec.loss_name)
        if not observed:
            self.bound[key] = step
        return step

    def _bound_anew(self, key: Any, fetches: Sequence[str], fed: Fed, pool: WorkerPool, observed: bool) -> Binding:
        given = self._given_persistables(fed)
        plan = self._compiler.plan(key, fetches, fed, observed, given, self._state.steps)
        self._prepare(plan.graph)
        arenas = self._own_room(plan) if observed else self._room_for(plan)
        try:
            return bind(plan, self._ground(plan, fed, pool), arenas, {} if observed else self._scratch)
        except EnforceNotMet:
            if not self._state.steps:
                self._replicas.renew()  # the first run is yet to come: it copies what the scope holds then
            raise

    def _prepare(self, graph: Graph) -> None:
        """See to it that all devices have their variables."""
        if not self._replicas.is_whole():
            self._replicas.renew()
        self._replicas.distribute(self._persistables, self._one_copy(graph))

    def _ground(self, plan: Plan, fed: Fed, pool: WorkerPool) -> Ground:
        given = self._given_persistables(fed)
        return ground_of(plan, self._replicas, self._comm, pool, given, self._weights(fed), self._blocks)

    # Open sizes

    def _fit(self, fetches: Sequence[str], fed: Fed, pool: WorkerPool) -> Fit | None:
        """A plan for all shapes that is right for this one."""
        if not self._state.steps or self._trainers is not None:
            return None  # what is in the scope has not been looked at yet
        given, specs = self._given_persistables(fed), specs_of(fed)
        form = tuple(fetches), fed.active, given, tuple((*k, len(s.shape), s.dtype.name) for k, s in specs.items())

        def make(dims: OpenDims) -> OpenBinding:
            if not self._compiler.native:
                raise Unsettled("nothing runs in kernels on these devices")
            plan = self._compiler.plan_openly(dims, fetches, fed, given)
            self._prepare(plan.plan.graph)
            return OpenBinding(plan, self._ground(plan.plan, fed, pool))

        return self._open.fit((*form, len(self._program.lr_schedulers)), specs, make)

    def _filled_in(self, key: Any, fetches: Sequence[str], fed: Fed, pool: WorkerPool) -> Binding | None:
        """What runs a shape that a plan for all shapes is right for; None where there is no such plan."""
        start = perf_counter_ns()
        fit = self._fit(fetches, fed, pool)
        if fit is None:
            return None
        plan = fit.filled.plan
        try:
            binding = fit.binding.bind(fit.filled, self._room_for(plan), self._scratch, self._weights(fed))
        except Unsettled:
            return None
        self._compiler.keep(key, plan, self._state.steps, start)
        return binding

    def _forget(self, keys: Iterable[Any]) -> None:
        """Let go of the bindings of plans that are not kept any more."""
        gone = {id(self.bound.pop(key)) for key in keys}
        if gone:
            self._newest = None
            self._by_feed = {key: entry for key, entry in self._by_feed.items() if id(entry.step) not in gone}

    @property
    def _is_weighted(self) -> bool:
        return self._settings.gradient_scale_strategy == BuildStrategy.GradientScaleStrategy.WeightedBySamples

    def _count_rows(self, trainers: Trainers, fed: Fed) -> None:
        """Find out how many rows all trainers have."""
        total = trainers.rows_of_all(sum(next(iter(fed.rows.values()), (1,) * fed.active)))
        if total != self._rows_of_all:
            self._rows_of_all, self._newest = total, None
            self._by_feed.clear()

    def _weights(self, fed: Fed) -> list[float]:
        """Each device's share of the batch, of all trainers' where there are several."""
        name, rows = next(iter(fed.rows.items()), ("", (1,) * fed.active))
        for other, counts in fed.rows.items() if self._is_weighted else ():
            if any(mine * sum(rows) != count * sum(counts) for mine, count in zip(counts, rows, strict=True)):
                raise InvalidArgument(
                    "gradient_scale_strategy WeightedBySamples needs one number of samples per device\n"
                    f"  expected: {other!r} divided over the devices as {name!r} is, {list(rows)}\n"
                    f"  got:      {list(counts)}"
                )
        total = self._rows_of_all or sum(rows)
        return [count / total if total else 1.0 / fed.active for count in rows]

    def _given_persistables(self, fed: Fed) -> frozenset[tuple[str, int]]:
        """Persistable values this step takes from the feed or a schedule instead of the scope."""
        given = {(name, place) for place, arrays in enumerate(fed.persistable) for name in arrays}
        places = range(len(self._spec.places))
        given.update((name, place) for name in self._program.lr_schedulers for place in places)
        return frozenset(given)

    def _room_for(self, plan: Plan) -> dict[int, DeviceMemory]:
        for place, nbytes in plan.sizes.items():
            there = self.arenas[place].nbytes if place in self.arenas else -1
            if there < nbytes:
                self.arenas[place] = self._larger(plan, place, nbytes, there)
                self.bound, self._by_feed, self._newest = {}, {}, None
        return self.arenas

    def _larger(self, plan: Plan, place: int, nbytes: int, there: int) -> DeviceMemory:
        """An arena for a plan that needs more than the last one had, with room for larger ones still.

        A new arena means that everything is bound anew, so there had better be few. What nobody writes takes no memory.
        """
        if there > 0 and self._devices[place].grows_by_use:
            try:
                return self._devices[place].allocate(max(nbytes, 2 * there))
            except Unavailable:
                pass
        return self._allocated(plan, place, nbytes)

    def _own_room(self, plan: Plan) -> dict[int, DeviceMemory]:
        """Memory no other step uses: what is observed stays while others run."""
        return {place: self._allocated(plan, place, nbytes) for place, nbytes in plan.sizes.items()}

    def _allocated(self, plan: Plan, place: int, nbytes: int) -> DeviceMemory:
        try:
            return self._devices[place].allocate(nbytes)
        except Unavailable as error:
            raise no_memory(plan.graph, plan.shapes.specs, error) from error

    @property
    def refusals(self) -> list[str]:
        """Why shapes that change are planned each for itself."""
        return self._open.refusals

    def abandon(self) -> None:
        """Leave everything to a thread that has not come to rest: it may still write there."""
        self.arenas, self.bound, self._by_feed, self._scratch = {}, {}, {}, {}
        self._newest = None
        self._open.clear()

    def release(self, freed: dict[int, int]) -> None:
        """Give the memory of temporaries back to the system; adds the bytes to `freed`, by device."""
        for step in self.bound.values():
            step.binding.release(freed)
        for place, arena in self.arenas.items():
            freed[place] += arena.release()


def one_copy_of(graph: Graph) -> set[str]:
    """What all devices share in Reduce mode: parameters and state, each changed by its owner only (X-23)."""
    if not graph.owners:
        return set()
    written = {(v.name, v.place) for n in graph.nodes if not n.is_collective for v in n.writes if v.persistable}
    counts = Counter(name for name, _ in written)
    return {name for name in {*counts, *graph.owners} if counts[name] < graph.devices}
