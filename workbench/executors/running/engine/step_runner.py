"""The ways a step is run: as one call where that is possible, else phase by phase, plain or watched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter_ns
from typing import Any

from workbench import events
from workbench.config import FLAG_VALUES
from workbench.errors import Aborted
from workbench.events import LISTENERS
from workbench.executors.feeding.feed_plan import Fed
from workbench.executors.lowering.binding import Binding
from workbench.executors.lowering.operands import Declined
from workbench.executors.lowering.thread_program import ThreadProgram
from workbench.executors.replicas.replicas import Replicas
from workbench.executors.running.spec import EngineSpec
from workbench.executors.running.step.bound_step import BoundStep, LedPrograms
from workbench.executors.running.step.open_step import OpenStep
from workbench.executors.running.step.state import StepState
from workbench.executors.running.transaction import Broken, Fill, commit, load
from workbench.executors.running.watching.guards import Guards
from workbench.executors.running.watching.moment import moment_of
from workbench.executors.running.watching.report import Reporter
from workbench.executors.running.watching.watch import Watched
from workbench.executors.running.whole_step import WholeStep
from workbench.runtime.servers.standing import applied, exchanges_of
from workbench.runtime.storage.tensor import LoDTensor

StepFunction = Callable[[BoundStep, Fed, bool, bool], list[Any]]  # step, fed, return_numpy, merged
Way = Callable[[BoundStep, Fed, bool], StepFunction]  # step, fed, merged
BESIDE = frozenset((events.ScopeDrop, events.PlanCompiled, events.Error, events.Fetched))  # told of any step


class StepRunner:
    """Runs the steps of one engine, each from its binding and feed to its results.

    Args:
        draws: whether some op draws random numbers anew in every step.
        together: the step as other trainers see it, who have to agree before it is applied; None if nobody has to.
    """

    def __init__(
        self,
        spec: EngineSpec,
        replicas: Replicas,
        state: StepState,
        guards: Guards,
        reporter: Reporter,
        draws: bool,
        together: OpenStep | None,
    ) -> None:
        self._together = together
        self._spec, self._replicas, self._state = spec, replicas, state
        self._schedules = spec.program.lr_schedulers
        self._guards, self._reporter, self._draws = guards, reporter, draws
        self._exchanges = exchanges_of(spec.program)
        self._exchanged = applied(self._exchanges)

    def way(self, step: BoundStep, fed: Fed, merged: bool) -> StepFunction:
        """How a step is run: by a team where that is quicker, else in one call, if it takes the feed that way.

        Returns:
            what is called with (step, fed, return_numpy, merged).
        """
        whole, team = step.whole, step.team
        if step.is_open or (whole is not None and whole.is_open):
            self._put_in_order(step, whole)
        if team is not None:
            team.begin(perf_counter_ns())
            if team.together:
                return partial(self._in_parts, step.binding)
        if whole is not None and merged and (fed.plan is whole.recipe or whole.takes(fed)):
            return self._in_one_call
        return partial(self._in_parts, step.alone)

    def watched_way(self, step: BoundStep, fed: Fed, merged: bool) -> StepFunction:
        """The same while somebody listens, or looks for NaN."""
        asked = perf_counter_ns()
        is_told = not LISTENERS.keys() <= BESIDE and events.heard(self._reporter.name, BESIDE)
        if is_told or FLAG_VALUES["FLAGS_check_nan_inf"]:
            return partial(self._watched_step, asked)
        return self.way(step, fed, merged)

    def _in_parts(
        self, phases: Binding | Watched | LedPrograms, step: BoundStep, fed: Fed, return_numpy: bool, merged: bool
    ) -> list[Any]:
        """Load, speculate, fetch, commit.

        Args:
            phases: what is run: the binding's own programs, those of one thread, or others in their place.
        """
        if self._together is not None:
            self._together.prepare_vote()
        counters = self.load(step.binding, fed)
        if self._exchanges:
            self._speculate_and_exchange(step, phases.speculative, fed)
        else:
            try:
                step.speculate(phases.speculative)
            except Declined as declined:
                self._speculate_on_host(step, fed, declined)
        results, fills = step.collector.collect(return_numpy, merged)
        self._state.speculate()
        if self._guards.all and not step.telltales.are_finite():
            self._call_guards(step, fed)
        self.commit(step, phases.commit, counters, fills)
        if step.team is not None:
            step.team.end(perf_counter_ns())
        if merged and not (step.has_run or self._draws) and (step.team is None or not step.team.together):
            step.join(self._state.counter, None if self._together is None else self._together.ballot)
        return results

    def _watched_step(self, asked: int, step: BoundStep, fed: Fed, return_numpy: bool, merged: bool) -> list[Any]:
        """A step for those who listen, or look for NaN; they are told when it is over.

        Args:
            asked: when somebody asked whether they do. What is prepared for them since is not in the step's time.
        """
        state, reporter, binding = self._state, self._reporter, step.binding
        clock = events.listening(events.OpRun) or events.listening(events.Collective) or events.listening(events.Wait)
        finite = bool(FLAG_VALUES["FLAGS_check_nan_inf"])
        watched = step.watching.programs(clock, finite)
        stamps, number = watched.stamps, state.steps
        if stamps is not None:
            stamps.begin()
        begun = state.begun + perf_counter_ns() - max(asked, state.begun)
        try:
            if binding.is_native and not finite:
                return self.way(step, fed, merged)(step, fed, return_numpy, merged)
            if step.is_open or (step.whole is not None and step.whole.is_open):
                self._put_in_order(step, step.whole)
            return self._in_parts(watched, step, fed, return_numpy, merged)
        finally:
            end = perf_counter_ns()
            if stamps is not None:
                stamps.end()
            reporter.fed(number, begun, fed)
            if state.steps > number:
                if stamps is not None:
                    reporter.ran(number, begun, binding.plan, step.watching, stamps.spans())
                reporter.stepped(number, begun, end, fed)
                reporter.memory(number, binding.arenas)

    # Phase by phase

    def _speculate_on_host(self, step: BoundStep, fed: Fed, declined: Declined) -> None:
        """Run a step's operators again from the beginning, with those on the host that a device has declined."""
        rows = list(declined.rows)
        while True:
            load(step.binding, fed)
            try:
                step.speculate(step.binding.lowering.on_host(rows))
                return
            except Declined as again:  # numbers that those on the host have made
                rows += again.rows

    def _speculate_and_exchange(self, step: BoundStep, programs: Sequence[ThreadProgram], fed: Fed) -> None:
        """Run a step's operators, one of which pushes it to servers; guards look at it before."""
        raised: list[BaseException] = []

        def look() -> None:
            try:
                if self._guards.all and not step.telltales.are_pushed_finite():
                    self._call_guards(step, fed)
            except BaseException as error:
                raised.append(error)
                raise

        for exchange in self._exchanges:
            exchange.look = look
        try:
            step.speculate(programs)
        except Declined as declined:
            self._speculate_on_host(step, fed, declined)
        except Exception:
            if raised:
                raise raised[0] from None
            raise

    def load(self, binding: Binding, fed: Fed) -> list[LoDTensor]:
        """Put everything in place that a step reads.

        Returns:
            the counters it will move on.
        """
        load(binding, fed)
        if self._schedules:
            self._load_rates(binding)
        self._state.load()
        if self._draws:
            return self._counters(binding)
        if binding.draws.in_kernels:
            binding.draws.begin(())
        return []

    def commit(
        self, step: BoundStep, programs: Sequence[ThreadProgram], counters: Sequence[LoDTensor], fills: list[Fill]
    ) -> None:
        """Apply a step, see `transaction.commit`; with other trainers if all of them do."""
        apply = partial(self._commit, step, programs, counters, fills)
        together = self._together
        if together is None:
            apply()
            return
        try:
            together.agree(apply)
            apply()
        except BaseException as error:
            together.close(error)
            if not (isinstance(error, Aborted) and self._state.is_applied):  # what another one met came too late
                raise
        together.applied()

    def _commit(
        self, step: BoundStep, programs: Sequence[ThreadProgram], counters: Sequence[LoDTensor], fills: list[Fill]
    ) -> None:
        self._state.commit()
        try:
            commit(step.binding, programs, counters, [*fills, *self._exchanged, *self._state.applying(step)])
        except Broken as error:
            self._state.breaks(error)
            raise

    def _load_rates(self, binding: Binding) -> None:
        """The schedules' current learning rates (P-48)."""
        for name, scheduler in self._schedules.items():
            binding.fed_places.give(name, len(self._spec.places), scheduler())

    def _counters(self, binding: Binding) -> list[LoDTensor]:
        """The step counters of the random ops, one per device; those that no startup program has made begin at 0."""
        name, counters, drawn = self._spec.program.rng_step, [], []
        for place in range(binding.plan.graph.devices if name else 0):
            tensor = self._replicas.find(name, place)
            drawn.append(0 if tensor is None else int(tensor.array[0]))
            counters.append(self._replicas.make(name, place) if tensor is None else tensor)
        binding.draws.begin(drawn)
        return list({id(t): t for t in counters}.values())

    def _call_guards(self, step: BoundStep, fed: Fed) -> None:
        fetches = [name for name, _ in step.binding.plan.fetches]
        self._guards.call(lambda: moment_of(self._spec, self._replicas, self._state.steps, fetches, fed))

    # In one call

    def _in_one_call(self, step: BoundStep, fed: Fed, return_numpy: bool, merged: bool) -> list[Any]:
        """The step as one call; phase by phase where it comes upon something that kernels decline."""
        whole, state = step.whole, self._state
        assert whole is not None
        if self._schedules:
            self._load_rates(step.binding)
        if self._together is not None:
            self._together.prepare_vote(partial(self._commit, step, step.alone.commit, [], []))
        looking = bool(self._guards.all)
        if looking and not whole.has_telltales:
            whole.look_at(step.telltales.stretches)
        try:
            results = whole.run(fed, looking)
            if results is not None:
                state.apply(step)
            else:
                results = self._completed(step, whole, fed)
        except BaseException as error:
            if self._together is not None:
                self._together.close(error)
            self._put_in_order(step, whole if not state.is_applied else None)
            raise
        if results is None:
            return self._in_parts(step.alone, step, fed, return_numpy, merged)
        if self._together is not None:
            self._together.applied()
        if step.team is not None:
            step.team.end(perf_counter_ns())
        return results if return_numpy else list(map(LoDTensor, results))

    def _completed(self, step: BoundStep, whole: WholeStep, fed: Fed) -> list[Any] | None:
        """The results of a step whose call did not come to its end; None if it has done nothing."""
        results = None
        if not (whole.commits or whole.blemished or whole.is_shared):
            step.part()
        else:
            self._go_on(step, whole, fed)
            results = step.collector.collect(True, True)[0]
        step.reset()
        return results

    def _go_on(self, step: BoundStep, whole: WholeStep, fed: Fed) -> None:
        """Take a step that has stopped as one call to its end, phase by phase."""
        if whole.commits:
            self._state.speculate()
            self._commit(step, step.alone.commit, [], [])
            return
        step.speculate(step.alone.speculative)
        self._state.speculate()
        if whole.blemished or (self._guards.all and not step.telltales.are_finite()):
            self._call_guards(step, fed)
        self.commit(step, step.alone.commit, [], [])

    def _put_in_order(self, step: BoundStep, whole: WholeStep | None) -> None:
        """After a signal: a commit that has begun is taken to its end."""
        if whole is not None and whole.commits and self._state.broken is None:
            self._commit(step, step.alone.commit, [], [])
        step.reset()
