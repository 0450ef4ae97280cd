"""Where the time of steps goes: a profile collects the events between start and stop and sums them up.

    with workbench.profiler.profile() as p:
        exe.run(...)
    print(p.table(by="mean"))
    p.export_chrome_trace("steps.json")

Ops that compiled kernels run as one are one line, with their types joined by "+"; the time is that of all of them.
Waiting is no part of it.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Literal, TypeVar

from workbench.errors import InvalidArgument, PreconditionNotMet, one_of
from workbench.events import Collective, Event, OpInfo, OpRun, Step, Subscription, Wait, subscribe
from workbench.executors.chrome import write_trace
from workbench.framework.site import Site
from workbench.framework.values.place import Place

By = Literal["total", "mean", "median", "max", "calls"]
K = TypeVar("K", bound=Event)


@dataclass(slots=True)
class Line:
    """What is summed up in one line of the table. Times are in seconds.

    Attributes:
        share: of the time of all ops together, 0 … 1.
        executor, place, site, outputs: of a single op; empty and None for an op type or a layer.
    """

    name: str
    calls: int = 0
    total: float = 0.0
    max: float = 0.0
    share: float = 0.0
    executor: str = ""
    place: Place | None = None
    site: Site | None = None
    outputs: tuple[str, ...] = ()
    _seconds: list[float] = field(default_factory=list, repr=False, compare=False)

    @property
    def mean(self) -> float:
        """Of one call."""
        return self.total / self.calls

    @property
    def median(self) -> float:
        """Of one call: what outliers do not disturb."""
        return median(self._seconds)

    @property
    def spread(self) -> tuple[float, float]:
        """Between these lies the middle half of the calls."""
        return spread(self._seconds)

    def add(self, nanoseconds: int) -> None:
        """Count a call."""
        seconds = nanoseconds / 1e9
        self._seconds.append(seconds)
        self.calls += 1
        self.total += seconds
        self.max = max(self.max, seconds)


@dataclass(slots=True)
class Traffic:
    """The collectives of one kind. Seconds and bytes.

    Attributes:
        total, max: of their own time. waited: by the first device for the last one, all together.
    """

    kind: str
    calls: int = 0
    nbytes: int = 0
    total: float = 0.0
    max: float = 0.0
    waited: float = 0.0


@dataclass(frozen=True, slots=True)
class ThreadTime:
    """What one thread did during the steps, in seconds; `idle` is what is left, our own code among it."""

    executor: str
    thread: int
    busy: float
    waiting: float
    idle: float


class Profile:
    """Collects events from `start` to `stop`, or inside a `with` body.

    Args:
        kinds: kinds of events (classes of `workbench.events`); everything if none is given. Without `OpRun` ops are
            not timed one by one, which costs time.
        limit: events that are kept; older ones are dropped, and the table says how many.

    Raises:
        InvalidType: no kinds of events. InvalidArgument: limit below 1.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> loss = wb.mean(static.nn.fc(x, 2))
        >>> executor = static.Executor()
        >>> startup = executor.run(static.default_startup_program())
        >>> program = static.CompiledProgram(static.default_main_program())
        >>> parallel = program.with_data_parallel(places=static.cpu_places(2))
        >>> with wb.profiler.profile() as profile:
        ...     losses = executor.run(parallel, feed={"x": np.ones((6, 4), np.float32)}, fetch_list=[loss])
    """

    def __init__(self, *kinds: type[Event], limit: int = 1_000_000) -> None:
        if limit < 1:
            raise InvalidArgument(f"limit is the number of events kept, at least 1, got {limit}")
        self.kinds = kinds
        self.dropped = 0
        self._events: deque[Event] = deque(maxlen=limit)
        self._lock = threading.Lock()  # steps of several executors may end at the same time
        self._subscription: Subscription | None = None

    def start(self) -> None:
        """Begin anew: what was collected before is forgotten.

        Raises:
            PreconditionNotMet: it has been started already.
        """
        if self._subscription is not None:
            raise PreconditionNotMet("the profile is running; stop() it before it is started again")
        self._events.clear()
        self.dropped = 0
        self.go_on()

    def go_on(self) -> None:
        """Collect what is told from now on, too."""
        if self._subscription is None:
            self._subscription = subscribe(self._take, *self.kinds)

    def stop(self) -> None:
        """Collect no more. Stopping twice is fine."""
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None

    def __enter__(self) -> Profile:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def _take(self, event: Event) -> None:
        with self._lock:
            self.dropped += len(self._events) == self._events.maxlen
            self._events.append(event)

    @property
    def events(self) -> tuple[Event, ...]:
        """What has been collected, in the order it was told."""
        with self._lock:
            return tuple(self._events)

    # Sums

    def op_types(self, by: By = "total") -> list[Line]:
        """One line per op type, all devices together, the largest first.

        Raises:
            InvalidArgument: an unknown `by`.
        """
        return op_types(self.events, by)

    def ops(self, by: By = "total") -> list[Line]:
        """One line per op and device, the largest first.

        Raises:
            InvalidArgument: an unknown `by`.
        """
        return single_ops(self.events, by)

    def layers(self, by: By = "total") -> list[Line]:
        """One line per layer, all devices together, the largest first; its calls are steps.

        Raises:
            InvalidArgument: an unknown `by`.
        """
        return layers(self.events, by)

    def collectives(self) -> list[Traffic]:
        """One entry per kind, the slowest first."""
        return traffic(self.events)

    def threads(self) -> list[ThreadTime]:
        """One entry per executor and thread that ran an op."""
        return thread_times(self.events)

    # For people

    def table(self, n: int = 20, by: By = "total") -> str:
        """The slowest op types and ops, and the totals of everything else, as text.

        Args:
            n: at most so many lines per list.
            by: what they are sorted by: total, mean, median or max time, or calls.

        Raises:
            InvalidArgument: n below 1 or an unknown `by`.
        """
        from workbench.executors.profile_table import table  # it knows this file

        return table(self.events, n, by, self.dropped)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the timeline as JSON, for https://ui.perfetto.dev and chrome://tracing.

        Raises:
            InvalidArgument: `path` is a folder. OSError: it cannot be written; a file that was there is unchanged.
        """
        write_trace(path, self.events)


