"""Watching one engine: its graph, samples of its steps, its memory, and what it fetches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from workbench import events
from workbench.errors import EnforceNotMet
from workbench.executors.inspection.inspection import Inspection
from workbench.executors.planning.shapes import Shapes
from workbench.executors.profiling.sampled_steps import SampledStep, SampledSteps
from workbench.experiments.launch.setup import loss_of
from workbench.experiments.runners import Inspectable
from workbench.graph.settings import ReduceStrategy
from workbench.graph.ssa import Graph
from workbench.graph.strategy import BuildStrategy
from workbench.notebook.dashboard.watching.graph_message import graph_message
from workbench.notebook.dashboard.watching.live_values import live_values, totals
from workbench.notebook.dashboard.watching.memory_trace import MemoryTrace, Past
from workbench.notebook.dashboard.watching.nan_message import LoopNaN
from workbench.notebook.dashboard.watching.previewed import graph_of, graph_with
from workbench.notebook.dashboard.watching.samples import Samples, fed_message, sample_of_last
from workbench.notebook.dashboard.watching.throttle import Throttle
from workbench.notebook.messages import Message, column

_SAMPLE_S = 0.3  # seconds between two sampled steps


class Watch:
    """Everything the dashboard knows of an engine.

    Args:
        title: of the graph. fetches: names that are fetched, as far as is known before a step.
        first: number of the first graph; every graph of a dashboard has another one.
        past: of the run that is watched, see `MemoryTrace`; early: the step of it that was sampled, if there is one.
    """

    unseen: str | None = None  # there will be feeds, memory and timeline

    def __init__(
        self,
        executor: Inspectable,
        title: str,
        fetches: Sequence[str],
        first: int,
        past: Callable[[], Past] | None = None,
        early: SampledStep | None = None,
    ) -> None:
        engine = executor.inspection
        self.executor, self.engine, self.title, self.fetches = executor, engine, title, list(fetches)
        self.sampled_steps, self.samples, self.memory = SampledSteps(engine), Samples(), MemoryTrace(engine, past)
        self.rows: list[tuple[float, ...]] = []
        self.error: events.Error | None = None
        self.graph_number = first
        plan = engine.last.plan if engine.last is not None else None
        self.graph: Graph = graph_of(engine, self.fetches) if plan is None else plan.graph
        self.shapes = Shapes(self.graph, {}) if plan is None else plan.shapes
        self._built, self._has_run = _build_of(self.graph), plan is not None
        self._totals: list[Message] | None = None
        self._throttle = Throttle(_SAMPLE_S)
        self._failures = events.subscribe(self._failed, events.Error, executor=engine.name)
        self.nan = LoopNaN(engine)
        self._dismiss = engine.guard(self.nan)
        self._fed_told = (-1, False)
        if early is not None:
            self._keep(early)
        self.sampled_steps.ask()

    def close(self) -> None:
        """Listen no more."""
        self.sampled_steps.close()
        self.memory.close()
        self._failures.close()
        self._dismiss()

    def _failed(self, event: events.Error) -> None:
        self.error = event

    def follow(self, goes_on: bool) -> tuple[bool, bool]:
        """Take over what has been told; whether the graph is another one, and whether a step has been looked at.

        Args:
            goes_on: there may be further steps, so that the next one is looked at when it is time.
        """
        before, looked = self.graph_number, False
        if self.sampled_steps.taken:
            looked = True
            with self._throttle.taking():
                self._take_over()
        if goes_on:
            self._look_again()
        else:
            self.sampled_steps.close()
        return self.graph_number != before, looked

    def _take_over(self) -> None:
        while self.sampled_steps.taken:
            self._keep(self.sampled_steps.taken.popleft())

    def _keep(self, sampled: SampledStep) -> None:
        self._see(sampled)
        self.samples.add(sampled, self.graph_number)
        self.rows.append((sampled.number + 1, *(sampled.step.feed_rows if sampled.step else ())))

    def what(self) -> str:
        """`2 devices, AllReduce`."""
        count = len(self.engine.places)
        return f"{count} device{'s' * (count != 1)}" + (f", {self.strategy}" if count > 1 else "")

    @property
    def devices(self) -> list[str]:
        """What the devices are called."""
        return [str(place) for place in self.engine.places]

    @property
    def strategy(self) -> str:
        """`AllReduce` or `Reduce`."""
        return strategy_of(self.engine)

    def steps(self) -> int:
        """How many have been applied."""
        return self.engine.steps

    def fetches_of_last(self) -> list[str]:
        """What the step that is shown fetched."""
        return list(self.graph.fetches)

    def sample_next(self) -> None:
        """Sample the next step, whenever it comes."""
        self.sampled_steps.ask()

    def can_drop(self) -> bool:
        """Whether there may be temporaries."""
        return self.engine.started

    def drop(self) -> int:
        """Drop them; returns how many bytes that were."""
        return self.executor.drop_temporaries()

    def prepare(self) -> None:
        """Work out, once, what `scopes_message` says of both strategies."""
        self._both()

    def memory_changed(self) -> bool:
        """Whether the memory held, or the number of drops, is another one than the last time."""
        return self.memory.follow()

    def _look_again(self) -> None:
        """Ask for the next sampled step."""
        if not self.sampled_steps.waiting and self._throttle.is_due():
            self.sampled_steps.ask()

    def _see(self, sampled: SampledStep) -> None:
        """Show what runs; a graph that is built the same way, for another batch size, is no other graph to the page."""
        plan = sampled.plan
        if plan is None or (plan.graph is self.graph and self._has_run):
            return
        built = _build_of(plan.graph)
        if built != self._built or not self._has_run:
            self.graph_number += 1
        self.graph, self.shapes, self._built, self._has_run = plan.graph, plan.shapes, built, True

    # Messages

    def graph_message(self) -> Message:
        """The message `graph`."""
        return graph_message(self.graph_number, self.title, self.graph, self.shapes)

    def sampled(self) -> list[Message]:
        """The messages `sample` and `samples`, once there is one."""
        last = self.samples.last
        if last is not None:
            return [{**last, "slowest": self.slowest()}, self.samples.message()]
        sample = sample_of_last(self.engine, self.graph_number) if self._has_run else None
        return [] if sample is None else [sample]

    def events_of(self, step: int | None = None) -> list[events.Event]:
        """What was told of a step; see `Samples.events_of`."""
        return self.samples.events_of(step)

    def newest_fed(self) -> Message | None:
        """The message `fed`: what the newest step was fed, if that step was not looked at; None if it was."""
        last = self.samples.last
        newest = self.engine.newest_feed
        if newest is None or (last is not None and last["step"] > newest[0]):
            return None
        return fed_message(self.engine, *newest, self.graph_number)

    def newest_batch(self) -> tuple[int, list[Mapping[str, np.ndarray]]] | None:
        """The newest step whose batch is known, from 1, and the batch of each device; None before the first."""
        sampled, newest = self.samples.newest, self.engine.newest_feed
        if newest is not None and (sampled is None or not sampled.arrays or newest[0] > sampled.number):
            return newest[0] + 1, list(newest[1].per_device)
        return None if sampled is None else (sampled.number + 1, list(sampled.arrays))

    def news_of_fed(self) -> Message | None:
        """The same, if it has not been told yet."""
        newest = self.engine.newest_feed
        told = (-1, False) if newest is None else (newest[0], newest[0] < self.engine.steps)
        if told == self._fed_told:  # asked in the middle of a step it is told again when the step has been applied
            return None
        self._fed_told = told
        return self.newest_fed()

    def sample_at(self, step: int) -> Message | None:
        """The message `sample` of a step that was looked at, or the last one before it."""
        sample = self.samples.at(step)
        return None if sample is None else {**sample, "slowest": self.slowest()}

    def slowest(self) -> Message | None:
        """The op that takes longest, by the steps that were looked at, and what comes after it."""
        return self.samples.slowest_message(self.graph_number, self.graph)

    def typical(self) -> Message | None:
        """The message `sample` of a step that took about as long as most; see `Samples.typical`."""
        sample = self.samples.typical(self.graph_number)
        return None if sample is None else {**sample, "slowest": self.slowest()}

    def scopes_message(self) -> Message:
        """The message `scopes`."""
        engine = self.engine
        return {
            "type": "scopes",
            "devices": [str(place) for place in engine.places],
            "strategy": strategy_of(engine),
            **self.memory.message(),
            "feeds": self._fed(),
            **live_values(engine),
            "totals": self._both(),
        }

    def _fed(self) -> Message:
        """Rows per device over the steps that were looked at, and of the newest one, looked at or not."""
        steps, last = self.steps(), next(iter(self.engine.last_rows.values()), ())
        is_newer = bool(last) and (not self.rows or self.rows[-1][0] < steps)
        kept = [*self.rows[-2000:], *([(steps, *last)] if is_newer else [])]
        devices = range(len(self.engine.places))
        return {
            "step": column([row[0] for row in kept], "float64"),
            "rows": [column([row[1 + d] if len(row) > 1 + d else 0 for row in kept], "float32") for d in devices],
        }

    def _both(self) -> list[Message]:
        """What this strategy makes of memory, and what the other would; worked out once."""
        if self._totals is None:
            own = strategy_of(self.engine)
            self._totals = [totals(own, self.graph)]
            other = ReduceStrategy.AllReduce if own == "Reduce" else ReduceStrategy.Reduce
            if len(self.engine.places) > 1 and loss_of(self.engine.program):
                self._totals += self._other(other)
        return self._totals

    def _other(self, strategy: ReduceStrategy) -> list[Message]:
        build = BuildStrategy()
        build.reduce_strategy = strategy
        engine = self.engine
        try:
            graph = graph_with(engine.program, engine.places, self.fetches, build, engine.execution)
        except EnforceNotMet:
            return []
        return [totals(strategy.name, graph)]


def strategy_of(engine: Inspection) -> str:
    """`AllReduce` or `Reduce`."""
    return ReduceStrategy(engine.build.reduce_strategy).name


def _build_of(graph: Graph) -> tuple[object, ...]:
    return graph.devices, tuple(graph.fetches), tuple(node.type for node in graph.nodes)
