"""Sampled steps: not every step is watched, for that costs time, but one now and then, from feed to fetch."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from workbench import events
from workbench.executors.inspection.inspection import Inspection
from workbench.executors.planning.plan import Plan

Arrays: TypeAlias = tuple[Mapping[str, np.ndarray], ...]  # of a batch, by device

_TIMED = (events.OpRun, events.Wait, events.Collective)
_KINDS = (events.PlanCompiled, events.Feed, events.Batch, *_TIMED, events.Step)
_EVENT = 300  # bytes of a wait or a collective, with its names
_WARM = 7  # steps after one that a plan was made for: what steps are like, however few there are
_COPIED = 8 << 20  # bytes of a batch that are copied; a larger one is only held


@dataclass
class SampledStep:
    """What was told of one step.

    Attributes:
        step: told last; feed: what each device got; arrays: the same, per device by name.
        ops, waits, collectives: with their times. plan: what was run; compiled: if it had to be made first.
    """

    number: int
    feed: events.Feed | None = None
    arrays: Arrays = ()
    ops: list[events.OpRun] = field(default_factory=list)
    waits: list[events.Wait] = field(default_factory=list)
    collectives: list[events.Collective] = field(default_factory=list)
    step: events.Step | None = None
    plan: Plan | None = None
    compiled: events.PlanCompiled | None = None

    @property
    def start(self) -> int:
        """When the step began, in ns; the first op's start where a plan had to be made for it."""
        assert self.step is not None
        return self.step.start if self.compiled is None else min([r.start for r in self.ops], default=self.step.start)

    @property
    def seconds(self) -> float:
        """How long the step took, without making a plan."""
        assert self.step is not None
        return (self.step.end - self.start) / 1e9


class Told:
    """The events of a sampled step, kept small: what they say of an op is the plan's, for every step.

    Attributes:
        nbytes: about what is kept for this step alone.
    """

    def __init__(self, sampled: SampledStep) -> None:
        self._sampled = replace(sampled, arrays=(), ops=[], plan=None)
        self._ops = tuple(run.op for run in sampled.ops)
        times = [(run.thread, run.start, run.end) for run in sampled.ops]
        self._times = np.array(times, np.int64).reshape(-1, 3)
        self.nbytes = self._times.nbytes + 8 * len(times) + _EVENT * (len(sampled.waits) + len(sampled.collectives))

    def events(self) -> list[events.Event]:
        """As they were told, but for the batch."""
        sampled, step = self._sampled, self._sampled.step
        assert step is not None
        ops = [
            events.OpRun(step.executor, step.step, op, *times)
            for op, times in zip(self._ops, self._times.tolist(), strict=True)
        ]
        return [*([sampled.feed] if sampled.feed is not None else []), *ops, *sampled.waits, *sampled.collectives, step]


class SampledSteps:
    """Samples steps of one engine, one for every `ask`; of the first steps of a plan every other one of the next, too.

    Every other one: telling of a step leaves caches cold, so that the next one is not like the others.

    Args:
        warm: how many of the next ones. arrays_of: what is kept of a batch.
    """

    def __init__(
        self, engine: Inspection, warm: int = _WARM, arrays_of: Callable[[events.Batch], Arrays] | None = None
    ) -> None:
        self.engine, self._warm, self._arrays_of = engine, warm, arrays_of or _copied
        self.taken: deque[SampledStep] = deque(maxlen=1 + warm)
        self._lock = threading.RLock()  # re-entrant, as that of events is
        self._subscription: events.Subscription | None = None
        self._rest: events.Subscription | None = None  # over one step, then the next is sampled
        self._current: SampledStep | None = None
        self._more = 1 + warm

    @property
    def waiting(self) -> bool:
        """Whether the next step will be sampled."""
        return self._subscription is not None and not self._subscription.closed

    def ask(self) -> None:
        """Sample the next step."""
        with self._lock:
            if not self.waiting:
                self._current = None
                self._subscription = events.subscribe(self._take, *_KINDS, executor=self.engine.name)

    def close(self) -> None:
        """Sample no more."""
        with self._lock:
            for subscription in (self._subscription, self._rest):
                if subscription is not None:
                    subscription.close()

    def _take(self, event: Any) -> None:
        """On the thread of the step."""
        sampled = self._current
        if sampled is None or sampled.number != event.step:
            if isinstance(event, (*_TIMED, events.Step)):
                return  # it had begun before
            sampled = self._current = SampledStep(event.step)
        if isinstance(event, events.Batch):
            sampled.arrays = self._arrays_of(event)
        else:
            _TAKERS[type(event)](sampled, event)
        if sampled.step is not None:
            sampled.plan = self.engine.last.plan if self.engine.last is not None else None
            self.taken.append(sampled)
            self._go_on(sampled.compiled is not None)

    def _go_on(self, compiled: bool) -> None:
        """A step has been sampled: what of the next ones?"""
        self._more = self._warm if compiled else self._more - 1
        with self._lock:
            if self._subscription is None or self._subscription.closed or (compiled and self._more > 0):
                return
            self._subscription.close()
            if self._more > 0 and (self._rest is None or self._rest.closed):
                self._rest = events.subscribe(self._rested, events.Step, executor=self.engine.name)

    def _rested(self, event: Any) -> None:
        with self._lock:
            if self._rest is not None and not self._rest.closed:
                self._rest.close()
                self.ask()


class EarlyStep:
    """Samples one early step of an engine, and no other: not the first one, for which a plan is made and memory bound.

    Whoever looks at a run once it has ended finds in it what its steps were like.
    """

    def __init__(self, engine: Inspection) -> None:
        self._steps = SampledSteps(engine, warm=0, arrays_of=_copied_if_small)
        self._first: events.Subscription | None = None

    def begin(self) -> None:
        """The first step comes next. Nobody listens before: what is never run costs others nothing."""
        self._first = events.subscribe(self._made, events.Step, executor=self._steps.engine.name)

    @property
    def sampled(self) -> SampledStep | None:
        """The step; None until it has been made. Of a large batch the arrays are not kept."""
        return self._steps.taken[-1] if self._steps.taken else None

    @property
    def waiting(self) -> bool:
        """Whether the next step will be sampled."""
        return self._steps.waiting

    def close(self) -> None:
        """Sample no more."""
        if self._first is not None:
            self._first.close()
        self._steps.close()

    def _made(self, event: events.Step) -> None:
        if self._first is not None and not self._first.closed:
            self._first.close()
            self._steps.ask()


def _copied(event: events.Batch) -> Arrays:
    """The user may fill the same arrays again for the next step; large ones are held all the same."""
    return _copied_if_small(event) or tuple(dict(arrays) for arrays in event.arrays)


def _copied_if_small(event: events.Batch) -> Arrays:
    if sum(array.nbytes for arrays in event.arrays for array in arrays.values()) > _COPIED:
        return ()
    return tuple({name: np.array(array) for name, array in arrays.items()} for arrays in event.arrays)


_TAKERS: Mapping[type[events.Event], Any] = {
    events.PlanCompiled: lambda sampled, event: setattr(sampled, "compiled", event),
    events.Feed: lambda sampled, event: setattr(sampled, "feed", event),
    events.OpRun: lambda sampled, event: sampled.ops.append(event),
    events.Wait: lambda sampled, event: sampled.waits.append(event),
    events.Collective: lambda sampled, event: sampled.collectives.append(event),
    events.Step: lambda sampled, event: setattr(sampled, "step", event),
}
