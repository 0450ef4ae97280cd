"""One node of the graph: everything there is to say about it, and the numbers it made."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from workbench.errors import EnforceNotMet
from workbench.executors.fetching.fetch import fetchable
from workbench.executors.inspection.inspection import Inspection
from workbench.executors.inspection.observed import Observation
from workbench.executors.planning.shapes import Shapes
from workbench.experiments.first_nan import FirstNaN
from workbench.framework.program.roles import role_text
from workbench.graph.columns import label_of
from workbench.graph.ssa import Graph, Node, Value
from workbench.notebook.dashboard.watching.graph_message import nbytes
from workbench.notebook.messages import Message

_BINS = 24
_ATTRIBUTE = 200  # characters shown of an attribute
_SAMPLES = 50  # over which times are taken


def node_message(graph: Graph, shapes: Shapes, number: int, samples: Iterable[Message]) -> Message:
    """The message `node`, but for its `request`; see assets/src/README.md."""
    node = graph.nodes[number]
    site = node.site
    return {
        "type": "node",
        "node": number,
        "title": label_of(node),
        "op": node.type,
        "role": role_text(node.role),
        "devices": [str(graph.places[place]) for place in node.places],
        "site": str(site) if site else None,
        "source": linecache.getline(site.file, site.line).strip() or None if site else None,
        "inputs": [_operand(value, shapes) for value in node.reads],
        "outputs": [_operand(value, shapes) for value in node.writes],
        "attrs": {name: _clipped(value) for name, value in node.attrs.items() if not name.startswith("_")},
        "timing": _timing(number, list(samples)[-_SAMPLES:], graph),
    }


def _operand(value: Value, shapes: Shapes) -> Message:
    spec = shapes.specs[value]
    return {
        "name": value.name,
        "device": value.place,
        "version": value.version,
        "shape": list(spec.shape),
        "dtype": spec.dtype.name,
        "bytes": nbytes(value, shapes),
        "persistable": value.persistable,
    }


def _clipped(value: Any) -> str:
    text = str(value)
    return text if len(text) <= _ATTRIBUTE else f"{text[:_ATTRIBUTE]} …"


def _timing(number: int, samples: list[Message], graph: Graph) -> Message | None:
    timed = [(span, sample) for sample in samples for span in _spans_of(number, sample)]
    if not timed:
        return None
    lasted = [float(sample["spans"]["end"][span] - sample["spans"]["start"][span]) for span, sample in timed]
    span, sample = timed[-1]
    members = sample["members"]
    joined = members["node"][members["span"] == span].tolist()
    return {
        "calls": len(lasted),
        "mean_us": float(np.mean(lasted)),
        "max_us": max(lasted),
        "last_us": lasted[-1],
        "thread": int(sample["spans"]["thread"][span]),
        "with": [graph.nodes[other].type for other in joined if other != number],
    }


def _spans_of(number: int, sample: Message) -> list[int]:
    members = sample["members"]
    alone = np.flatnonzero(sample["spans"]["node"] == number).tolist()
    return list(dict.fromkeys([*alone, *members["span"][members["node"] == number].tolist()]))


def statistics_now(engine: Inspection, fetches: list[str], feed: Any, node: Node, note: str) -> Message:
    """The message `statistics`, but for its `request`: a step is run up to the node, and not applied.

    It is the observed plan's, on a batch and the parameters of now; training waits meanwhile.
    """

    def values() -> list[tuple[Value, np.ndarray]]:
        with engine.scope.in_use(engine.execution.timeout):
            return _values(engine.observe(fetches, feed), node)

    return _statistics(values, f"{note}, with the parameters of now; nothing was applied")


def statistics_of_nan(nan: FirstNaN, node: Node) -> Message:
    """The same of the step with the first NaN, as it was: with its feed and the parameters before it."""
    note = f"of step {nan.step}, the first with a NaN: of its feed, with the parameters it began with"
    return _statistics(lambda: _values(nan.replay.observe(), node), note)


def _statistics(values: Callable[[], list[tuple[Value, np.ndarray]]], note: str) -> Message:
    try:
        described = [_described(value, array) for value, array in values()]
    except EnforceNotMet as error:
        return {"type": "statistics", "error": str(error), "note": "", "values": []}
    return {"type": "statistics", "error": None, "note": note, "values": described}


def _values(step: Observation, node: Node) -> list[tuple[Value, np.ndarray]]:
    wanted = {(value.name, value.place, value.version): value for value in node.writes}
    missing = set(wanted)
    while missing and step.next_node is not None:
        missing -= {(value.name, value.place, value.version) for value in step.advance().writes}
    return [(value, np.array(fetchable(step.current(*key)))) for key, value in wanted.items() if key not in missing]


def _described(value: Value, array: np.ndarray) -> Message:
    numbers = np.asarray(array, np.float64).reshape(-1)
    finite = numbers[np.isfinite(numbers)]
    counts, edges = np.histogram(finite, _BINS) if finite.size else (np.zeros(0, int), np.zeros(1))
    some = finite if finite.size else np.full(1, np.nan)
    return {
        "name": value.name,
        "device": value.place,
        "shape": list(array.shape),
        "dtype": array.dtype.name,
        "mean": float(some.mean()),
        "std": float(some.std()),
        "min": float(some.min()),
        "max": float(some.max()),
        "nan": int(np.isnan(numbers).sum()),
        "inf": int(np.isinf(numbers).sum()),
        "zeros": int((numbers == 0).sum()),
        "histogram": {"edges": edges.tolist(), "counts": counts.tolist()},
    }
