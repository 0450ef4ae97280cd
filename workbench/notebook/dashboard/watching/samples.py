"""Steps that were looked at, as the page shows them, and as many of them as memory allows."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from workbench import events
from workbench.errors import NotFound, PreconditionNotMet
from workbench.executors.feeding.feed_plan import Fed
from workbench.executors.inspection.inspection import Inspection
from workbench.executors.inspection.nan_finder import rows_text
from workbench.executors.profiling.sampled_steps import SampledStep, Told
from workbench.experiments.first_nan import FirstNaN
from workbench.framework.values.place import Place
from workbench.framework.values.spec import Spec, size_of
from workbench.graph.columns import label_of
from workbench.graph.ssa import Graph
from workbench.notebook.dashboard.watching.previews import preview
from workbench.notebook.messages import Message, Table, column

_BYTES = 32 << 20  # of all samples together
_RECENT = 25  # steps over which times are taken
_RANKED = 3  # ops that are named as the slowest
_COLD = 3  # first steps of an engine, whose memory is new: as many as `%profile_step` warms up with


class OpTime(NamedTuple):
    """An op of a graph: the median of its times in µs, its share of that of all ops, and of how many steps."""

    node: int
    device: int
    label: str
    us: float
    share: float
    steps: int


class Samples:
    """What is kept of the steps that were looked at; over the limit every other of the older half goes."""

    def __init__(self, limit: int = _BYTES) -> None:
        self.kept: list[Message] = []
        self.newest: SampledStep | None = None
        self._limit, self._began = limit, 0
        self._sizes: list[int] = []
        self._told: dict[int, Told] = {}  # of those that are kept, by step

    def add(self, sampled: SampledStep, graph: int) -> None:
        """Keep a step; `graph` is the number of the graph that ran."""
        assert sampled.step is not None
        self._began = self._began or sampled.start
        told = Told(sampled)
        self._told[sampled.number + 1] = told
        self.newest = sampled
        self.keep(sample_message(sampled, graph, self._began), told.nbytes)

    def keep(self, message: Message, nbytes: int = 0) -> None:
        """Keep the message of a step, and so many bytes beside it."""
        self.kept.append(message)
        self._sizes.append(_size(message) + nbytes)
        while len(self.kept) > 2 and sum(self._sizes) > self._limit:
            half = (len(self.kept) + 1) // 2
            self.kept[:half] = self.kept[: half - 1 : 2]
            self._sizes[:half] = self._sizes[: half - 1 : 2]
            self._told = {step: self._told[step] for kept in self.kept if (step := kept["step"]) in self._told}

    @property
    def last(self) -> Message | None:
        """The newest."""
        return self.kept[-1] if self.kept else None

    def at(self, step: int) -> Message | None:
        """The newest of a step not after this one."""
        return next((kept for kept in reversed(self.kept) if kept["step"] <= step), None)

    def events_of(self, step: int | None = None) -> list[events.Event]:
        """What was told of a step, by its number from 1; None: the newest that was looked at.

        Raises:
            PreconditionNotMet: no step has been looked at. NotFound: this one has not been, or is no longer kept.
        """
        if self.newest is None:
            raise PreconditionNotMet("no step has been looked at yet: run one")
        told = self._told.get(self.newest.number + 1 if step is None else step)
        if told is None:
            raise NotFound(f"step {step} is not among the steps that were looked at and are kept; choose another one")
        return told.events()

    def slowest(self, graph: int) -> list[OpTime]:
        """The ops by the medians of their times over the steps that were looked at, the longest first.

        Collectives are left out, and cold steps, as long as there are others: see `_warm`.
        """
        times: dict[tuple[int, int, str], list[float]] = {}
        for sample in self._warm(graph):
            spans = sample["spans"]
            ops = np.flatnonzero((spans["collective"] == 0) & (spans["wait"] == 0))
            lasted = (spans["end"] - spans["start"])[ops].tolist()
            keys = zip(spans["node"][ops].tolist(), spans["device"][ops].tolist(), spans["label"][ops].tolist())
            for (node, device, label), us in zip(keys, lasted, strict=True):
                times.setdefault((node, device, sample["labels"][label]), []).append(us)
        medians = {key: median(durations) for key, durations in times.items()}
        whole = sum(medians.values()) or 1.0
        durations = [OpTime(*key, us, us / whole, len(times[key])) for key, us in medians.items()]
        return sorted(durations, key=lambda op: -op.us)

    def slowest_message(self, number: int, graph: Graph) -> Message | None:
        """The slowest op of the graph with this number, and what comes after it; None if nothing has been timed.

        An op is named by its type and the variable it is about, for a graph has many ops of a type.
        """
        ranked = [op._asdict() for op in self.slowest(number)[:_RANKED]]
        for op in ranked:
            if 0 <= op["node"] < len(graph.nodes):
                op["label"] = label_of(graph.nodes[op["node"]])
        return {**ranked[0], "next": ranked[1:]} if ranked else None

    def typical(self, graph: int) -> Message | None:
        """The step of median duration among those that `slowest` is taken over; `among` says how many these are.

        Of two in the middle it is the shorter one; None if no step of this graph has been looked at.
        """
        warm = sorted(self._warm(graph), key=lambda sample: float(sample["seconds"]))
        return {**warm[(len(warm) - 1) // 2], "among": len(warm)} if warm else None

    def _warm(self, graph: int) -> list[Message]:
        """The newest timed steps of a graph, without cold ones."""
        return _warm([kept for kept in self.kept[-_RECENT:] if kept["graph"] == graph and len(kept["spans"]["node"])])

    def message(self) -> Message:
        """The message `samples`."""
        return {
            "type": "samples",
            "step": column([kept["step"] for kept in self.kept], "int32"),
            "seconds": column([kept["seconds"] for kept in self.kept], "float32"),
        }


def _warm(kept: list[Message]) -> list[Message]:
    """Without those a plan had to be made for, and the engine's first ones; without as few of them as there can be."""
    for first in (_COLD, 1):
        warm = [sample for sample in kept if sample["compiled"] is None and sample["step"] > first]
        if warm:
            return warm
    return kept


