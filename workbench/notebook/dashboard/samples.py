"""Steps that were looked at, as the page shows them, and as many of them as memory allows."""

from __future__ import annotations

from itertools import accumulate
from statistics import median
from typing import Any

import numpy as np

from workbench import events
from workbench.executors.engine import Engine
from workbench.executors.split import Fed
from workbench.framework.spec import Spec, size_of
from workbench.notebook.dashboard.looks import Look
from workbench.notebook.dashboard.messages import Message, Table, column
from workbench.notebook.dashboard.previews import preview

_BYTES = 32 << 20  # of all samples together
_RECENT = 25  # steps over which times are taken


class Samples:
    """What is kept of the steps that were looked at; over the limit every other of the older half goes."""

    def __init__(self, limit: int = _BYTES) -> None:
        self.kept: list[Message] = []
        self.newest: Look | None = None
        self._limit, self._began = limit, 0
        self._sizes: list[int] = []

    def add(self, look: Look, graph: int) -> None:
        """Keep a step; `graph` is the number of the graph that ran."""
        assert look.step is not None
        self._began = self._began or look.start
        self.newest = look
        self.kept.append(sample_message(look, graph, self._began))
        self._sizes.append(_size(self.kept[-1]))
        while len(self.kept) > 2 and sum(self._sizes) > self._limit:
            half = (len(self.kept) + 1) // 2
            self.kept[:half] = self.kept[: half - 1 : 2]
            self._sizes[:half] = self._sizes[: half - 1 : 2]

    @property
    def last(self) -> Message | None:
        """The newest."""
        return self.kept[-1] if self.kept else None

    def at(self, step: int) -> Message | None:
        """The newest of a step not after this one."""
        return next((kept for kept in reversed(self.kept) if kept["step"] <= step), None)

    def slowest(self, graph: int) -> tuple[int, int, str, float, int] | None:
        """The op whose median is the longest: its node, device and label, that median in us, of how many steps.

        Collectives are left out, and steps for which a plan had to be made, as long as there are others.
        """
        kept = [sample for sample in self.kept[-_RECENT:] if sample["graph"] == graph and len(sample["spans"]["node"])]
        kept = [sample for sample in kept if sample["compiled"] is None] or kept
        times: dict[tuple[int, int, str], list[float]] = {}
        for sample in kept:
            spans = sample["spans"]
            ops = np.flatnonzero(spans["collective"] == 0)
            lasted = (spans["end"] - spans["start"])[ops].tolist()
            keys = zip(spans["node"][ops].tolist(), spans["device"][ops].tolist(), spans["label"][ops].tolist())
            for (node, device, label), us in zip(keys, lasted, strict=True):
                times.setdefault((node, device, sample["labels"][label]), []).append(us)
        if not times:
            return None
        medians = {key: median(found) for key, found in times.items()}
        slowest = max(medians, key=medians.__getitem__)
        return *slowest, medians[slowest], len(times[slowest])

    def message(self) -> Message:
        """The message `samples`."""
        return {
            "type": "samples",
            "step": column([kept["step"] for kept in self.kept], "int32"),
            "seconds": column([kept["seconds"] for kept in self.kept], "float32"),
        }


def sample_message(look: Look, graph: int, began: int) -> Message:
    """The message `sample`; see assets/src/README.md."""
    step = look.step
    assert step is not None
    return {
        "type": "sample",
        "step": step.step + 1,
        "graph": graph,
        "seconds": look.seconds,
        "compiled": look.compiled.seconds if look.compiled is not None else None,
        "at": (look.start - began) / 1e9,
        "feeds": _feeds(look),
        **_spans(look, step),
    }


