"""A profile as text, in aligned columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import floor, log10

from workbench.errors import InvalidArgument
from workbench.events import Error, Event, Feed, Memory, PlanCompiled, ScopeDrop, Step
from workbench.executors.profiling.sums import (
    By,
    ProfileLine,
    layers,
    of_kind,
    op_types,
    single_ops,
    thread_times,
    traffic,
)
from workbench.framework.values.place import Place

_NAME = 48  # longer names of ops are cut
_TIMES = ["calls", "total µs", "mean µs", "median µs", "max µs", "share"]


def table(events: Sequence[Event], n: int, by: By, dropped: int = 0) -> str:
    """What `Profile.table` returns."""
    if n < 1:
        raise InvalidArgument(f"n is the number of lines per list, at least 1, got {n}")
    types, ops = op_types(events, by), single_ops(events, by)
    if not events:
        return "Nothing was profiled: no executor told anything between start and stop."
    several = len({line.executor for line in ops}) > 1
    parts = [_overview(events, dropped)]
    parts += _list("op type", [_times(line) for line in types], n, by)
    parts += _list("layer, in a step", [_times(line) for line in layers(events, by) if line.name], n, by)
    parts += _list("op", [[*_times(line), *_where(line, several)] for line in ops], n, by)
    parts += [_columns(head, rows) for head, rows in _totals(events) if rows]
    return "\n\n".join(parts)


def _overview(events: Sequence[Event], dropped: int) -> str:
    lines = [_steps_of(executor, events) for executor in dict.fromkeys(e.executor for e in events)]
    lines += [f"Error in step {e.step} of {e.executor}: {_first_line(e.text)}" for e in of_kind(events, Error)]
    if dropped:
        lines.append(f"The {dropped:,} oldest events were dropped (limit reached); the sums do not contain them.")
    return "\n".join(lines)


def _steps_of(executor: str, events: Sequence[Event]) -> str:
    own = [e for e in events if e.executor == executor]
    steps, plans = of_kind(own, Step), of_kind(own, PlanCompiled)
    text = f"{executor}: {_count(len(steps), 'step')}"
    if steps:
        seconds = sum(s.seconds for s in steps)
        places = ", ".join(str(place) for place in dict.fromkeys(p for s in steps for p in s.places))
        text += f" on {places}, {seconds * 1e3:,.3f} ms, {seconds / len(steps) * 1e3:,.3f} ms a step"
    if plans:
        text += f"; {_count(len(plans), 'plan')} compiled in {sum(p.seconds for p in plans) * 1e3:,.3f} ms"
    return text


def _list(what: str, rows: list[list[str]], n: int, by: str) -> Iterator[str]:
    """One list of ops, if there are any."""
    if not rows:
        return
    head = [f"{what} (by {by})", *_TIMES, *(["device", "built at"] if len(rows[0]) > len(_TIMES) + 1 else [])]
    more = f"\n… and {len(rows) - n:,} more" if len(rows) > n else ""
    yield _columns(head, rows[:n]) + more


def _times(line: ProfileLine) -> list[str]:
    name = f"{line.name} → {', '.join(line.outputs)}" if line.outputs else line.name
    times = [microseconds(seconds) for seconds in (line.total, line.mean, line.median, line.max)]
    return [_cut(name), f"{line.calls:,}", *times, f"{line.share * 100:.1f} %"]


def _where(line: ProfileLine, several: bool) -> list[str]:
    """Device (and executor, if there are several) and line of an op."""
    return [f"{line.place} of {line.executor}" if several else str(line.place), str(line.site or "")]


def _totals(events: Sequence[Event]) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Head and rows of every other table."""
    yield (
        ["collective", "calls", "bytes", "total µs", "max µs", "waited µs", "MB/s"],
        [[t.kind, f"{t.calls:,}", f"{t.nbytes:,}", *map(microseconds, (t.total, t.max, t.waited)),
          _rate(t.nbytes, t.total)]
         for t in traffic(events)],
    )  # fmt: skip
    yield (
        ["thread", "busy µs", "waiting µs", "idle µs", "idle"],
        [[f"{t.executor}, thread {t.thread}", *map(microseconds, (t.busy, t.waiting, t.idle)),
          _percent(t.idle, t.busy + t.waiting + t.idle)]
         for t in thread_times(events)],
    )  # fmt: skip
    yield ["device", "rows fed", "bytes fed", "peak bytes", "bytes dropped"], list(_devices(events))


def _devices(events: Sequence[Event]) -> Iterator[list[str]]:
    """What each device was fed, and the memory it held for temporaries."""
    rows: dict[Place, int] = {}
    fed: dict[Place, int] = {}
    dropped: dict[Place, int] = {}
    for event in events:
        if isinstance(event, Step):
            _add(rows, event.places, event.feed_rows)
        elif isinstance(event, Feed):
            _add(fed, event.places, event.nbytes)
        elif isinstance(event, ScopeDrop):
            _add(dropped, event.places, event.nbytes)
    peak = _peaks(of_kind(events, Memory))
    places = sorted({*rows, *fed, *peak, *dropped}, key=lambda p: (p.kind, p.index))
    for place in places:
        yield [str(place), *(f"{of_place.get(place, 0):,}" for of_place in (rows, fed, peak, dropped))]


def _add(sums: dict[Place, int], places: Sequence[Place], numbers: Sequence[int]) -> None:
    for place, number in zip(places, numbers):
        sums[place] = sums.get(place, 0) + number


def _peaks(events: Sequence[Memory]) -> dict[Place, int]:
    """The most each device held at a time, for all executors together."""
    held: dict[Place, dict[str, int]] = {}
    peaks: dict[Place, int] = {}
    for event in sorted(events, key=lambda e: e.at):
        held.setdefault(event.place, {})[event.executor] = event.nbytes
        peaks[event.place] = max(peaks.get(event.place, 0), sum(held[event.place].values()))
    return peaks


def _columns(head: list[str], rows: list[list[str]]) -> str:
    """Lines with aligned columns: numbers to the right, the first column and words to the left."""
    everything = [head, *rows]
    widths = [max(len(line[k]) for line in everything) for k in range(len(head))]
    words = [k == 0 or head[k] in ("device", "built at") for k in range(len(head))]
    cells = ([c.ljust(w) if left else c.rjust(w) for c, w, left in zip(line, widths, words)] for line in everything)
    lines = ["  ".join(line).rstrip() for line in cells]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def microseconds(seconds: float) -> str:
    """`1,234.5`, `12.3`, `1.23`, `0.0123`: to a tenth of a microsecond, and to three digits at least."""
    number = seconds * 1e6
    digits = 2 - floor(log10(number)) if number > 0 else 1
    return f"{number:,.{max(digits, 1)}f}"


def _rate(nbytes: int, seconds: float) -> str:
    return f"{nbytes / seconds / 1e6:,.1f}" if seconds else ""


def _percent(part: float, whole: float) -> str:
    return f"{part / whole * 100:.1f} %" if whole else ""


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def _cut(name: str) -> str:
    return name if len(name) <= _NAME else name[: _NAME - 1] + "…"
