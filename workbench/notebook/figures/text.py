"""The dashboard in words: for terminals, for whoever cannot see pictures, and where nothing else is shown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from workbench.framework.text.printable import all_printable
from workbench.notebook.figures.facts import (
    Message,
    Nodes,
    Summed,
    among,
    at,
    cause_text,
    devices,
    dropped,
    floats,
    in_order,
    newest_fed,
    over_steps,
    parts,
    servers,
    slowest,
    summed,
    typical_step,
    unwatched,
    where,
)
from workbench.notebook.figures.numbers import number_text, seconds_text, shape_text
from workbench.notebook.figures.palette import KINDS
from workbench.notebook.programs.summary import count, memory_text

_NAMES, _INPUTS, _VALUES = 6, 6, 8  # so many are listed; of the others, how many there are


def describe(messages: Mapping[str, Any]) -> str:
    """About ten to twenty-five lines; the same for the same messages.

    Args:
        messages: the newest message of every kind (`"state"`, `"graph"`, `"sample"`, `"scopes"`, `"curves"`), as
            assets/src/README.md describes them, or a list of them under `"curves"`; a `sample` under `"typical"` is
            told of in the place of the newest. Any may be missing.
    """
    given = {kind: all_printable(message) for kind, message in messages.items() if message}
    state, graph, step = given.get("state"), given.get("graph"), typical_step(given)
    lines = [_subject(given), *_run(state), *_last(state, _newest(given.get("curves")))]
    lines += _graph(graph) if graph else []
    fed = newest_fed(given)
    lines += _fed(fed) if fed else []
    lines += [*_slow(step, graph), *_clocks(step)] if step else []
    unseen = ((state or {}).get("subject") or {}).get("unseen")
    if unseen:
        lines.append(f"feeds, memory, timeline: {unseen}")
    elif "scopes" in given:
        lines += _scopes(given["scopes"])
    return "\n".join(lines)


def _clocks(sample: Message) -> Iterator[str]:
    """Of a step of several processes, whose times come from clocks of their own."""
    within = floats(sample.get("clocks"), "within")
    if len(within) > 1:
        yield f"times are those of the clocks of {len(within)} ranks, aligned to ± {seconds_text(within.max() / 1e6)}"


def _newest(curves: Any) -> Message | None:
    """Of one message `curves`, or of several runs' in a list."""
    return curves[-1] if isinstance(curves, list) else curves


def _subject(given: Mapping[str, Message]) -> str:
    """`net (run), AllReduce on 2 devices: cpu:0, cpu:1`."""
    state, graph = given.get("state") or {}, given.get("graph") or {}
    subject = state.get("subject") or {}
    name = subject.get("name") or graph.get("title") or "dashboard"
    kind = f" ({subject['kind']})" if subject.get("kind") else ""
    places = devices(subject, graph, given.get("scopes"), (given.get("sample") or {}).get("feeds"))
    strategy = subject.get("strategy") or (given.get("scopes") or {}).get("strategy") or ""
    where = f"{count(len(places), 'device')}: {_some(places, 16)}" if places else "no device yet"
    return f"{name}{kind}, {f'{strategy} on ' if strategy and len(places) > 1 else 'on ' if places else ''}{where}"


def _run(state: Message | None) -> Iterator[str]:
    if state is None:
        return
    run = state.get("run")
    if run is None:
        yield "state: no run"
        return
    of = f" of {run['steps']:,}" if run.get("steps") is not None else ""
    many = "" if not of and run.get("step") == 1 else "s"
    parts = [str(run.get("state", "")), f"{run.get('step', 0):,}{of} step{many}"]
    parts += [f"{_spent(run['seconds'])} in all"] if run.get("seconds") else []
    parts += [f"{number_text(run['rate'])} steps/s"] if run.get("rate") else []
    parts += [f"about {seconds_text(run['eta'])} left"] if run.get("eta") else []
    yield f"state: {', '.join(parts)}"
    if nan := run.get("nan"):
        yield f"{nan['title']}: {nan['reason']}"
        if nan.get("site"):
            yield f"  built at {nan['site']}"
    error = run.get("error")
    if error:
        yield from _error(error)


def _spent(seconds: float) -> str:
    """It is told in hundredths of a second."""
    return f"{seconds * 1e3:.0f} ms" if seconds < 1 else seconds_text(seconds)


def _error(error: Message) -> Iterator[str]:
    text, *more = str(error.get("text", "")).strip().splitlines() or [""]
    yield f"error: {text}{' …' if more else ''}"
    where = [f"op {error['op']}" if error.get("op") else "", f"on {error['device']}" if error.get("device") else ""]
    where.append(f"built at {error['site']}" if error.get("site") else "")
    if any(where):
        yield f"  {', '.join(text for text in where if text)}"


def _last(state: Message | None, curves: Message | None) -> Iterator[str]:
    """The newest value of everything that is recorded."""
    last = dict(((state or {}).get("run") or {}).get("last") or {})
    for label, series in ((curves or {}).get("series") or {}).items():
        mean = floats(series, "mean")
        if label not in last and len(mean):
            last[label] = float(mean[-1])
    if last:
        yield f"last values: {_some([f'{label} {number_text(value)}' for label, value in last.items()], _VALUES)}"