def of_kind(events: Iterable[Event], kind: type[K]) -> list[K]:
    """The events of one kind."""
    return [e for e in events if isinstance(e, kind)]


def op_types(events: Iterable[Event], by: By = "total") -> list[Line]:
    """One line per op type."""
    lines: dict[str, Line] = {}
    for run in of_kind(events, OpRun):
        lines.setdefault(run.op.type, Line(run.op.type)).add(run.end - run.start)
    return _sorted(lines.values(), by)


def layers(events: Iterable[Event], by: By = "total") -> list[Line]:
    """One line per layer; its calls are steps."""
    return per_step(events, lambda op: op.layer, by)


def per_step(events: Iterable[Event], name: Callable[[OpInfo], str], by: By = "median") -> list[Line]:
    """One line per name, whose calls are steps: the time of all ops of that name in a step, all devices together.

    Args:
        name: of an op, such as its type or its layer.
    """
    sums: dict[str, dict[tuple[str, int], int]] = {}
    for run in of_kind(events, OpRun):
        steps = sums.setdefault(name(run.op), {})
        steps[run.executor, run.step] = steps.get((run.executor, run.step), 0) + run.end - run.start
    lines = {key: Line(key) for key in sums}
    for key, steps in sums.items():
        for lasted in steps.values():
            lines[key].add(lasted)
    return _sorted(lines.values(), by)


def spread(values: Sequence[float]) -> tuple[float, float]:
    """The first and the third quartile: between them lies the middle half."""
    if len(values) < 2:
        return values[0], values[0]
    first, _, third = quantiles(values, n=4, method="inclusive")
    return first, third


