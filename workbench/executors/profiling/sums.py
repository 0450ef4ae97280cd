"""Spans of time summed up: by op, by op type, by layer, by step, by thread.

Ops that compiled kernels run as one are one line, with their types joined by "+"; the time is that of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Literal, TypeVar

from workbench.errors import InvalidArgument, one_of
from workbench.events import Collective, Event, OpInfo, OpRun, Step, Wait
from workbench.framework.site import Site
from workbench.framework.values.place import Place

By = Literal["total", "mean", "median", "max", "calls"]
K = TypeVar("K", bound=Event)
Shares = Iterable[tuple[str, float]]  # names, and parts of 1


@dataclass(slots=True)
class ProfileLine:
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

    def add(self, nanoseconds: float) -> None:
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


def of_kind(events: Iterable[Event], kind: type[K]) -> list[K]:
    """The events of one kind."""
    return [e for e in events if isinstance(e, kind)]


def op_types(events: Iterable[Event], by: By = "total") -> list[ProfileLine]:
    """One line per op type."""
    lines: dict[str, ProfileLine] = {}
    for run, lasted in calls(events):
        lines.setdefault(run.op.type, ProfileLine(run.op.type)).add(lasted)
    return _sorted(lines.values(), by)


def layers(events: Iterable[Event], by: By = "total") -> list[ProfileLine]:
    """One line per layer; its calls are steps. What updates parameters of several is shared among them."""
    return per_step(events, lambda op: op.shares or ((op.layer, 1.0),), by)


def per_step(events: Iterable[Event], shares: Callable[[OpInfo], Shares], by: By = "median") -> list[ProfileLine]:
    """One line per name, whose calls are steps: the time of all ops of that name in a step, all devices together.

    Args:
        shares: the names of an op, such as its type or its layers, each with its part of the time.
    """
    sums: dict[str, dict[tuple[str, int], float]] = {}
    for run, lasted in calls(events):
        for name, share in shares(run.op):
            steps = sums.setdefault(name, {})
            steps[run.executor, run.step] = steps.get((run.executor, run.step), 0) + share * lasted
    lines = {key: ProfileLine(key) for key in sums}
    for key, steps in sums.items():
        for nanoseconds in steps.values():
            lines[key].add(nanoseconds)
    return _sorted(lines.values(), by)


def spread(values: Sequence[float]) -> tuple[float, float]:
    """The first and the third quartile: between them lies the middle half."""
    if len(values) < 2:
        return values[0], values[0]
    first, _, third = quantiles(values, n=4, method="inclusive")
    return first, third


def single_ops(events: Iterable[Event], by: By = "total") -> list[ProfileLine]:
    """One line per op and device; an op of plans for other shapes has lines of its own."""
    lines: dict[tuple[str, OpInfo], ProfileLine] = {}
    known: dict[tuple[str, int], ProfileLine] = {}  # by identity: comparing what is known of an op takes longer
    for run, lasted in calls(events):
        line = known.get((run.executor, id(run.op)))
        if line is None:
            line = lines.setdefault((run.executor, run.op), _line_of(run))
            known[run.executor, id(run.op)] = line
        line.add(lasted)
    return _sorted(lines.values(), by)


def calls(events: Iterable[Event]) -> Iterator[tuple[OpRun, int]]:
    """The ops that ran, and ns: of one that several threads shared, those in which at least one of them was at it."""
    shared: dict[tuple[str, int, int], dict[int, list[OpRun]]] = {}
    for run in of_kind(events, OpRun):
        shared.setdefault((run.executor, run.step, id(run.op)), {}).setdefault(run.thread, []).append(run)
    for by_thread in shared.values():
        if len(by_thread) > 1:
            runs = [run for own in by_thread.values() for run in own]
            yield runs[0], covered((run.start, run.end) for run in runs)
            continue
        yield from ((run, run.end - run.start) for own in by_thread.values() for run in own)


def _line_of(run: OpRun) -> ProfileLine:
    op = run.op
    outputs = tuple(f"{o.name}[{', '.join(map(str, o.shape))}]" for o in op.outputs)
    return ProfileLine(op.type, executor=run.executor, place=op.place, site=op.site, outputs=outputs)


def traffic(events: Iterable[Event]) -> list[Traffic]:
    """The collectives by kind."""
    by_kind: dict[str, Traffic] = {}
    for event in of_kind(events, Collective):
        entry = by_kind.setdefault(event.kind, Traffic(event.kind))
        entry.calls += 1
        entry.nbytes += event.nbytes
        entry.total += event.seconds
        entry.max = max(entry.max, event.seconds)
        entry.waited += max(event.waits, default=0) / 1e9
    return sorted(by_kind.values(), key=lambda t: -t.total)


def thread_times(events: Sequence[Event]) -> list[ThreadTime]:
    """How long each thread worked and waited during the steps that were applied."""
    steps = {(s.executor, s.step): s for s in of_kind(events, Step)}
    busy = _time_within(steps, of_kind(events, OpRun) + of_kind(events, Collective))
    waiting = _time_within(steps, of_kind(events, Wait))
    lasted = {e: sum(s.end - s.start for s in steps.values() if s.executor == e) for e, _ in {**busy, **waiting}}
    times = []
    for e, t in sorted({**busy, **waiting}):
        worked, waited = busy.get((e, t), 0), waiting.get((e, t), 0)
        times.append(ThreadTime(e, t, worked / 1e9, waited / 1e9, (lasted[e] - worked - waited) / 1e9))
    return times


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


def _sorted(lines: Iterable[ProfileLine], by: str) -> list[ProfileLine]:
    if by not in _KEYS:
        raise InvalidArgument(f"by is one of {one_of(_KEYS)}, got {by!r}")
    listed = list(lines)
    everything = sum(line.total for line in listed)
    for line in listed:
        line.share = line.total / everything if everything else 0.0
    return sorted(listed, key=_KEYS[by], reverse=True)
