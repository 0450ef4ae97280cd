"""The ways a step is run: as one call where that is possible, else phase by phase, plain or watched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter_ns
from typing import Any

from workbench import events
from workbench.config import get_flag
from workbench.events import LISTENERS
from workbench.executors.feeding.feed_plan import Fed
from workbench.executors.lowering.binding import Binding, ThreadProgram
from workbench.executors.replicas.replicas import Replicas
from workbench.executors.running.guards import Guards
from workbench.executors.running.moment import moment_of
from workbench.executors.running.report import Reporter
from workbench.executors.running.spec import EngineSpec
from workbench.executors.running.state import StepState
from workbench.executors.running.telltales import Telltales
from workbench.executors.running.transaction import Broken, Fill, commit, load, speculate
from workbench.executors.running.watch import Watched, watched
from workbench.executors.running.whole_step import WholeStep, whole_step
from workbench.runtime.tensor import LoDTensor

StepFunction = Callable[[Binding, Fed, bool, bool], list[Any]]
BESIDE = frozenset((events.ScopeDrop, events.PlanCompiled, events.Error, events.Fetched))  # told of any step


class StepRunner:
    """Runs the steps of one engine, each from its binding and feed to its results.

    Args:
        draws: whether some op draws random numbers anew in every step.
    """

    def __init__(
        self, spec: EngineSpec, replicas: Replicas, state: StepState, guards: Guards, reporter: Reporter, draws: bool
    ) -> None:
        self._spec, self._replicas, self._state = spec, replicas, state
        self._guards, self._reporter, self._draws = guards, reporter, draws

    def way(self) -> StepFunction:
        """How a step is run now; called with (binding, fed, return_numpy, merged)."""
        asked = perf_counter_ns() if LISTENERS else 0
        if LISTENERS and not LISTENERS.keys() <= BESIDE and events.heard(self._reporter.name, BESIDE):
            return partial(self._watched_step, asked)
        return partial(self._watched_step, asked) if get_flag("FLAGS_check_nan_inf") else self.step

    def step(
        self, binding: Binding, fed: Fed, return_numpy: bool, merged: bool, instead: Watched | None = None
    ) -> list[Any]:
        """Load, speculate, fetch, commit.

        Args:
            instead: what is run in place of the binding's own programs.
        """
        whole = binding.whole_step
        if binding.in_use:
            self._put_in_order(binding, whole)
        if whole is not None and merged and instead is None and whole.takes(fed, binding):
            fetched = self._in_one_call(binding, whole, fed)
            if fetched is not None:
                return fetched if return_numpy else list(map(LoDTensor, fetched))
        phases = binding if instead is None else instead
        counters = self.load(binding, fed)
        speculate(binding, phases.speculative)
        results, fills = binding.collector.collect(return_numpy, merged)
        self._state.speculate()
        if self._guards.all:
            self._look(binding, fed)
        self.commit(binding, phases.commit, counters, fills)
        if not binding.has_run and merged:
            binding.has_run = True
            binding.whole_step = None if self._draws else whole_step(binding, self._state.counter)
        return results

    def _watched_step(self, asked: int, binding: Binding, fed: Fed, return_numpy: bool, merged: bool) -> list[Any]:
        """The same for those who listen, or look for NaN; they are told when it is over.

        Args:
            asked: when somebody asked whether they do. What is prepared for them since is not in the step's time.
        """
        state, reporter = self._state, self._reporter
        clock = events.listening(events.OpRun) or events.listening(events.Collective) or events.listening(events.Wait)
        finite = bool(get_flag("FLAGS_check_nan_inf"))
        phases = watched(binding, clock, finite)
        stamps, number = phases.stamps, state.steps
        if stamps is not None:
            stamps.begin()
        begun = state.begun + perf_counter_ns() - max(asked, state.begun)
        try:
            return self.step(
                binding, fed, return_numpy, merged, None if binding.is_native and not finite else phases
            )  # fmt: skip
        finally:
            end = perf_counter_ns()
            if stamps is not None:
                stamps.end()
            reporter.fed(number, begun, fed)
            if state.steps > number:
                if stamps is not None:
                    reporter.ran(number, begun, binding, stamps.spans())
                reporter.stepped(number, begun, end, fed)
                reporter.memory(number, binding.arenas)

    # Phase by phase

    def load(self, binding: Binding, fed: Fed) -> list[LoDTensor]:
        """Put everything in place that a step reads.

        Returns:
            the counters it will move on.
        """
        load(binding, fed)
        self._load_rates(binding)
        self._state.load()
        counters = self._counters(binding)
        binding.draw()
        return counters

    def commit(
        self, binding: Binding, programs: Sequence[ThreadProgram], counters: Sequence[LoDTensor], fills: list[Fill]
    ) -> None:
        """Apply a step, see `transaction.commit`."""
        self._state.commit()
        try:
            commit(binding, programs, counters, [*fills, *self._state.applying(binding)])
        except Broken as error:
            self._state.breaks(error)
            raise

    def _load_rates(self, binding: Binding) -> None:
        """The schedules' current learning rates (P-48)."""
        for name, scheduler in self._spec.program.lr_schedulers.items():
            rate = scheduler()
            for place in range(binding.plan.graph.devices):
                binding.give_rate(name, place, rate)

    def _counters(self, binding: Binding) -> list[LoDTensor]:
        """The step counters of the random ops, one per device; those that no startup program has made begin at 0."""
        name, counters = self._spec.program.rng_step, []
        if not self._draws or not name:
            return []
        for runner in binding.runners:
            tensor = self._replicas.find(name, runner.place)
            runner.rng_step = 0 if tensor is None else int(tensor.array[0])
            counters.append(self._replicas.make(name, runner.place) if tensor is None else tensor)
        return list({id(t): t for t in counters}.values())

    def _look(self, binding: Binding, fed: Fed) -> None:
        """Call the guards if there is a NaN or an Inf in a step that is ready to be applied."""
        if not self._telltales(binding).are_finite():
            self._call_guards(binding, fed)

    def _telltales(self, binding: Binding) -> Telltales:
        if binding.telltales is None:
            binding.telltales = Telltales(binding, self._spec.loss_name)
        return binding.telltales

    def _call_guards(self, binding: Binding, fed: Fed) -> None:
        fetches = [name for name, _ in binding.plan.fetches]
        self._guards.call(lambda: moment_of(self._spec, self._replicas, self._state.steps, fetches, fed))

    # In one call

    def _in_one_call(self, binding: Binding, whole: WholeStep, fed: Fed) -> list[Any] | None:
        """The step as one call; None, and nothing done, if it cannot be: phase by phase it is done, or they say why."""
        state = self._state
        if self._spec.program.lr_schedulers:
            self._load_rates(binding)
        binding.in_use = True
        try:
            results = whole.run(fed, self._is_looked_at(binding, whole))
            if results is not None:
                state.apply(binding)
                binding.in_use = False
                return results
            if not whole.commits and not whole.blemished:
                binding.whole_step, binding.has_run = None, False
            else:
                state.speculate()
                if whole.blemished:
                    self._call_guards(binding, fed)
                self.commit(binding, binding.commit, [], [])
                results = binding.collector.collect(True, True)[0]
        except BaseException:
            self._put_in_order(binding, whole if not state.is_applied else None)
            raise
        binding.reset()
        return results

    def _is_looked_at(self, binding: Binding, whole: WholeStep) -> bool:
        """Whether somebody wants to know of a NaN or an Inf; the first time the call is told where to look."""
        if not self._guards.all:
            return False
        if not whole.looks:
            whole.look_at(self._telltales(binding).stretches)
        return True

    def _put_in_order(self, binding: Binding, whole: WholeStep | None) -> None:
        """After a signal: a commit that has begun is taken to its end."""
        if whole is not None and whole.commits and self._state.broken is None:
            self.commit(binding, binding.commit, [], [])
        binding.reset()