def sample_message(sampled: SampledStep, graph: int, began: int) -> Message:
    """The message `sample`; see assets/src/README.md."""
    step = sampled.step
    assert step is not None
    return {
        "type": "sample",
        "step": step.step + 1,
        "graph": graph,
        "seconds": sampled.seconds,
        "compiled": sampled.compiled.seconds if sampled.compiled is not None else None,
        "at": (sampled.start - began) / 1e9,
        "feeds": _feeds(sampled),
        **_spans(sampled, step),
    }


def sample_of_last(engine: Inspection, graph: int) -> Message | None:
    """What is known of the last step when nobody has looked at it: what each device was fed, without the numbers."""
    binding, rows = engine.last, engine.last_rows
    if binding is None or not rows:
        return None
    devices = binding.plan.graph.devices
    fed = {(value.name, value.place): binding.plan.shapes.specs[value] for value in binding.plan.feeds}
    names = [name for name in rows if (name, 0) in fed]
    specs = {name: [fed[name, place] for place in range(devices) if (name, place) in fed] for name in names}
    nbytes = [
        sum(_nbytes(by_place[place]) for by_place in specs.values() if place < len(by_place))
        for place in range(devices)
    ]
    places = tuple(engine.places[:devices])
    feed = events.Feed(
        engine.name, engine.steps - 1, places, {name: tuple(rows[name]) for name in names},
        {name: tuple(spec.shape for spec in specs[name]) for name in names},
        {name: specs[name][0].dtype.name for name in names}, tuple(nbytes),
    )  # fmt: skip
    step = events.Step(engine.name, engine.steps - 1, 0, 0, places, ())
    return sample_message(SampledStep(engine.steps - 1, feed, step=step), graph, 0)


def fed_message(engine: Inspection, number: int, fed: Fed, graph: int) -> Message:
    """The message `fed`: what the devices got in a step, by its number from 0, whether it was looked at or not.

    The arrays are the caller's: should they be filled anew for another step, that is what is shown.
    """
    sampled = SampledStep(number, engine.feed_of(number, fed), tuple(fed.per_device))
    return {
        "type": "fed", "step": number + 1, "graph": graph, "applied": number < engine.steps, "feeds": _feeds(sampled),
    }  # fmt: skip