def sample_of_last(engine: Engine, graph: int) -> Message | None:
    """What is known of the last step when nobody has looked at it: what each device was fed, without the numbers."""
    binding, rows = engine.last, engine.last_rows
    if binding is None or not rows:
        return None
    devices = binding.plan.graph.devices
    fed = {(value.name, value.place): binding.plan.shapes.specs[value] for value in binding.plan.feeds}
    names = [name for name in rows if (name, 0) in fed]
    specs = {name: [fed[name, place] for place in range(devices) if (name, place) in fed] for name in names}
    nbytes = [sum(_nbytes(found[place]) for found in specs.values() if place < len(found)) for place in range(devices)]
    places = tuple(engine.places[:devices])
    feed = events.Feed(
        engine.reporter.name, engine.steps - 1, places, {name: tuple(rows[name]) for name in names},
        {name: tuple(spec.shape for spec in specs[name]) for name in names},
        {name: specs[name][0].dtype.name for name in names}, tuple(nbytes),
    )  # fmt: skip
    step = events.Step(engine.reporter.name, engine.steps - 1, 0, 0, places, ())
    return sample_message(Look(engine.steps - 1, feed, step=step), graph, 0)


def fed_message(engine: Engine, number: int, fed: Fed, graph: int) -> Message:
    """The message `fed`: what the devices got in a step, by its number from 0, whether it was looked at or not.

    The arrays are the caller's: should they be filled anew for another step, that is what is shown.
    """
    look = Look(number, engine.reporter.feed_of(number, fed), tuple(fed.per_device))
    return {
        "type": "fed", "step": number + 1, "graph": graph, "applied": number < engine.steps, "feeds": _feeds(look),
    }  # fmt: skip


def _nbytes(spec: Spec) -> int:
    return size_of(spec.shape) * spec.dtype.itemsize


def _feeds(look: Look) -> Message:
    feed = look.feed
    if feed is None:
        return {}
    names = list(feed.rows)
    return {
        "devices": [str(place) for place in feed.places],
        "names": names,
        "rows": {name: list(feed.rows[name]) for name in names},
        "first": {name: list(accumulate(feed.rows[name], initial=0))[:-1] for name in names},
        "shapes": {name: [list(shape) for shape in feed.shapes.get(name, ())] for name in names},
        "dtypes": dict(feed.dtypes),
        "nbytes": list(feed.nbytes),
        "previews": {name: [preview(arrays[name]) for arrays in look.arrays if name in arrays] for name in names},
    }


def _spans(look: Look, step: events.Step) -> Message:
    labels, nodes = Table(), _collectives(look)
    places = {place: index for index, place in enumerate(step.places)}
    told: list[tuple[Any, ...]] = [
        (run.op.node, places.get(run.op.place, 0), run.thread, run.start, run.end, False, labels.number(run.op.type))
        for run in look.ops
    ]
    told += [
        (nodes.get((one.kind, one.names[:1]), -1), -1, one.thread, one.start, one.end, True, labels.number(one.kind))
        for one in look.collectives
    ]
    members = [(span, node) for span, run in enumerate(look.ops) for node in run.op.nodes]
    node, device, thread, start, end, collective, label = zip(*told, strict=True) if told else ((),) * 7
    begun = look.start
    return {
        "spans": {
            "node": column(node, "int32"),
            "device": column(device, "int32"),
            "thread": column(thread, "int32"),
            "start": column((np.asarray(start, np.int64) - begun) / 1e3, "float32"),
            "end": column((np.asarray(end, np.int64) - begun) / 1e3, "float32"),
            "collective": column(collective, "uint8"),
            "label": column(label, "int32"),
        },
        "labels": labels.texts,
        "members": {
            "span": column([span for span, _ in members], "int32"),
            "node": column([number for _, number in members], "int32"),
        },
    }


def _collectives(look: Look) -> dict[tuple[str, tuple[str, ...]], int]:
    """Numbers of the collectives by kind and first name."""
    if look.plan is None:
        return {}
    nodes = enumerate(look.plan.graph.nodes)
    found = {}
    for number, node in nodes:
        if node.is_collective:
            names = tuple(node.attrs.get("names") or (node.attrs["name"],))
            found[node.type, names[:1]] = number
    return found


def _size(part: Any) -> int:
    if isinstance(part, np.ndarray):
        return part.nbytes
    if isinstance(part, dict):
        return sum(map(_size, part.values()))
    return sum(map(_size, part)) if isinstance(part, list) else 8