def single_ops(events: Iterable[Event], by: By = "total") -> list[Line]:
    """One line per op and device; an op of plans for other shapes has lines of its own."""
    lines: dict[tuple[str, OpInfo], Line] = {}
    known: dict[tuple[str, int], Line] = {}  # by identity: comparing what is known of an op takes longer
    for run in of_kind(events, OpRun):
        line = known.get((run.executor, id(run.op)))
        if line is None:
            line = lines.setdefault((run.executor, run.op), _line_of(run))
            known[run.executor, id(run.op)] = line
        line.add(run.end - run.start)
    return _sorted(lines.values(), by)


def _line_of(run: OpRun) -> Line:
    op = run.op
    outputs = tuple(f"{o.name}[{', '.join(map(str, o.shape))}]" for o in op.outputs)
    return Line(op.type, executor=run.executor, place=op.place, site=op.site, outputs=outputs)


def traffic(events: Iterable[Event]) -> list[Traffic]:
    """The collectives by kind."""
    found: dict[str, Traffic] = {}
    for event in of_kind(events, Collective):
        entry = found.setdefault(event.kind, Traffic(event.kind))
        entry.calls += 1
        entry.nbytes += event.nbytes
        entry.total += event.seconds
        entry.max = max(entry.max, event.seconds)
        entry.waited += max(event.waits, default=0) / 1e9
    return sorted(found.values(), key=lambda t: -t.total)


def thread_times(events: Sequence[Event]) -> list[ThreadTime]:
    """How long each thread worked and waited during the steps that were applied."""
    steps = {(s.executor, s.step): s for s in of_kind(events, Step)}
    busy = _time_within(steps, of_kind(events, OpRun) + of_kind(events, Collective))
    waiting = _time_within(steps, of_kind(events, Wait))
    lasted = {e: sum(s.end - s.start for s in steps.values() if s.executor == e) for e, _ in {**busy, **waiting}}
    found = []
    for e, t in sorted({**busy, **waiting}):
        worked, waited = busy.get((e, t), 0), waiting.get((e, t), 0)
        found.append(ThreadTime(e, t, worked / 1e9, waited / 1e9, (lasted[e] - worked - waited) / 1e9))
    return found


def _time_within(
    steps: Mapping[tuple[str, int], Step], timed: Sequence[OpRun | Collective | Wait]
) -> dict[tuple[str, int], int]:
    """By executor and thread the time these take of steps; what overlaps counts once."""
    spans: dict[tuple[str, int], dict[int, list[tuple[int, int]]]] = {}
    for event in timed:
        step = steps.get((event.executor, event.step))
        if step is not None:
            span = max(event.start, step.start), min(event.end, step.end)
            spans.setdefault((event.executor, event.thread), {}).setdefault(event.step, []).append(span)
    return {key: sum(covered(inside) for inside in own.values()) for key, own in spans.items()}


def covered(spans: Iterable[tuple[int, int]]) -> int:
    """The length of the union of intervals, some of which may be inside others."""
    total, reached = 0, None
    for start, end in sorted(spans):
        begin = start if reached is None else max(start, reached)
        total += max(end - begin, 0)
        reached = end if reached is None else max(end, reached)
    return total


_KEYS = {
    "total": lambda line: line.total,
    "mean": lambda line: line.mean,
    "median": lambda line: line.median,
    "max": lambda line: line.max,
    "calls": lambda line: line.calls,
}


def _sorted(lines: Iterable[Line], by: str) -> list[Line]:
    if by not in _KEYS:
        raise InvalidArgument(f"by is one of {one_of(_KEYS)}, got {by!r}")
    found = list(lines)
    everything = sum(line.total for line in found)
    for line in found:
        line.share = line.total / everything if everything else 0.0
    return sorted(found, key=_KEYS[by], reverse=True)