def fed_message_of_nan(engine: Inspection, nan: FirstNaN, graph: int) -> Message:
    """The message `fed` of the step with the first NaN, with a look at the rows in which it came up if they are known.

    The batch is the step's own, whatever the caller's arrays hold by now.
    """
    moment = nan.replay.moment
    feed, places = moment.feed, tuple(engine.places[: len(moment.feed)])
    names = list(feed[0])
    rows = {name: tuple(len(arrays[name]) if arrays[name].ndim else 0 for arrays in feed) for name in names}
    told = events.Feed(
        engine.name, moment.step, places, rows,
        {name: tuple(arrays[name].shape for arrays in feed) for name in names},
        {name: feed[0][name].dtype.name for name in names},
        tuple(sum(array.nbytes for array in arrays.values()) for arrays in feed),
    )  # fmt: skip
    feeds, origin = _feeds(SampledStep(moment.step, told, tuple(feed))), nan.find()
    wanted = np.array(() if origin is None else origin.rows, np.int64)
    for name in names:
        for device, (first, count) in enumerate(zip(feeds["first"][name], rows[name], strict=True)):
            there = wanted[(wanted >= first) & (wanted < first + count)] - first
            if len(there):
                feeds["previews"][name][device] = preview(feed[device][name][there])
    about = f"the first with {nan.kind}" + (
        f"; shown of it: {rows_text(tuple(wanted.tolist()))}" if len(wanted) else ""
    )
    return {"type": "fed", "step": nan.step, "graph": graph, "applied": True, "about": about, "feeds": feeds}


def _nbytes(spec: Spec) -> int:
    return size_of(spec.shape) * spec.dtype.itemsize


def _feeds(sampled: SampledStep) -> Message:
    feed = sampled.feed
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
        "previews": {name: [preview(arrays[name]) for arrays in sampled.arrays if name in arrays] for name in names},
    }


class _Span(NamedTuple):
    """A span of the message, times in ns."""

    node: int
    device: int
    thread: int
    start: int
    end: int
    label: int
    collective: bool = False
    wait: bool = False
    within: bool = False


def _spans(sampled: SampledStep, step: events.Step) -> Message:
    labels, nodes, begun = Table(), _collectives(sampled), sampled.start
    places = {place: index for index, place in enumerate(step.places)}
    told = [
        _Span(run.op.node, places.get(run.op.place, 0), run.thread, run.start, run.end, labels.number(run.op.type))
        for run in sampled.ops
    ]
    for one in sampled.collectives:
        node = nodes.get((one.kind, one.names[:1]), -1)
        label = labels.number(one.kind)
        told.append(_Span(node, -1, one.thread, one.start, one.end, label, collective=True, within=one.within_ops))
    for rest in sampled.waits:
        label = labels.number(", ".join(dict.fromkeys(rest.awaited)))
        told.append(_Span(-1, places.get(rest.place, 0), rest.thread, rest.start, rest.end, label, wait=True))
    columns = dict(zip(_Span._fields, zip(*told, strict=True) if told else ((),) * len(_Span._fields), strict=True))
    times = {name: (np.asarray(columns.pop(name), np.int64) - begun) / 1e3 for name in ("start", "end")}
    return {
        "spans": {
            **{name: column(values, "float32") for name, values in times.items()},
            **{name: column(columns.pop(name), "uint8") for name in ("collective", "wait", "within")},
            **{name: column(values, "int32") for name, values in columns.items()},
        },
        "labels": labels.texts,
        "members": _table(
            ("span", "node"), [(span, node) for span, run in enumerate(sampled.ops) for node in run.op.nodes]
        ),
        "arrivals": _arrivals(sampled, places, begun),
    }


def _arrivals(sampled: SampledStep, places: Mapping[Place, int], begun: int) -> Message:
    """When devices had made their parts of collectives, whose spans come behind those of ops."""
    rows = [
        (len(sampled.ops) + k, places[place], (at - begun) / 1e3)
        for k, one in enumerate(sampled.collectives)
        for place, at in zip(one.places, one.arrived, strict=False)
        if place in places
    ]
    at = column([at for _, _, at in rows], "float32")
    return {**_table(("span", "device"), [row[:2] for row in rows]), "at": at}


def _table(names: tuple[str, ...], rows: list[tuple[int, ...]]) -> Message:
    """Columns of whole numbers."""
    return {name: column([row[k] for row in rows], "int32") for k, name in enumerate(names)}


def _collectives(sampled: SampledStep) -> dict[tuple[str, tuple[str, ...]], int]:
    """Numbers of the collectives by kind and first name."""
    if sampled.plan is None:
        return {}
    nodes = enumerate(sampled.plan.graph.nodes)
    numbers = {}
    for number, node in nodes:
        if node.is_collective:
            names = tuple(node.attrs.get("names") or (node.attrs["name"],))
            numbers[node.type, names[:1]] = number
    return numbers


def _size(part: Any) -> int:
    if isinstance(part, np.ndarray):
        return part.nbytes
    if isinstance(part, dict):
        return sum(map(_size, part.values()))
    return sum(map(_size, part)) if isinstance(part, list) else 8
