"""The engine behind every executor: a program on one device or several, step by step.

program -> check -> SSA graph -> passes -> check -> plan -> binding      made when first needed, and kept (`StepCache`)
feed -> split over the devices -> calls -> commit -> fetch -> merge      every step (`StepRunner`)
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter_ns
from typing import Any, NamedTuple

from workbench import between
from workbench.config import FLAG_VALUES
from workbench.errors import InvalidArgument, Unimplemented
from workbench.events import LISTENERS, Fetched
from workbench.executors.feeding.feed_notes import note_feed
from workbench.executors.feeding.feed_plan import Fed
from workbench.executors.feeding.split import Splitter
from workbench.executors.planning.cache import Cache
from workbench.executors.replicas.replicas import Replicas
from workbench.executors.running.engine.by_hand import StepByHand
from workbench.executors.running.engine.readable import ReadableEngine
from workbench.executors.running.engine.step_runner import StepRunner, Way
from workbench.executors.running.finding.compiler import Compiler
from workbench.executors.running.finding.step_cache import StepCache
from workbench.executors.running.finding.workspace import Workspace
from workbench.executors.running.spec import EngineSpec, between_trainers
from workbench.executors.running.step.bound_step import BoundStep
from workbench.executors.running.step.boundary import require_boundary, require_place_in
from workbench.executors.running.step.open_step import OpenStep
from workbench.executors.running.step.state import StepState, is_mid_step
from workbench.executors.running.trainers import Trainers, group_of, has_others
from workbench.executors.running.watching.guards import Guards
from workbench.executors.running.watching.moment import Guard
from workbench.executors.running.watching.report import Reporter
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.reading.order import feeds_of
from workbench.graph.settings import Settings
from workbench.runtime.collector import collector_paused
from workbench.runtime.comm.mpi.group import ProcessGroup
from workbench.runtime.ending import require_time, the_end
from workbench.runtime.storage.scope import Scope

_PRUNED = 16  # engines for pruned programs
_numbers = itertools.count(1)


class Listed(NamedTuple):
    """Updates in a fetch list, the operators copied from them in the snapshot, and whether there are others."""

    ops: Sequence[Operator]
    copies: Sequence[Operator]
    leaves_out: bool


class Engine(ReadableEngine):
    """A snapshot of a program on a list of devices.

    Args:
        scope: of device 0. shares: an engine whose devices' values are used, in its scope (X-5, X-25).
        whole: the engine this one runs a pruned program of, on the same devices and their values (C-7).

    Attributes:
        state: where the step is, of the whole and its pruned programs. guards: who is told of a NaN in any of them.
        trainers: who trains together with this process; None if nobody does. open_step: the step they are at or were,
            of the whole.
        started: whether strategies are settled, and there are what follows: `replicas`, the devices' scopes; `cache`,
            what steps run; `workspace`, where they do, which pruned programs share with the whole.
        pruned, listed: what `running.pruned` has found out: engines of pruned programs, and updates in fetch lists.
        unneeded: what may be fed to a pruned program, and is left out.
        newest_feed: number and feed of the newest step of the whole and its pruned programs, for whoever comes later
            and wants to see it; None before the first. The arrays are the caller's.
    """

    def __init__(
        self, spec: EngineSpec, scope: Scope, shares: Engine | None = None, whole: Engine | None = None
    ) -> None:
        self.number, self.spec, self.shares = next(_numbers), spec, shares
        self.whole: Engine = self if whole is None else whole
        self.scope: Scope = scope if shares is None else shares.scope
        self._root = self.scope.root
        self.state: StepState = StepState() if whole is None else whole.state
        self.guards: Guards = Guards() if whole is None else whole.guards
        self.reporter = Reporter(f"executor {self.number}", spec.places)
        self.newest_feed: tuple[int, Fed] | None = None
        self.trainers: Trainers | None = None
        self.open_step: OpenStep | None = None
        self.started = False
        self._execution = spec.execution
        self.pruned: Cache[Engine] = Cache(_PRUNED)
        self.listed: Cache[Listed] = Cache(_PRUNED)
        self.unneeded = _names_in(self.whole.program) - _names_in(spec.program)
        self._iteration = 0
        self._is_dropping = False
        self.workspace: Workspace
        self.replicas: Replicas
        self.cache: StepCache
        self._splitter: Splitter
        self._compiler: Compiler
        self._runner: StepRunner
        self._together: OpenStep | None

    # Compiling

    def start(self) -> None:
        """What happens once, at the first run: strategies are settled, the program checked, scopes made."""
        if self.started:
            return
        spec = self.spec = between_trainers(self.spec)
        count = len(spec.places)
        group = group_of(spec.build, spec.execution.timeout)
        settings = spec.build.freeze(count, process_group=group is not None)
        spec.execution.settle(count, use_cuda=spec.places[0].kind == "gpu")
        self._check_sharer()
        if self.whole is self:
            self.workspace = Workspace(spec.places, spec.execution.timeout)
            self.replicas = Replicas(self.scope, count, self.shares.replicas if self.shares else None)
        else:
            self.whole.start()
            self.workspace, self.replicas = self.whole.workspace, self.whole.replicas
        draws = any(op.draws for op in spec.program.all_ops())
        separable = spec.is_separable(settings.sync_batch_norm)
        self._compiler = Compiler(
            spec.program, spec.places, settings, spec.execution, spec.data_parallel,
            self.workspace.target, spec.execution.num_threads if group is None else group.processors,
        )  # fmt: skip
        reads = feeds_of(spec.program.global_block())
        self._splitter = Splitter(spec.program, spec.places, spec.execution.feed_split, separable, reads, self.unneeded)
        if group is not None and not separable:
            self.trainers = self._joined(group, settings)
        self.cache = StepCache(
            self.number, self.workspace, spec, settings, self._compiler, self.replicas, self.state, not separable,
            self._one_copy, self.reporter, self.trainers,
        )  # fmt: skip
        together = self._together = None if self.trainers is None else OpenStep(self.trainers, self.state)
        self._runner = StepRunner(spec, self.replicas, self.state, self.guards, self.reporter, draws, together)
        self.started = True
        the_end.ends_executor(self)

    def _joined(self, group: ProcessGroup, settings: Settings) -> Trainers:
        """The trainers of the program, of which pruned ones are parts."""
        if self.whole is not self and self.whole.trainers is not None:
            return self.whole.trainers
        trainers = Trainers(group, self.spec, settings)
        workspace = weakref.ref(self.workspace)  # a group is there for longer
        trainers.stop_when(lambda: (there := workspace()) is not None and there.pool.failed)
        return trainers

    def part(self, program: Program) -> Engine:
        """An engine for the program pruned; the devices and their values are the same (C-7)."""
        return Engine(replace(self.spec, program=program), self.scope, whole=self.whole)

    def _check_sharer(self) -> None:
        """X-5."""
        if self.shares is None:
            return
        if not self.shares.started:
            raise InvalidArgument("share_vars_from has to run once before the executor that shares its variables")
        self.spec.require_as_many_devices(self.shares.spec)

    def shared_variables(self) -> set[str]:
        """What all devices have one copy of (X-23); the engine is started to find out."""
        self.start()
        return self._one_copy(self.graph(()))

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
        state, root, whole = self.state, self._root, self.whole
        if root.step is not None and is_mid_step(root):
            require_place_in(root.step, state, self.spec.program, feed)
        with root.in_use(self._execution.timeout):
            around = root.step
            if whole.open_step is not None and around is None:
                whole.open_step.close()
            outer = None if around is None else state.at
            try:
                root.step = state
                state.begin(begun)
                results = self._run(feed, fetches, return_numpy, merged)
                state.end(outer)
                if Fetched in LISTENERS:
                    self.reporter.fetched(state.steps - 1, fetches, results)
            except BaseException as error:
                try:
                    if whole.open_step is not None:
                        whole.open_step.close(error)
                finally:
                    is_applied = state.is_applied
                    state.end(outer)
                    if not is_applied:
                        self.reporter.failed(state.steps, error)
                raise
            finally:
                root.step = around
                if state.drop_for and (whole.open_step is None or not whole.open_step.is_open):
                    whole._drop(state.dropped())
            return results

    def _run(self, feed: Any, fetches: Sequence[str], return_numpy: bool, merged: bool) -> list[Any]:
        if the_end.has_come or self.state.broken is not None or not self.started or self.workspace.pool.lost:
            self._get_ready()
        if self._together is not None:
            self.whole.open_step = self._together
            self._together.begin(self.replicas, 0 if self._execution._dry_run else self._execution.iterations)
        fed = feed if type(feed) is Fed else self._splitter.split(feed)
        self.whole.newest_feed = self.state.counter.item(), fed  # its `steps` would be a call more
        try:
            step = self.cache.find(fetches, fed)
            if self._execution._dry_run:
                return _nothing(fetches)
            way = self._runner.watched_way if LISTENERS or FLAG_VALUES["FLAGS_check_nan_inf"] else self._runner.way
            try:
                if self._execution.num_iteration_per_run > 1:
                    self._repeat(way, step, fed, return_numpy, merged)
                return way(step, fed, merged)(step, fed, return_numpy, merged)
            finally:
                self.whole._count()
        except Exception as error:
            if not self.state.is_applied:
                self.whole.newest_feed = self.state.steps, fed  # the first of `num_iteration_per_run` was noted
            if isinstance(error, InvalidArgument):
                note_feed(error, self.spec.program, fed)
            raise

    def _repeat(self, way: Way, step: BoundStep, fed: Fed, return_numpy: bool, merged: bool) -> None:
        """All steps but the last of as many as `ExecutionStrategy.iterations` asks for."""
        for _ in range(self._execution.iterations - 1):
            way(step, fed, merged)(step, fed, return_numpy, merged)
            self.state.begin(perf_counter_ns())

    def move_to(self, scope: Scope) -> None:
        """Work in another scope, before the first step and unless the values of another engine are used."""
        if not self.started and self.shares is None:
            self.scope, self._root = scope, scope.root

    def prepare(self, feed: Any) -> Fed:
        """What a feed gives each device; the first time the engine is started.

        Raises:
            PreconditionNotMet: a commit could not be finished. InvalidArgument: the feed is not what the program takes.
            Unavailable: the process is ending.
        """
        self._get_ready()
        return self._splitter.split(feed)

    def _get_ready(self) -> None:
        if the_end.has_come:
            require_time()
        self.state.require_unbroken()
        if not self.started:
            with collector_paused():
                self.start()
        if self.workspace.pool.lost:
            self.workspace.abandon()
            self.state.forget()

    def end(self, seconds: float) -> None:
        """The process ends: stop a step of another thread at its next row, and wait at most so long for that."""
        self.workspace.pool.failed = True
        self.scope.come_to_rest(seconds)

    def guard(self, guard: Guard) -> Callable[[], None]:
        """Have `guard(take)` called when a step that is about to be applied has a NaN or an Inf in it.

        What is looked at: see `telltales`. It is called on the thread of the step; `take()` copies what the step began
        with. If it raises, the step is not applied, and `run` raises that.

        Returns:
            what takes it away again.
        """
        return self.guards.add(guard)

    def by_hand(self, fetches: Sequence[str], fed: Fed) -> StepByHand:
        """A step on the observed plan, loaded and not run; nobody may run meanwhile.

        Raises:
            PreconditionNotMet: in the middle of another step of this thread, in a signal handler or a finaliser.
            Unimplemented: see `require_alone`.
        """
        require_boundary(self._root, self.state)
        self.require_alone()
        step = self.cache.step(fetches, fed, observed=True)
        return StepByHand(step, fed, self._runner, self._root, self.state, self.whole._count)

    def require_alone(self) -> None:
        """Refuse what other trainers would wait for; waits for none of them.

        Raises:
            Unimplemented: there are others.
        """
        spec = self.spec if self.started else between_trainers(self.spec)
        if not has_others(spec.build) or spec.is_separable(bool(spec.build.sync_batch_norm)):
            return
        devices = len(spec.places) * spec.build.trainers
        raise Unimplemented(
            f"a stepper does not run steps of {spec.build.trainers} trainers, which would wait for each "
            f"other; one process with {devices} devices computes the same step, bit for bit: leave num_trainers "
            f"out of its BuildStrategy, and give it CPU_NUM={devices} and the batches of all trainers"
        )

    def _alone(self) -> Any:
        """One step of a scope at a time."""
        return self.scope.in_use(self._execution.timeout)

    # Temporaries

    def _count(self) -> None:
        """Drop temporaries every so many runs (X-50)."""
        self._iteration += 1
        if self._iteration == self._execution.num_iteration_per_drop_scope:
            self.drop("interval")

    def drop(self, cause: str = "call") -> int:
        """Give the memory of temporaries back to the system (X-51, X-52), when no step is running.

        A signal handler or an observer that asks in the middle of a step gets it at the end of the step; who asks when
        they are being dropped, because of what is told of that, gets nothing more.

        Returns:
            bytes given back; 0 if that is yet to come, or under way.
        """
        root, state = self._root, self.state
        if root.step is state and is_mid_step(root):
            state.drop_at_the_end(cause)
            return 0
        with self._alone():
            if self._is_dropping:
                return 0
            if self.whole.open_step is not None:
                self.whole.open_step.close()
            return self._drop(cause)

    def _drop(self, cause: str) -> int:
        self._iteration = 0
        self.state.forget()
        freed = dict.fromkeys(range(len(self.spec.places)), 0)
        self._is_dropping = True
        try:
            if self.started:
                self.workspace.release(freed)
            self.reporter.dropped(self.state.steps, freed, cause)
            self.reporter.memory(self.state.steps, dict(self.workspace.arenas) if self.started else {})
        finally:
            self._is_dropping = False
        return sum(freed.values())


def _names_in(program: Program) -> frozenset[str]:
    return frozenset(program.global_block().vars)


def _nothing(fetches: Sequence[str]) -> list[Any]:
    if fetches:
        raise InvalidArgument(f"fetch {fetches[0]!r}: with ExecutionStrategy._dry_run no op runs; fetch_list=[] works")
    return []
