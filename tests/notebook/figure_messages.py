"""The dashboard's messages of real programs, with a column of numbers as an array; and graphs made up of numbers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from workbench import events
from workbench.experiments.bench.workloads import Training
from workbench.graph.columns import columns
from workbench.graph.ssa import COLLECTIVES
from workbench.notebook.figures.graphs.folding import fold_message


def i32(values: Sequence[Any]) -> np.ndarray:
    return np.array(values, np.int32)


def graph_message(graph: Any, title: str = "net") -> dict[str, Any]:
    """The `graph` message of an SSA graph."""
    table = columns(graph)
    tables: dict[str, list[Any]] = {"site": [s for s in dict.fromkeys(table["node_site"]) if s is not None]}
    coded = {}
    for name in ("type", "role", "layer"):
        tables[name] = list(dict.fromkeys(table[f"node_{name}"]))
        coded[name] = i32([tables[name].index(text) for text in table[f"node_{name}"]])
    tables["dtype"] = list(dict.fromkeys(table["value_dtype"]))
    sizes = [float(np.prod([abs(n) for n in shape])) * 4 for shape in table["value_shape"]]
    written = np.zeros(len(graph.nodes))
    np.add.at(written, table["write_node"], [sizes[v] for v in table["write_value"]])
    shared = [(k, d) for k, places in enumerate(table["node_devices"]) if len(places) > 1 for d in places]
    message = {
        "type": "graph",
        "id": 1,
        "title": title,
        "devices": table["device"],
        "fetches": list(graph.fetches),
        "tables": tables,
        "node": {
            **coded,
            "site": i32([tables["site"].index(s) if s is not None else -1 for s in table["node_site"]]),
            "label": table["node_label"],
            "device": i32([places[0] for places in table["node_devices"]]),
            "bytes": written,
            "flops": np.zeros(len(written)),
        },
        "across": {"node": i32([k for k, _ in shared]), "device": i32([d for _, d in shared])},
        "value": {
            "name": table["value_name"],
            "device": i32(table["value_device"]),
            "version": i32(table["value_version"]),
            "shape": table["value_shape"],
            "dtype": i32([tables["dtype"].index(t) for t in table["value_dtype"]]),
            "bytes": np.array(sizes),
            "persistable": np.array(table["value_persistable"], np.uint8),
            "data": np.array(table["value_data"], np.uint8),
        },
        "read": {"node": i32(table["read_node"]), "value": i32(table["read_value"])},
        "write": {"node": i32(table["write_node"]), "value": i32(table["write_value"])},
        "edge": {
            "source": i32(table["edge_source"]),
            "target": i32(table["edge_target"]),
            "order": np.array([kind == "order" for kind in table["edge_kind"]], np.uint8),
        },
    }
    return {**message, "fold": fold_message(message)}


def made_up(
    nodes: Sequence[tuple[str, str, str, Sequence[int]]], edges: Sequence[tuple[int, int]], devices: int
) -> dict[str, Any]:
    """A `graph` message of (type, role, layer, devices) and of edges."""
    tables: dict[str, list[str]] = {}
    coded = {}
    for place, name in enumerate(("type", "role", "layer")):
        tables[name] = list(dict.fromkeys(node[place] for node in nodes))
        number = {text: k for k, text in enumerate(tables[name])}
        coded[name] = i32([number[node[place]] for node in nodes])
    shared = [(k, d) for k, node in enumerate(nodes) if len(node[3]) > 1 for d in node[3]]
    message = {
        "type": "graph",
        "id": 1,
        "title": "made up",
        "devices": [f"cpu:{d}" for d in range(devices)],
        "fetches": [],
        "tables": {**tables, "site": [], "dtype": []},
        "node": {
            **coded,
            "site": i32([-1] * len(nodes)),
            "label": [f"{type} v{k}" for k, (type, _, _, _) in enumerate(nodes)],
            "device": i32([node[3][0] for node in nodes]),
            "bytes": np.zeros(len(nodes)),
            "flops": np.zeros(len(nodes)),
        },
        "across": {"node": i32([k for k, _ in shared]), "device": i32([d for _, d in shared])},
        "value": {"name": []},
        "read": {"node": i32([]), "value": i32([])},
        "write": {"node": i32([]), "value": i32([])},
        "edge": {
            "source": i32([a for a, _ in edges]),
            "target": i32([b for _, b in edges]),
            "order": np.zeros(len(edges), np.uint8),
        },
    }
    return {**message, "fold": fold_message(message)}


def sample_message(training: Training, graph: Any, warm: int = 2) -> dict[str, Any]:
    """The `sample` message of one more step."""
    told: list[Any] = []
    kinds = (events.Step, events.Feed, events.OpRun, events.Collective)
    with events.subscribe(told.append, *kinds):
        for _ in range(warm):
            training.step()
        told.clear()
        training.step()
    (step,) = (e for e in told if isinstance(e, events.Step))
    (fed,) = (e for e in told if isinstance(e, events.Feed))
    places = list(step.places)
    shared = iter([k for k, node in enumerate(graph.nodes) if node.type in COLLECTIVES])
    begun = min(e.start for e in told if isinstance(e, events.OpRun))
    rows = [_span(e, places, shared, begun) for e in told if isinstance(e, events.OpRun | events.Collective)]
    labels = list(dict.fromkeys(row[-1] for row in rows))
    node, device, thread, start, end, collective, label = zip(*rows)
    return {
        "type": "sample",
        "step": step.step,
        "graph": 1,
        "seconds": step.seconds,
        "at": 0.0,
        "feeds": {
            "devices": list(map(str, places)),
            "names": list(fed.rows),
            "rows": {name: list(rows) for name, rows in fed.rows.items()},
            "first": {name: [sum(rows[:k]) for k in range(len(rows))] for name, rows in fed.rows.items()},
            "shapes": {name: [list(s) for s in shapes] for name, shapes in fed.shapes.items()},
            "dtypes": dict(fed.dtypes),
            "nbytes": list(fed.nbytes),
            "previews": {name: _previews(training.feed[name], rows) for name, rows in fed.rows.items()},
        },
        "spans": {
            "node": i32(node),
            "device": i32(device),
            "thread": i32(thread),
            "start": np.array(start, np.float32),
            "end": np.array(end, np.float32),
            "collective": np.array(collective, np.uint8),
            "label": i32([labels.index(text) for text in label]),
        },
        "labels": labels,
        "members": {"span": i32([]), "node": i32([])},
    }


def _span(event: Any, places: list[Any], shared: Any, begun: int) -> tuple[Any, ...]:
    start, end = (event.start - begun) / 1e3, (event.end - begun) / 1e3
    if isinstance(event, events.Collective):
        return next(shared, -1), -1, event.thread, start, end, 1, event.kind
    return event.op.node, places.index(event.op.place), event.thread, start, end, 0, event.op.type


def _previews(batch: np.ndarray, rows: Sequence[int]) -> list[dict[str, Any]]:
    starts = np.cumsum([0, *rows])
    return [preview(batch[a:b]) for a, b in pairwise(starts)]


def preview(part: np.ndarray) -> dict[str, Any]:
    """What is shown of a device's part of a batch."""
    if part.dtype.kind in "iu":
        values, counts = np.unique(part, return_counts=True)
        return {"kind": "labels", "values": values, "counts": counts}
    if part.ndim == 4:
        images = [
            {
                "width": p.shape[-1],
                "height": p.shape[-2],
                "low": 0.0,
                "high": 1.0,
                "pixels": np.uint8(p[0] * 255).ravel(),
            }
            for p in part[:6]
        ]
        return {"kind": "image", "images": images}
    if part.ndim == 2 and part.shape[1] > 1:
        return {"kind": "vector", "rows": [np.float32(row) for row in part[:4]]}
    return {"kind": "numbers", "values": part.ravel()[:6]}


