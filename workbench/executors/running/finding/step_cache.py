"""What a step runs: found by its fetches and the shapes of its feed, or made."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from time import perf_counter_ns
from typing import NamedTuple

from workbench.errors import EnforceNotMet, InvalidArgument
from workbench.executors.feeding.feed_plan import Fed, FeedPlan
from workbench.executors.lowering.binding import Binding, Ground, bind, ground_of
from workbench.executors.lowering.open_binding import OpenBinding
from workbench.executors.lowering.open_bindings import Fit, Make, OpenBindings
from workbench.executors.lowering.stretches.stretches import Stretches
from workbench.executors.planning.filled_plan import FilledPlan
from workbench.executors.planning.open_plan import OpenDims
from workbench.executors.planning.plan import Given, Plan
from workbench.executors.planning.sizes.unknowns import Unsettled
from workbench.executors.replicas.one_memory import begin_together
from workbench.executors.replicas.replicas import Replicas
from workbench.executors.running.finding.compiler import Compiler, shapes_of, specs_of
from workbench.executors.running.finding.plan_cache import KeptPlan, Key
from workbench.executors.running.finding.workspace import Workspace
from workbench.executors.running.spec import EngineSpec
from workbench.executors.running.step.bound_step import BoundStep
from workbench.executors.running.step.state import StepState
from workbench.executors.running.team_trial import TeamTrials
from workbench.executors.running.trainers import Trainers
from workbench.executors.running.watching.report import Reporter
from workbench.executors.workers.pool import WorkerPool
from workbench.framework.values.place import CUDAPlace
from workbench.framework.values.spec import Shape
from workbench.graph.settings import Settings
from workbench.graph.ssa import Graph, Node
from workbench.graph.strategy import BuildStrategy
from workbench.runtime.collector import collector_paused
from workbench.runtime.comm.local import LocalCommunicator

_FEEDS = 8192  # pairs of fetches and feed plans whose step is found at once
_WORTH = 20.0  # times as long as making a plan takes, steps that want another one have run before it is made
_MORE = 4.0  # times as long as the last time, if it is again one that is wanted
_ATTEMPTS = 8  # at binding, while other threads set what is bound


class _Found(NamedTuple):
    """What is kept for feeds of one signature, and its key. It keeps the feed plan: no other has its id."""

    plan: FeedPlan
    names: tuple[str, ...]
    key: Key
    kept: KeptPlan


class StepCache:
    """Of one engine: a plan, and what it is bound to, for every combination of fetches and shapes.

    Args:
        number: of the engine. workspace: what is bound to, which pruned programs and the whole share.
        settings: of the graph. training: the devices depend on each other.
        one_copy: what all devices share in Reduce mode, of a graph.
        reporter: is told about plans that are made.
        trainers: who trains with this process, None if nobody does.
    """

    def __init__(
        self,
        number: int,
        workspace: Workspace,
        spec: EngineSpec,
        settings: Settings,
        compiler: Compiler,
        replicas: Replicas,
        state: StepState,
        training: bool,
        one_copy: Callable[[Graph], set[str]],
        reporter: Reporter,
        trainers: Trainers | None,
    ) -> None:
        self._spec, self._settings, self._compiler, self._replicas = spec, settings, compiler, replicas
        self._number, self._workspace, self._plans = number, workspace, workspace.plans
        self._state, self._training, self._one_copy = state, training, one_copy
        self._program = spec.program
        self._persistables = [variable.name for variable in spec.program.persistables()]
        self._comm = LocalCommunicator(len(spec.places)) if trainers is None else trainers.comm
        self._trainers, self._reporter = trainers, reporter
        self._rows_of_all = 0  # of the step under way, where a device's weight depends on them
        self._stretches: Stretches | None = None
        self._by_feed: dict[tuple[tuple[str, ...], int], _Found] = {}
        self._newest: _Found | None = None
        self._last: FeedPlan | None = None
        self._open, self._trials = OpenBindings(), TeamTrials()
        self._wanted = self._making = 0.0  # seconds of steps that want another plan; the longest it took to make one
        self._worth = _WORTH
        weakref.finalize(self, self._plans.leaving(number)).atexit = False

    @property
    def last_plan(self) -> FeedPlan | None:
        """What was done with the feed of the last step."""
        return self._last

    @property
    def last_rows(self) -> Mapping[str, tuple[int, ...]]:
        """How many rows of every feed each device got in the last step."""
        return {} if self._last is None else self._last.rows

    def find(self, fetches: Sequence[str], fed: Fed) -> BoundStep:
        """What a step runs; without looking at the feed where one of its signature has been seen."""
        if self._trainers is not None and self._is_weighted:
            self._count_rows(self._trainers, fed)
        names, newest = tuple(fetches), self._newest
        if newest is None or newest.plan is not fed.plan or newest.names != names:
            self._last = fed.plan
            newest = self._newest = self._seen(names, fed)
        step = None if newest is None else newest.kept.step
        # `set_lr` makes a schedule of what was a variable
        if step is None or step.binding.schedules != len(self._program.lr_schedulers):
            return self._find(names, fed)
        if step.wanting and self._pays(step):
            self._improve(names, fed)
            return self._find(names, fed)
        return step if step.binding.storage.is_current() else self._find(names, fed)

    def _pays(self, step: BoundStep) -> bool:
        """Whether so much time has gone into steps for which another plan would be quicker that one more is made."""
        self._wanted += step.wanting
        return self._wanted > self._worth * self._making

    def _improve(self, names: tuple[str, ...], fed: Fed) -> None:
        """Make a plan for sizes like these; what others like it were bound to is found anew."""
        self._wanted, self._worth = 0.0, _MORE * self._worth
        form, specs, make = self._open_form(names, fed)
        if self._open.improve(form, specs, make):
            for kept in self._plans.of(self._number):
                if kept.step is not None and kept.step.wanting:
                    kept.unbind()

    def _seen(self, names: tuple[str, ...], fed: Fed) -> _Found | None:
        """What was found for an earlier feed of this signature."""
        entry = self._by_feed.get((names, id(fed.plan)))
        if entry is None or entry.plan is not fed.plan:
            return None
        self._plans.use(entry.key)
        return entry

    def _find(self, names: tuple[str, ...], fed: Fed) -> BoundStep:
        """The step, which is found at once the next time."""
        key = self._key(names, fed, False)
        step = self._step_of(key, names, fed)
        if len(self._by_feed) > _FEEDS:
            self._by_feed.clear()
        kept = self._plans.get(key)
        if kept is not None:
            self._by_feed[names, id(fed.plan)] = self._newest = _Found(fed.plan, names, key, kept)
        return step

    def _key(self, names: Sequence[str], fed: Fed, observed: bool) -> Key:
        """What a plan is kept under."""
        schedules = len(self._program.lr_schedulers)
        return self._number, tuple(names), shapes_of(fed), observed, schedules, self._rows_of_all

    def step(self, fetches: Sequence[str], fed: Fed, observed: bool = False) -> BoundStep:
        """What a step of these fetches runs for this feed's shapes, bound or bound anew where needed.

        Args:
            observed: one of its own, without fused nodes, in which every value keeps its memory.
        """
        return self._step_of(self._key(fetches, fed, observed), fetches, fed, observed)

    def _step_of(self, key: Key, fetches: Sequence[str], fed: Fed, observed: bool = False) -> BoundStep:
        kept = self._plans.get(key)
        if kept is not None and kept.step is not None and kept.step.binding.storage.is_current():
            self._plans.use(key)
            return kept.step
        with collector_paused():
            return self._bind(key, fetches, fed, observed)

    def _bind(self, key: Key, fetches: Sequence[str], fed: Fed, observed: bool) -> BoundStep:
        binding, wanting = (None, 0.0) if observed else self._filled_in(key, fetches, fed)
        for _ in range(_ATTEMPTS):
            if binding is not None and binding.storage.is_current():
                break
            binding, wanting = self._bound_anew(key, fetches, fed, observed), 0.0
        assert binding is not None
        step = BoundStep(binding, self._training, self._spec.loss_name, self._trials, wanting)
        if not observed:
            self._plans.bind(key, step)
        return step

    def _bound_anew(self, key: Key, fetches: Sequence[str], fed: Fed, observed: bool) -> Binding:
        plan, workspace = self._plan(key, fetches, fed, observed), self._workspace
        self._prepare(plan)
        arenas = workspace.own_room(plan) if observed else workspace.room_for(plan)
        try:
            scratch = {} if observed else workspace.scratch
            return bind(plan, self._ground(plan, fed), arenas, scratch, target=workspace.target)
        except EnforceNotMet:
            if not self._state.steps:
                self._replicas.renew()  # the first run is yet to come: it copies what the scope holds then
            raise

    def _plan(self, key: Key, fetches: Sequence[str], fed: Fed, observed: bool) -> Plan:
        kept = self._plans.get(key)
        if kept is not None and kept.plan is not None:
            self._plans.use(key)
            return kept.plan
        start = perf_counter_ns()
        plan = self._compiler.plan(fetches, fed, observed, self._given_persistables(fed))
        self._keep(key, plan, start)
        return plan

    def _keep(self, key: Key, plan: Plan, start: int) -> None:
        """Keep a new plan; it is told that it was made, since `start`."""
        self._plans.keep(key, plan)
        self._reporter.compiled(self._state.steps, plan, len(self._plans), start)

    def _prepare(self, plan: Plan) -> None:
        """See to it that all devices have their variables."""
        if not self._replicas.is_whole():
            self._replicas.renew()
        if self._workspace.pool.control is not None:
            begin_together(plan, self._replicas)
        self._replicas.distribute(self._persistables, self._one_copy(plan.graph))

    def _ground(self, plan: Plan, fed: Fed) -> Ground:
        given, pool = self._given_persistables(fed), self._workspace.pool
        by_user = {name for arrays in fed.persistable for name in arrays}
        return ground_of(
            plan, self._replicas, self._comm, pool, given, self._weights(fed), self._stretches_on(pool), by_user
        )

    def _stretches_on(self, pool: WorkerPool) -> Stretches:
        if self._stretches is None or self._stretches.pool is not pool:
            self._stretches = Stretches(pool, self._comm)
        return self._stretches

    # Open sizes

    def _fit(self, fetches: Sequence[str], fed: Fed, may_make: bool) -> Fit[OpenBinding] | None:
        """A plan for all shapes that is right for this one, made if need be and if it may be."""
        if self._trainers is not None:
            return None
        form, specs, make = self._open_form(fetches, fed)
        return self._open.fit(form, specs, make if may_make else None, self._declared(specs))

    def _open_form(self, fetches: Sequence[str], fed: Fed) -> tuple[Hashable, Given, Make]:
        """What does not change where sizes do, the feeds, and what makes an open binding."""
        given, specs = self._given_persistables(fed), specs_of(fed)
        form = tuple(fetches), fed.active, given, tuple((*k, len(s.shape), s.dtype.name) for k, s in specs.items())

        def make(dims: OpenDims) -> OpenBinding:
            if not self._compiler.target.takes_open_sizes:
                raise Unsettled("nothing runs in kernels on these devices")
            start = perf_counter_ns()
            plan = self._compiler.plan_openly(dims, fetches, fed, given)
            self._prepare(plan.plan)
            binding = OpenBinding(plan, self._ground(plan.plan, fed))
            self._require_kernels(plan.plan.graph, binding.in_python)
            self._making = max(self._making, (perf_counter_ns() - start) * 1e-9)
            return binding

        return (*form, len(self._program.lr_schedulers), self._workspace.number), specs, make

    def _require_kernels(self, graph: Graph, in_python: set[Node]) -> None:
        """An open plan is not used where plans for one shape are quicker in every step.

        Args:
            in_python: the nodes that it has no kernels for.

        Raises:
            Unsettled: kernels have run some of them.
        """
        for kept in self._plans.of(self._number) if in_python else ():
            known = kept.step.binding if kept.step is not None else None
            if known is None or known.plan.graph is not graph:
                continue
            for node in sorted(in_python - known.in_python, key=str):
                raise Unsettled(f"op {node.type!r} runs in kernels only where sizes are known")

    def _declared(self, given: Given) -> Mapping[str, Shape] | None:
        """The shapes of feeds as they are declared, if more of them is unknown than how many rows there are."""
        block = self._program.global_block()
        variables = {name: block.find_var(name) for name, _ in given}
        shapes = {name: tuple(variable.spec.shape) for name, variable in variables.items() if variable is not None}
        return shapes if any(-1 in shape[1:] for shape in shapes.values()) else None

    def _filled_in(self, key: Key, fetches: Sequence[str], fed: Fed) -> tuple[Binding | None, float]:
        """What runs a shape that a plan for all shapes is right for, and what that is `wanting`; None if there is none.

        So it is when memory has moved, too: numbers are filled in once more in a hundredth of the time in which rows
        are lowered, and steps take as long afterwards. What was planned for its shape alone needs no plan for others.
        """
        start, kept = perf_counter_ns(), self._plans.get(key)
        try:
            fit = self._fit(fetches, fed, may_make=kept is None or type(kept.plan) is FilledPlan)
        except EnforceNotMet:
            if self._state.steps:
                raise
            self._replicas.renew()  # see `_bound_anew`, which tells what is wrong with the program or what it is fed
            return None, 0.0
        if fit is None:
            return None, 0.0
        plan = fit.filled.plan
        try:
            arenas, scratch = self._workspace.room_for(plan), self._workspace.scratch
            binding = fit.binding.bind(fit.filled, arenas, scratch, self._weights(fed))
        except Unsettled:
            return None, 0.0
        if kept is None:
            self._keep(key, plan, start)
        else:
            self._plans.keep(key, plan)
        return binding, fit.filled.wanting

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

    @property
    def refusals(self) -> list[str]:
        """Why shapes that change are planned each for itself."""
        return self._open.refusals


def one_copy_of(graph: Graph) -> set[str]:
    """What all devices share in Reduce mode: parameters and state, each changed by its owner only (X-23)."""
    if not graph.owners or graph.places[0].kind == CUDAPlace.kind:
        return set()  # GPUs see no memory of each other
    written = {(v.name, v.place) for n in graph.nodes if not n.is_collective for v in n.writes if v.persistable}
    counts = Counter(name for name, _ in written)
    return {name for name in {*counts, *graph.owners} if counts[name] < graph.devices}