def _graph(graph: Message) -> Iterator[str]:
    nodes = Nodes.of(graph)
    counts = Counter(nodes.kind)
    kinds = ", ".join(f"{counts[kind]:,} {kind}" for kind in KINDS if counts[kind])
    yield f"graph: {count(len(nodes), 'op')}{f': {kinds}' if kinds else ''}"
    layers = [layer for layer in in_order(nodes.layer) if layer]
    if layers:
        yield f"layers: {_some(layers, _NAMES)}"
    for server in servers(graph):
        moves = f": {', '.join(server.moves())} a step" if server.moves() else ""
        yield f"server {server.name}{moves}{f'; told of {server.told()}' if server.told() else ''}"
    collectives = summed(graph)
    if not collectives:
        yield "collectives: none; devices exchange nothing" if len(devices(graph)) > 1 else "collectives: none"
        return
    yield f"collectives, {memory_text(int(sum(one.bytes for one in collectives)))} from each device:"
    for type in in_order(one.type for one in collectives):
        yield f"  {_together([one for one in collectives if one.type == type])}"


def _together(same: list[Summed]) -> str:
    """`all_reduce × 2: fc_0.w_0@GRAD, fc_0.b_0@GRAD`."""
    names = in_order(name for one in same for name in one.names)
    return f"{same[0].type}{f' × {len(same)}' if len(same) > 1 else ''}: {_some(names, _NAMES)}"


def _fed(sample: Message) -> Iterator[str]:
    fed = sample.get("feeds") or {}
    names, places, sizes = list(fed.get("names", [])), devices(fed), list(fed.get("nbytes", []))
    if not names:
        return
    failed = "" if sample.get("applied", True) else ", which was not applied"
    yield f"fed in step {sample.get('step', '–')}{failed}:"
    for device, place in enumerate(places):
        got = [_part(fed, name, device) for name in names]
        size = f" ({memory_text(int(sizes[device]))})" if device < len(sizes) else ""
        yield f"  {place}: {_some([text for text in got if text], _INPUTS, '; ')}{size}"


def _part(fed: Message, name: str, device: int) -> str:
    """`x rows 0–15 float32[16, 64]`; empty if the device got nothing of it."""
    part = at(parts(fed, name), device, None)
    return f"{name} {part.text()} {fed.get('dtypes', {}).get(name, '')}{shape_text(part.shape)}" if part else ""


def _slow(sample: Message, graph: Message | None) -> Iterator[str]:
    ranked = slowest(sample)
    if not ranked:
        return
    places = devices(sample.get("feeds"), graph)
    took = f"step {sample.get('step', '–')} took {seconds_text(sample.get('seconds'))}{among(sample)}; "
    yield f"{took}slowest ops ({over_steps(sample)}), and their share of the time of all ops:"
    for slow in ranked:
        yield f"  {slow.label} {where(places, slow.device)} {seconds_text(slow.us / 1e6)} ({slow.share:.0%})"


def _scopes(scopes: Message) -> Iterator[str]:
    places = devices(scopes)
    held = [np.asarray(one) for one in (scopes.get("memory") or {}).get("bytes", [])]
    now = [memory_text(int(one[-1])) for one in held if len(one)]
    most = [memory_text(int(one.max())) for one in held if len(one)]
    if now:
        yield f"temporaries: {_each(now, places)}{f'; at most {_each(most, places)}' if most != now else ''}"
    drops = scopes.get("drops") or {}
    steps = [int(step) for step in floats(drops, "step")]
    if not steps:
        since = unwatched(scopes)
        yield f"scopes dropped: {f'not since step {since:,}; not watched before' if since else 'not yet'}"
        return
    causes = ", ".join(f"{n} × {cause_text(cause)}" for cause, n in Counter(drops.get("cause", [])).items())
    before = f"; not watched before step {unwatched(scopes):,}" if unwatched(scopes) else ""
    yield f"scopes dropped: {count(dropped(scopes), 'time')}{f' ({causes})' if causes else ''}{before}"
    yield from _given_back(steps, drops, places)


def _given_back(steps: list[int], drops: Message, places: list[str]) -> Iterator[str]:
    """`  dropped 248.0 KiB on each device after steps 100, 200`, a line for each amount."""
    steps_of: dict[str, list[int]] = {}
    for step, *sizes in zip(steps, *drops.get("bytes", [])):
        steps_of.setdefault(_each([memory_text(int(size)) for size in sizes], places), []).append(step)
    for amount, when in list(steps_of.items())[:_NAMES]:
        shown = ", ".join(f"{step:,}" for step in when[:4]) + (f" … {when[-1]:,}" if len(when) > 4 else "")
        yield f"  dropped {amount} after {'step' if len(when) == 1 else 'steps'} {shown}"
    if len(steps_of) > _NAMES:
        yield f"  … {len(steps_of):,} amounts in all"


def _each(texts: list[str], places: list[str]) -> str:
    """One text where all devices have the same, else one per device."""
    if len(set(texts)) == 1:
        return f"{texts[0]}{' on each device' if len(texts) > 1 else ''}"
    return ", ".join(f"{text} on {at(places, k, f'device {k}')}" for k, text in enumerate(texts))


def _some(texts: list[str], limit: int, between: str = ", ") -> str:
    shown = between.join(texts[:limit])
    return shown if len(texts) <= limit else f"{shown} … ({len(texts):,} in all)"