def scopes_message(training: Training, steps: int, strategy: str = "AllReduce") -> dict[str, Any]:
    """The `scopes` message of so many steps."""
    told: list[Any] = []
    with events.subscribe(told.append, events.Memory, events.ScopeDrop, events.Feed):
        for _ in range(steps):
            training.step()
    memory = [e for e in told if isinstance(e, events.Memory)]
    drops = [e for e in told if isinstance(e, events.ScopeDrop)]
    places = [str(p) for p in next(e for e in told if isinstance(e, events.Feed)).places]
    held = [[float(e.nbytes) for e in memory if str(e.place) == place] for place in places]
    dropped = [[float(e.nbytes[k]) for e in drops] for k in range(len(places))]
    kept = {"parameters": 4e5, "state": 8e5, "gradients": 4e5}
    other = "Reduce" if strategy == "AllReduce" else "AllReduce"
    shares = {"AllReduce": 1.0, "Reduce": 1 / len(places)}
    return {
        "type": "scopes",
        "devices": places,
        "strategy": strategy,
        "memory": {
            "step": np.array([e.step for e in memory if str(e.place) == places[0]], np.float64),
            "bytes": [np.array(one) for one in held],
        },
        "drops": {
            "step": np.array([e.step for e in drops], np.float64),
            "bytes": [np.array(one) for one in dropped],
            "cause": [e.cause for e in drops],
        },
        "feeds": {"step": np.zeros(0), "rows": []},
        "live": [],
        "totals": [
            {"strategy": one, "devices": [{**kept, "state": kept["state"] * shares[one]} for _ in places]}
            for one in (strategy, other)
        ],
    }


def curves_message(run: int, label: str, steps: int = 400, seed: int = 0) -> dict[str, Any]:
    """A `curves` message of made-up values."""
    rng = np.random.default_rng(seed)
    step = np.arange(1, steps + 1, dtype=np.float64)
    loss = np.float32(2.3 * np.exp(-step / (90 + 40 * seed)) + 0.1 + 0.02 * rng.standard_normal(steps))
    accuracy = np.float32(1 - np.exp(-step / 120) * 0.9)
    series = {
        name: {"step": step, "mean": mean, "low": mean - np.float32(0.05), "high": mean + np.float32(0.05)}
        for name, mean in (("loss", loss), ("accuracy", accuracy))
    }
    rate = {"step": step[::20], "value": np.float32(90 + 5 * rng.standard_normal(len(step[::20])))}
    return {"type": "curves", "run": run, "label": label, "width": 1, "series": series, "rate": rate}
