"""The engine behind ParallelExecutor and CompiledProgram: a program on several devices, step by step.

program -> check -> SSA graph -> passes -> check -> plan -> binding      made when first needed, and kept
feed -> split over the devices -> calls -> commit -> fetch -> merge      every step
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from operator import setitem
from time import perf_counter_ns
from types import FrameType
from typing import Any

import numpy as np

from workbench import between
from workbench.errors import EnforceNotMet, InvalidArgument, PreconditionNotMet, Unavailable
from workbench.events import LISTENERS, Fetched
from workbench.executors.binding import Binding, ThreadProgram
from workbench.executors.cache import Cache
from workbench.executors.collect import Collector
from workbench.executors.compiler import Compiler, shapes_of
from workbench.executors.execution_strategy import ExecutionStrategy
from workbench.executors.failures import no_memory
from workbench.executors.feed import fed_names
from workbench.executors.feed_notes import note_feed
from workbench.executors.local_view import LocalScope
from workbench.executors.moment import Guard, moment_of
from workbench.executors.plan import Plan
from workbench.executors.reference.calls import Call
from workbench.executors.replicas import Replicas
from workbench.executors.report import Reporter
from workbench.executors.split import Fed, Splitter
from workbench.executors.steps import kind_of_step
from workbench.executors.team import Team
from workbench.executors.transaction import Broken, Fill, commit, load
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.values.place import Place
from workbench.graph.loss import has_backward, loss_gradients
from workbench.graph.ssa import Graph
from workbench.graph.strategy import BuildStrategy
from workbench.runtime.collector import collector_paused
from workbench.runtime.comm.local import LocalCommunicator
from workbench.runtime.device import Memory
from workbench.runtime.devices import open_device
from workbench.runtime.ending import require_time, the_end
from workbench.runtime.native.library import kernels
from workbench.runtime.scope import Scope
from workbench.runtime.tensor import LoDTensor

_PARTS = 16  # engines for parts of the program
_NONE = (None, None)
_numbers = itertools.count(1)


class Engine:
    """A snapshot of a program on a list of devices.

    Args:
        program: a snapshot of the user's (X-3), which nobody changes any more.
        places: the devices.
        loss_name: of the loss that is trained; None for programs without a backward pass (X-4).
        scope: of device 0. shares: an engine whose devices' values are used, in its scope (X-5, X-25).
        whole: the engine this one runs a part of, on the same devices and their values (C-7).

    Attributes:
        counter: how many steps of the whole and its parts have been applied, one int64, which all of them share.
        guards: see `guard`. newest: while there are any, number and feed of the newest step of the whole and its parts.
        _drop_for: why temporaries are to be dropped at the end of the step under way, "" if they are not.
    """

    def __init__(
        self,
        program: Program,
        places: Sequence[Place],
        loss_name: str | None,
        build: BuildStrategy,
        execution: ExecutionStrategy,
        scope: Scope,
        shares: Engine | None = None,
        data_parallel: bool = True,
        whole: Engine | None = None,
    ) -> None:
        self.number, self.program = next(_numbers), program
        self.whole: Engine = self if whole is None else whole
        self.parts: Cache[Engine] = Cache(_PARTS)
        self.places, self.shares = tuple(places), shares
        self.scope: Scope = scope if shares is None else shares.scope
        self.build, self.execution, self.data_parallel = build, execution, data_parallel
        self.loss_name = loss_name
        self.reporter = Reporter(f"executor {self.number}", self.places)
        self.devices = [open_device(place) for place in self.places]
        self.comm = LocalCommunicator(len(self.places))
        self.arenas: dict[int, Memory] = {}
        self.iteration = self._before = 0
        # of the steps of the whole; compiled steps count themselves
        self.counter: np.ndarray = np.zeros(1, np.int64) if whole is None else whole.counter
        self._counted = self.counter.data
        self.last: Binding | None = None
        self.started = self.busy = False
        self.begun = 0
        self.broken: Broken | None = None
        self.guards: tuple[Guard, ...] = ()
        self.newest: tuple[int, Fed] | None = None
        self._drop_for = ""
        self.replicas: Replicas
        self._team: Team
        self._splitter: Splitter
        self.separable = False
        self.compiler: Compiler
        self._bindings: dict[Any, Binding] = {}
        self._latest: dict[tuple[str, ...], tuple[Any, Binding]] = {}
        self._blocks: dict[int, list[Call]] = {}

    @property
    def steps(self) -> int:
        """How many steps have been applied, of the whole and its parts."""
        return self._counted[0]

    @property
    def applied(self) -> bool:
        """Whether the step under way, or the last one, has been applied."""
        return self._counted[0] != self.whole._before

    def expect_step(self) -> None:
        """The next step begins: it has not been applied."""
        self.whole._before = self._counted[0]

    # Compiling

    def start(self) -> None:
        """What happens once, at the first run: strategies are settled, the program checked, scopes made."""
        if self.started:
            return
        self.settings = self.build.freeze(len(self.places))
        self.execution.settle(len(self.places), use_cuda=self.places[0].kind == "gpu")
        self._check_sharer()
        self._team = self._new_team()
        self.replicas = self._replicas()
        self.persistables = [v.name for v in self.program.persistables()]
        self.draws = any(_draws(op) for op in self.program.all_ops())
        self.separable = self._is_separable()
        self.compiler = Compiler(
            self.program, self.places, self.settings, self.execution, self.data_parallel, self.reporter,
            self._team.control is not None,
        )  # fmt: skip
        kind = self.places[0].kind
        self._splitter = Splitter(
            self.program, len(self.places), self.execution.feed_split, self.separable, self._reads(), kind
        )
        self.started = True
        the_end.ends_executor(self)

    def _replicas(self) -> Replicas:
        if self.whole is not self:
            self.whole.start()
            return self.whole.replicas
        return Replicas(self.scope, len(self.places), self.shares.replicas if self.shares else None)

    def part(self, key: Any, make: Callable[[], Program]) -> Engine:
        """An engine for a part of the program, kept under `key`; the devices and their values are the same (C-7)."""

        def build() -> Engine:
            return Engine(
                make(),
                self.places,
                self.loss_name,
                self.build,
                self.execution,
                self.scope,
                None,
                self.data_parallel,
                self,
            )

        return self.parts.get(key, build)

    def _check_sharer(self) -> None:
        """X-5."""
        if self.shares is None:
            return
        if not self.shares.started:
            raise InvalidArgument("share_vars_from has to run once before the executor that shares its variables")
        mine, theirs = len(self.places), len(self.shares.places)
        if mine != theirs:
            raise InvalidArgument(
                f"share_vars_from runs on {theirs} devices, this executor on {mine}; each device uses the "
                "variables of one"
            )

    def _reads(self) -> list[str]:
        """The data the program cannot do without."""
        block = self.program.global_block()
        written: set[str] = set()
        found: dict[str, None] = {}
        for op in block.ops:
            for name in op.input_arg_names:
                if name in block.vars and block.vars[name].is_data and name not in written:
                    found[name] = None
            written.update(op.output_arg_names)
        return list(found)

    def _is_separable(self) -> bool:
        """Whether the devices have nothing to do with each other, so that some may stay without a feed (X-30)."""
        if has_backward(self.program) or loss_gradients(self.program):
            return False
        return not (self.settings.sync_batch_norm and any(op.type == "batch_norm" for op in self.program.all_ops()))

    def graph(self, fetches: Sequence[str], devices: int | None = None, observed: bool = False) -> Graph:
        """The graph of a step that fetches these names, after all passes; see `Compiler.graph`."""
        return self.compiler.graph(fetches, devices, observed)

    def binding(self, fetches: Sequence[str], fed: Fed, observed: bool = False) -> Binding:
        """The binding for this feed's shapes and these fetches, made or made anew where needed.

        Args:
            observed: one of its own, without fused nodes, in which every value keeps its memory.
        """
        key = (tuple(fetches), shapes_of(fed), observed, len(self.program.lr_schedulers))
        found = self._bindings.get(key)
        if found is not None and found.is_current():
            self.compiler.use(key)
            return found
        with collector_paused():
            return self._bind(key, fetches, fed, observed)

    def _bind(self, key: Any, fetches: Sequence[str], fed: Fed, observed: bool) -> Binding:
        plan = self.compiler.plan(key, fetches, fed, observed, self._given_persistables(fed), self.steps)
        self._bindings = {k: b for k, b in self._bindings.items() if k in self.compiler.plans}
        if not self.replicas.is_whole():
            self.replicas.renew()
        self.replicas.distribute(self.persistables, self._one_copy(plan.graph))
        arenas = self._own_room(plan) if observed else self._room_for(plan)
        try:
            made = Binding(
                plan, self.replicas, arenas, self.comm, self._team, self._given_persistables(fed), self._weights(fed),
                self._blocks,
            )  # fmt: skip
        except EnforceNotMet:
            if not self.steps:
                self.replicas.renew()  # the first run is yet to come: it copies what the scope holds then
            raise
        made.collector = Collector(made, training=not self.separable)
        if not observed:
            self._bindings[key] = made
        return made

    def _weights(self, fed: Fed) -> list[float]:
        """Each device's share of the batch."""
        name, rows = next(iter(fed.rows.items()), ("", (1,) * fed.active))
        weighted = self.settings.gradient_scale_strategy == BuildStrategy.GradientScaleStrategy.WeightedBySamples
        for other, counts in fed.rows.items() if weighted else ():
            if any(mine * sum(rows) != count * sum(counts) for mine, count in zip(counts, rows, strict=True)):
                raise InvalidArgument(
                    "gradient_scale_strategy WeightedBySamples needs one number of samples per device\n"
                    f"  expected: {other!r} divided over the devices as {name!r} is, {list(rows)}\n"
                    f"  got:      {list(counts)}"
                )
        return [count / sum(rows) if sum(rows) else 1.0 / fed.active for count in rows]

    def _given_persistables(self, fed: Fed) -> frozenset[tuple[str, int]]:
        """Persistable values this step takes from the feed or a schedule instead of the scope."""
        given = {(name, place) for place, arrays in enumerate(fed.persistable) for name in arrays}
        given.update((name, place) for name in self.program.lr_schedulers for place in range(len(self.places)))
        return frozenset(given)

    def _one_copy(self, graph: Graph) -> set[str]:
        """What all devices share in Reduce mode: parameters and state, each changed by its owner only."""
        if self.whole is not self:
            return self.whole._one_copy(self.whole.graph(()))
        if not graph.owners:
            return set()
        written = {(v.name, v.place) for n in graph.nodes if not n.is_collective for v in n.writes if v.persistable}
        counts = Counter(name for name, _ in written)
        return {name for name in {*counts, *graph.owners} if counts[name] < graph.devices}

    def shared_variables(self) -> set[str]:
        """What all devices have one copy of (X-23); the engine is started to find out."""
        self.start()
        return self._one_copy(self.graph(()))

    def _room_for(self, plan: Plan) -> dict[int, Memory]:
        for place, nbytes in plan.sizes.items():
            if place not in self.arenas or self.arenas[place].nbytes < nbytes:
                self.arenas[place] = self._allocated(plan, place, nbytes)
                self._bindings, self._latest = {}, {}
        return self.arenas

    def _own_room(self, plan: Plan) -> dict[int, Memory]:
        """Memory no other step uses: what is observed stays while others run."""
        return {place: self._allocated(plan, place, nbytes) for place, nbytes in plan.sizes.items()}

    def _allocated(self, plan: Plan, place: int, nbytes: int) -> Memory:
        try:
            return self.devices[place].allocate(nbytes)
        except Unavailable as error:
            raise no_memory(plan.graph, plan.shapes.specs, error) from error

    # Running

    def run(self, feed: Any, fetches: Sequence[str], return_numpy: bool = True, merged: bool = True) -> list[Any]:
        """One step.

        Returns:
            one entry per fetched name: merged over the devices, or a list with one entry per device.

        Raises:
            PreconditionNotMet: called in the middle of a step, by a signal handler or a finalizer.
        """
        begun = perf_counter_ns()
        if begun >= between.due:
            between.visit()
        if self.scope.root.lock._is_owned():
            self._refuse_inside(feed)
        with self._alone():
            whole = self.whole
            self.begun, whole._before, whole.busy = begun, self.steps, True
            try:
                found = self._run(feed, fetches, return_numpy, merged)
                whole.busy = False
                if Fetched in LISTENERS:
                    self.reporter.fetched(self.steps - 1, fetches, found)
            except BaseException as error:
                whole.busy = False
                if not self.applied:
                    self.reporter.failed(self.steps, error)
                raise
            finally:
                if self._drop_for:
                    whole._drop(self._drop_for)
                    self._drop_for = ""
            return found

    def _refuse_inside(self, feed: Any) -> None:
        """Refuse a step of this engine, or one that changes values, within a step of this thread (see `_mid_steps`)."""
        for engine in _mid_steps(sys._getframe(2), self.scope):
            if engine.whole is self.whole:
                raise PreconditionNotMet(
                    "a step of this executor is under way in this thread; a signal handler or a finalizer cannot run "
                    "another one in the middle of it"
                )
            if self._changes_values(feed):
                raise _in_the_middle()

    def _changes_values(self, feed: Any) -> bool:
        """Whether a step leaves other values behind: updates, statistics, counters, persistable feeds."""
        ops = list(self.program.all_ops())
        given = {*fed_names(feed), *(name for op in ops for name in op.output_arg_names)}
        return any(map(_draws, ops)) or any(variable.name in given for variable in self.program.persistables())

    def _in_mid_step(self) -> Engine | None:
        """The engine on the same memory whose step is under way in this thread and has not been applied."""
        return next((e for e in _mid_steps(sys._getframe(1), self.scope) if e.whole is self.whole), None)

    def _run(self, feed: Any, fetches: Sequence[str], return_numpy: bool, merged: bool) -> list[Any]:
        fed = self.prepare(feed)
        if self.whole.guards:
            self.whole.newest = self.whole.steps, fed
        try:
            binding = self._same_as_last(fetches, fed)
            if self.execution._dry_run:
                return _nothing(fetches)
            return self._steps(binding, fed, return_numpy, merged)
        except InvalidArgument as error:
            note_feed(error, self.program, fed)
            raise

    def _steps(self, binding: Binding, fed: Fed, return_numpy: bool, merged: bool) -> list[Any]:
        """As many as `ExecutionStrategy.iterations` asks for; what the last one fetches."""
        step = kind_of_step(self.reporter.name)
        try:
            for _ in range(self.execution.iterations - 1):
                step(self, binding, fed, return_numpy, merged)
                self.begun = perf_counter_ns()
            return step(self, binding, fed, return_numpy, merged)
        finally:
            self.whole._count()

    def prepare(self, feed: Any) -> Fed:
        """What a feed gives each device; the first time the engine is started.

        Raises:
            PreconditionNotMet: a commit could not be finished. InvalidArgument: the feed is not what the program takes.
            Unavailable: the process is ending.
        """
        if the_end.has_come:
            require_time()
        if self.whole.broken is not None:
            raise PreconditionNotMet(f"the executor cannot run: {self.whole.broken}")
        if not self.started:
            with collector_paused():
                self.start()
        if self._team.lost:
            self._abandon()
        return self._splitter.split(feed)

    def end(self, seconds: float) -> None:
        """The process ends: stop a step of another thread at its next row, and wait at most so long for that."""
        self._team.failed = True
        self.scope.come_to_rest(seconds)

    def _new_team(self) -> Team:
        return Team(self.execution.timeout, kernels() if self.places[0].kind == "cpu" else None)

    def _abandon(self) -> None:
        """Leave everything to a thread that has not come to rest: it may still write there."""
        self._team = self._new_team()
        self.arenas, self._bindings, self._latest, self.whole.last = {}, {}, {}, None

    def _same_as_last(self, fetches: Sequence[str], fed: Fed) -> Binding:
        """The binding; without looking at the feed again if its shapes are those of the last one."""
        names = tuple(fetches)
        recipe, found = self._latest.get(names, _NONE)
        # one recipe per combination of shapes; `set_lr` makes a schedule of what was a variable
        if recipe is not fed.recipe or found is None or not found.is_current() or not self._has_schedules_of(found):
            found = self.binding(names, fed)
            self._latest = {names: (fed.recipe, found)}
        return found

    def _has_schedules_of(self, binding: Binding) -> bool:
        return binding.schedules == len(self.program.lr_schedulers)

    # Guarding

    def guard(self, guard: Guard) -> Callable[[], None]:
        """Have `guard(take)` called when a step that is about to be applied has a NaN or an Inf in it.

        What is looked at: see `telltales`. It is called on the thread of the step; `take()` copies what the step began
        with. If it raises, the step is not applied, and `run` raises that.

        Returns:
            what takes it away again.
        """
        self.guards = (*self.guards, guard)
        return lambda: self._dismiss(guard)

    def _dismiss(self, guard: Guard) -> None:
        self.guards = tuple(other for other in self.guards if other is not guard)
        if not self.guards:
            self.newest = None  # nobody asks for it any more; the arrays are the caller's

    def call_guards(self, binding: Binding, fed: Fed) -> None:
        """There is a blemish in the step that is ready to be applied."""
        found = cache(lambda: moment_of(self, [name for name, _ in binding.plan.fetches], fed))
        for guard in self.whole.guards:
            guard(found)

    def load(self, binding: Binding, fed: Fed) -> list[LoDTensor]:
        """Put everything in place that a step reads.

        Returns:
            the counters it will move on.
        """
        load(binding, fed)
        self.load_rates(binding)
        self.expect_step()
        counters = self._counters(binding)
        binding.draw()
        return counters

    def commit(
        self, binding: Binding, programs: Sequence[ThreadProgram], counters: list[LoDTensor], fills: list[Fill]
    ) -> None:
        """Apply a step, see `transaction.commit`."""
        try:
            commit(binding, programs, counters, [*fills, *self.marks(binding)])
        except Broken as error:
            self.whole.broken = error
            raise

    def marks(self, binding: Binding) -> list[Fill]:
        """The end of a commit, as C functions: whatever is raised from now on, the step has been applied."""
        return [partial(setitem, self.counter, 0, self.steps + 1), partial(setattr, self.whole, "last", binding)]

    def load_rates(self, binding: Binding) -> None:
        """The schedules' current learning rates (P-48)."""
        for name, scheduler in self.program.lr_schedulers.items():
            rate = scheduler()
            for place in range(binding.plan.graph.devices):
                binding.give_rate(name, place, rate)

    def _counters(self, binding: Binding) -> list[LoDTensor]:
        """The step counters of the random ops, one per device; those that no startup program has made begin at 0."""
        name, found = self.program.rng_step, []
        if not self.draws or not name:
            return []
        for runner in binding.runners:
            tensor = self.replicas.find(name, runner.place)
            runner.rng_step = 0 if tensor is None else int(tensor.array[0])
            found.append(self.replicas.make(name, runner.place) if tensor is None else tensor)
        return list({id(t): t for t in found}.values())

    def begin(self, fetches: Sequence[str], fed: Fed) -> tuple[Binding, list[LoDTensor]]:
        """A step on the observed plan, loaded and not run, and the counters it will move; nobody may run meanwhile."""
        binding = self.binding(fetches, fed, observed=True)
        return binding, self.load(binding, fed)

    def apply(self, binding: Binding, counters: list[LoDTensor], fills: list[Fill]) -> None:
        """Commit a step that has been begun and run."""
        self.commit(binding, binding.commit, counters, fills)
        self.whole._count()

    def _alone(self) -> Any:
        """One step of a scope at a time."""
        return self.scope.in_use(self.execution.timeout)

    # Looking in

    def local_scope(self, device: int) -> LocalScope:
        """What a device sees."""
        if not 0 <= device < len(self.places):
            raise InvalidArgument(f"there is no device {device}; devices are numbered from 0 to {len(self.places) - 1}")
        if not self.started:
            raise PreconditionNotMet("the devices get their scopes at the first run")
        return LocalScope(self.replicas.scopes[device], device, self.last)

    @property
    def last_rows(self) -> Mapping[str, tuple[int, ...]]:
        """How many rows of every feed each device got in the last step."""
        return next((recipe.rows for recipe, _ in self._latest.values()), {})

    # Temporaries

    def _count(self) -> None:
        """Drop temporaries every so many runs (X-50)."""
        self.iteration += 1
        if self.iteration == self.execution.num_iteration_per_drop_scope:
            self.drop("interval")

    def drop(self, cause: str = "call") -> int:
        """Give the memory of temporaries back to the system (X-51, X-52), when no step is running.

        A signal handler or an observer that asks in the middle of a step gets it at the end of the step.

        Returns:
            bytes given back; 0 if that is yet to come.
        """
        with self._alone():
            if (running := self._in_mid_step()) is not None:
                running._drop_for = cause
                return 0
            return self._drop(cause)

    def _drop(self, cause: str) -> int:
        self.iteration, self.last = 0, None
        freed = dict.fromkeys(range(len(self.places)), 0)
        self._release(freed)
        for part in self.parts.values():
            part._release(freed)
        self.reporter.dropped(self.steps, freed, cause)
        self.reporter.memory(self.steps, self.arenas)
        return sum(freed.values())

    def _release(self, freed: dict[int, int]) -> None:
        for binding in self._bindings.values():
            binding.forget()
        for place, arena in self.arenas.items():
            freed[place] += arena.release()


