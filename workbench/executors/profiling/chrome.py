"""Events as a timeline for Perfetto (https://ui.perfetto.dev) and chrome://tracing.

The file follows Google's *Trace Event Format*, JSON object form. One process per device, with a row per thread, a row
for collectives and counters for memory and fed rows; process "workbench" has a row per executor with its steps and
compilations. Times are microseconds since the first event, with three decimals.

The format wants slices of a row to lie inside each other or apart. Where they do not - all-reduces in flight together,
two callers sharing a thread number - the row gets further lanes.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from workbench.errors import InvalidArgument
from workbench.events import Collective, Error, Event, Feed, Memory, OpRun, PlanCompiled, ScopeDrop, Step, Wait
from workbench.framework.paths import path_text
from workbench.version import __version__

_HOST = "workbench"


class Slice(NamedTuple):
    """Something that takes time, on a row of a process; times in nanoseconds."""

    process: str
    row: str
    executor: str
    start: int
    end: int
    name: str
    category: str
    args: dict[str, Any]


class TraceMark(NamedTuple):
    """An instant (`ph` "i") or the new value of a counter (`ph` "C")."""

    process: str
    executor: str
    at: int
    name: str
    ph: str
    extra: dict[str, Any]


def write_trace(path: str | os.PathLike[str], events: Iterable[Event]) -> None:
    """Write the timeline of events to a JSON file; a reader finds the old file or the new one, whole.

    Raises:
        InvalidArgument: `path` is a folder. OSError: it cannot be written; a file that was there is unchanged.
    """
    target = Path(path_text(path))
    if target.is_dir():
        raise InvalidArgument(f"cannot write a trace to {target}: it is a folder")
    records = trace_events(events)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.parent / f".workbench-{secrets.token_hex(8)}.tmp"
    try:
        with open(temporary, "x", encoding="ascii") as file:
            file.write('{"displayTimeUnit": "ms", "otherData": ')
            file.write(_json({"producer": f"workbench {__version__}", "clock": "perf_counter"}))
            file.write(', "traceEvents": [\n')
            file.writelines(",\n" * (k > 0) + _json(event) for k, event in enumerate(records))
            file.write("\n]}\n")
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def trace_events(events: Iterable[Event]) -> list[dict[str, Any]]:
    """The entries of `traceEvents`: names of processes and rows first, then everything else in order of time."""
    slices, marks = _shown(events)
    origin = min([s.start for s in slices] + [m.at for m in marks], default=0)
    numbers = itertools.count(1)  # all different: some viewers take a tid for one thread, whatever its pid
    processes = sorted({s.process for s in slices} | {m.process for m in marks}, key=_order)
    pids = {process: next(numbers) for process in processes}
    rows = [(lane, next(numbers)) for lane in _lanes(slices)]
    timed = [_complete(s, pids[s.process], tid, origin) for lane, tid in rows for s in lane.slices]
    timed += [_mark(m, pids[m.process], origin) for m in marks]
    return [*_names(pids, rows), *sorted(timed, key=lambda e: e["ts"])]


def _shown(events: Iterable[Event]) -> tuple[list[Slice], list[TraceMark]]:
    """What is drawn; executors have rows and counters of their own where there are several."""
    shown = [one for event in events if type(event) in _VIEWS for one in _VIEWS[type(event)](event)]
    slices = [one for one in shown if isinstance(one, Slice)]
    marks = [one for one in shown if isinstance(one, TraceMark)]
    if len({one.executor for one in shown}) > 1:
        slices = [s._replace(row=f"{s.row}, {s.executor}") for s in slices]
        marks = [m._replace(name=f"{m.name}, {m.executor}") if m.ph == "C" else m for m in marks]
    return slices, marks


# What is drawn for an event


def _of_step(event: Step) -> Iterator[Slice]:
    args = {"step": event.step, "rows": dict(zip(map(str, event.places), event.feed_rows))}
    yield _on_host(event, f"step {event.step}", "step", args)


def _of_compilation(event: PlanCompiled) -> Iterator[Slice]:
    args = {"program": event.program, "nodes": event.nodes, "rows": event.rows, "cached plans": event.cached_plans}
    yield _on_host(event, "compile", "compile", {**args, "devices": list(map(str, event.places))})


def _on_host(event: Step | PlanCompiled, name: str, category: str, args: dict[str, Any]) -> Slice:
    args["executor"] = event.executor
    return Slice(_HOST, "steps", event.executor, event.start, event.end, name, category, args)


def _of_op(event: OpRun) -> Iterator[Slice]:
    op = event.op
    args: dict[str, Any] = {"step": event.step, "node": op.node, "executor": event.executor}
    if op.outputs:
        args["outputs"] = {o.name: f"{o.dtype}[{', '.join(map(str, o.shape))}]" for o in op.outputs}
        args["bytes"] = sum(o.nbytes for o in op.outputs)
    if op.ops:
        args["ops"] = list(op.ops)
    if op.site is not None:
        args["built at"] = str(op.site)
    row, category = f"thread {event.thread}", f"op,{op.role}"
    yield Slice(str(op.place), row, event.executor, event.start, event.end, op.type, category, args)


def _of_wait(event: Wait) -> Iterator[Slice]:
    args = {"step": event.step, "executor": event.executor, "for": list(event.awaited)}
    row = f"thread {event.thread}"
    yield Slice(str(event.place), row, event.executor, event.start, event.end, "wait", "wait", args)


def _of_collective(event: Collective) -> Iterator[Slice]:
    """Its own time; `args` say how long what each device contributes lay there before."""
    args = {"step": event.step, "names": list(event.names), "bytes": event.nbytes, "thread": event.thread}
    args |= {"executor": event.executor, "within ops": event.within_ops}
    if event.arrived:
        args["waited us"] = {str(place): wait / 1000 for place, wait in zip(event.places, event.waits)}
    span = event.start, event.end
    for place in event.places:
        yield Slice(str(place), "collectives", event.executor, *span, event.kind, "collective", args)


def _of_feed(event: Feed) -> Iterator[TraceMark]:
    for k, place in enumerate(event.places):
        rows = {name: counts[k] for name, counts in event.rows.items() if k < len(counts)}
        if rows:
            yield TraceMark(str(place), event.executor, event.at, "fed rows", "C", {"args": rows})


def _of_memory(event: Memory) -> Iterator[TraceMark]:
    args = {"args": {"bytes": event.nbytes}}
    yield TraceMark(str(event.place), event.executor, event.at, "memory of temporaries", "C", args)


def _of_drop(event: ScopeDrop) -> Iterator[TraceMark]:
    for place, nbytes in zip(event.places, event.nbytes):
        args = {"bytes": nbytes, "cause": event.cause, "step": event.step, "executor": event.executor}
        extra = {"s": "p", "cat": "scope drop", "args": args}
        yield TraceMark(str(place), event.executor, event.at, "scope drop", "i", extra)


def _of_error(event: Error) -> Iterator[TraceMark]:
    args: dict[str, Any] = {"text": event.text, "step": event.step, "executor": event.executor}
    if event.op is not None:
        args["op"] = event.op
    if event.site is not None:
        args["built at"] = str(event.site)
    process = _HOST if event.place is None else str(event.place)
    yield TraceMark(process, event.executor, event.at, "error", "i", {"s": "g", "cat": "error", "args": args})


_VIEWS: dict[type[Event], Callable[[Any], Iterator[Slice | TraceMark]]] = {
    Step: _of_step,
    PlanCompiled: _of_compilation,
    OpRun: _of_op,
    Wait: _of_wait,
    Collective: _of_collective,
    Feed: _of_feed,
    Memory: _of_memory,
    ScopeDrop: _of_drop,
    Error: _of_error,
}


# Rows


class TraceLane(NamedTuple):
    """Slices of one row that lie inside each other or apart."""

    process: str
    row: str
    slices: list[Slice]
    open: list[int]  # ends of the slices around the place where the next one would go

    def takes(self, one: Slice) -> bool:
        """Add a slice that begins no earlier than those before, if it fits."""
        while self.open and self.open[-1] <= one.start:
            self.open.pop()
        if self.open and self.open[-1] < one.end:
            return False
        self.open.append(one.end)
        self.slices.append(one)
        return True


def _lanes(slices: Iterable[Slice]) -> list[TraceLane]:
    """Slices by process and row; rows with slices that cross each other are split."""
    rows: dict[tuple[str, str], list[TraceLane]] = {}
    for one in sorted(slices, key=lambda s: (s.start, -s.end)):
        lanes = rows.setdefault((one.process, one.row), [])
        if not any(lane.takes(one) for lane in lanes):
            name = one.row if not lanes else f"{one.row} ({len(lanes) + 1})"
            lanes.append(TraceLane(one.process, name, [one], [one.end]))
    every_lane = [lane for lanes in rows.values() for lane in lanes]
    return sorted(every_lane, key=lambda lane: (_order(lane.process), _natural(lane.row)))


def _order(process: str) -> tuple[Any, ...]:
    """The executors first, then devices by kind and index."""
    kind, _, index = process.partition(":")
    return process != _HOST, kind, int(index) if index.isdigit() else 0


def _natural(row: str) -> list[Any]:
    """Sorts "thread 2" before "thread 10", and collectives after threads."""
    words = row.replace(",", " ").replace("(", " ").replace(")", " ").split()
    return [not row.startswith("thread"), [(1, int(w), "") if w.isdigit() else (0, 0, w) for w in words]]


# Entries of the file


def _complete(one: Slice, pid: int, tid: int, origin: int) -> dict[str, Any]:
    start, lasts = (one.start - origin) / 1000, (one.end - one.start) / 1000
    entry = {"name": one.name, "cat": one.category, "ph": "X", "ts": start, "dur": lasts, "pid": pid, "tid": tid}
    return {**entry, "args": one.args}


def _mark(mark: TraceMark, pid: int, origin: int) -> dict[str, Any]:
    at = (mark.at - origin) / 1000
    return {"name": mark.name, "ph": mark.ph, "ts": at, "pid": pid, "tid": pid, **mark.extra}


def _names(pids: dict[str, int], rows: Sequence[tuple[TraceLane, int]]) -> Iterator[dict[str, Any]]:
    """Names and order of processes and rows; marks are on a row that has the number of its process."""
    for name, pid in pids.items():
        yield _metadata("process_name", pid, pid, {"name": name})
        yield _metadata("process_sort_index", pid, pid, {"sort_index": pid})
        yield _metadata("thread_name", pid, pid, {"name": "events"})
        yield _metadata("thread_sort_index", pid, pid, {"sort_index": pid})
    for lane, tid in rows:
        yield _metadata("thread_name", pids[lane.process], tid, {"name": lane.row})
        yield _metadata("thread_sort_index", pids[lane.process], tid, {"sort_index": tid})


def _metadata(name: str, pid: int, tid: int, args: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "ph": "M", "ts": 0, "pid": pid, "tid": tid, "args": args}


def _json(value: Any) -> str:
    return json.dumps(value, allow_nan=False)