def refuse_in_mid_step(scope: Scope) -> None:
    """For what changes values of a scope and is no step of an engine, such as a startup program.

    Raises:
        PreconditionNotMet: in the middle of a step of this thread, in a signal handler or a finalizer.
    """
    if scope.root.lock._is_owned() and any(_mid_steps(sys._getframe(1), scope)):
        raise _in_the_middle()


def _in_the_middle() -> PreconditionNotMet:
    return PreconditionNotMet(
        "a step on the values of this scope is under way in this thread; a signal handler, a finalizer or a schedule "
        "cannot run a program that changes them in the middle of it"
    )


def _mid_steps(frame: FrameType | None, scope: Scope) -> Iterator[Engine]:
    """The engines on values of a scope in whose steps a frame is, if these have not been applied yet.

    A signal can leave `busy` behind; then no frame is within a step.
    """
    while frame is not None:
        if frame.f_code is Engine.run.__code__:
            engine = frame.f_locals["self"]
            if engine.whole.busy and not engine.applied and engine.scope.root is scope.root:
                yield engine
        frame = frame.f_back


def snapshot(program: Program) -> Program:
    """A copy of a program that later changes do not reach, but for learning rates, which the user steps (X-3)."""
    made = program.clone()
    made.lr_schedulers, made.copied = program.lr_schedulers, program.uid
    return made


def _nothing(fetches: Sequence[str]) -> list[Any]:
    if fetches:
        raise InvalidArgument(f"fetch {fetches[0]!r}: with ExecutionStrategy._dry_run no op runs; fetch_list=[] works")
    return []


def _draws(op: Operator) -> bool:
    return "rng" in op.record.needs and not op.attrs.get("startup") and not op.attrs.get("is_test")
