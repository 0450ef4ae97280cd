"""What the ranks of a cluster tell of one step, each by its own clock and of its own devices, as one message.

Devices are numbered through, rank after rank. Times are those of rank 0's clock: what was measured between the clocks
is taken off, and the message says how far that may be from the truth.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import numpy as np

from workbench.notebook.messages import Message, Table, column


def joined_sample(
    told: Sequence[Message], numbers: Sequence[Sequence[int]] | None, clocks: Sequence[Sequence[int]], began: int
) -> Message:
    """The message `sample` of a step, of what every rank has told of it.

    Args:
        told: by rank, `{"begun": ns, "sample": message}`.
        numbers: by rank the number, in the graph of all, of each node of its own; None where that is not known.
        clocks: by rank how far its clock is ahead of that of rank 0, and within what, both in ns.
        began: of the first sample, ns of rank 0's clock; 0 for this one.
    """
    samples = [one["sample"] for one in told]
    begun = [one["begun"] - clocks[rank][0] for rank, one in enumerate(told)]
    first = min(begun)
    late = [(start - first) / 1e3 for start in begun]
    devices = len(samples[0]["feeds"]["devices"]) if samples[0]["feeds"] else 1
    ends = [start / 1e6 + sample["seconds"] for start, sample in zip(late, samples, strict=True)]
    plans = [sample["compiled"] for sample in samples if sample["compiled"] is not None]
    return {
        "type": "sample",
        "step": samples[0]["step"],
        "seconds": max(ends),
        "compiled": max(plans, default=None),
        "at": (first - (began or first)) / 1e9,
        "begun": first,
        "feeds": joined_feeds([sample["feeds"] for sample in samples]),
        **_joined_spans(samples, numbers, late, devices),
        "clocks": {"within": column([within / 1e3 for _, within in clocks], "float32"),
                   "ahead": column([ns / 1e3 for ns, _ in clocks], "float64")},
    }  # fmt: skip


def joined_feeds(feeds: Sequence[Message]) -> Message:
    """What all devices were fed; their names are those that each rank has for its own."""
    if not all(feeds):
        return {}
    names = feeds[0]["names"]
    rows = {name: [count for feed in feeds for count in feed["rows"][name]] for name in names}
    return {
        "devices": [device for feed in feeds for device in feed["devices"]],
        "names": names,
        "rows": rows,
        "first": {name: list(accumulate(rows[name], initial=0))[:-1] for name in names},
        "shapes": {name: [shape for feed in feeds for shape in feed["shapes"][name]] for name in names},
        "dtypes": feeds[0]["dtypes"],
        "nbytes": [size for feed in feeds for size in feed["nbytes"]],
        "previews": {name: [part for feed in feeds for part in feed["previews"].get(name, [])] for name in names},
    }


def _joined_spans(
    samples: Sequence[Message], numbers: Sequence[Sequence[int]] | None, late: Sequence[float], devices: int
) -> Message:
    labels = Table()
    columns: dict[str, list[np.ndarray]] = {}
    members: list[np.ndarray] = []
    arrivals: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    count = 0
    for rank, sample in enumerate(samples):
        spans = dict(sample["spans"])
        own = np.array([labels.number(text) for text in sample["labels"]] or [-1], np.int64)
        to = np.array([*numbers[rank], -1] if numbers is not None else [-1], np.int64)
        spans["node"] = to[np.minimum(spans["node"], len(to) - 1)]
        spans["device"] = np.where(spans["device"] < 0, -1, spans["device"] + rank * devices)
        spans["label"] = own[spans["label"]]
        spans["process"] = np.full(len(spans["node"]), rank)
        spans["start"], spans["end"] = spans["start"] + late[rank], spans["end"] + late[rank]
        for name, values in spans.items():
            columns.setdefault(name, []).append(values)
        pairs = sample["members"]
        if numbers is not None:
            members.append(np.stack([pairs["span"] + count, to[pairs["node"]]]))
        come = sample["arrivals"]
        arrivals.append((come["span"] + count, come["device"] + rank * devices, come["at"] + late[rank]))
        count += len(spans["node"])
    pairs = np.concatenate(members, axis=1) if members else np.zeros((2, 0))
    span, device, at = (np.concatenate(parts) for parts in zip(*arrivals, strict=True))
    return {
        "spans": {name: column(np.concatenate(parts), _DTYPES.get(name, "int32")) for name, parts in columns.items()},
        "labels": labels.texts,
        "members": {"span": column(pairs[0], "int32"), "node": column(pairs[1], "int32")},
        "arrivals": {"span": column(span, "int32"), "device": column(device, "int32"), "at": column(at, "float32")},
    }


_DTYPES = {"start": "float32", "end": "float32", "collective": "uint8", "wait": "uint8", "within": "uint8"}


def joined_scopes(scopes: Sequence[Message], devices: int) -> Message:
    """`memory`, `drops`, `live` and `live_total` of the message `scopes`, of all ranks."""
    live = [
        entry if isinstance(entry["device"], str) else {**entry, "device": entry["device"] + rank * devices}
        for rank, one in enumerate(scopes)
        for entry in one["live"]
    ]
    first = scopes[0]["drops"]
    steps, sizes = _at_the_same_steps([one["drops"] for one in scopes])
    causes = dict(zip(np.asarray(first["step"]).tolist(), first["cause"], strict=False))
    return {
        "memory": dict(zip(("step", "bytes"), _at_the_same_steps([one["memory"] for one in scopes]), strict=True)),
        "drops": {
            "step": steps, "bytes": sizes, "cause": [causes.get(step, "") for step in steps.tolist()],
            "total": max(one["drops"]["total"] for one in scopes), "since": first["since"],
        },
        "live": sorted(live, key=lambda entry: (-entry["bytes"], entry["name"], str(entry["device"]))),
        "live_total": {key: sum(one["live_total"][key] for one in scopes) for key in scopes[0]["live_total"]},
    }  # fmt: skip


def _at_the_same_steps(tables: Sequence[Message]) -> tuple[np.ndarray, list[np.ndarray]]:
    """Steps, and a column for each device; a rank that says nothing of a step holds what it held before."""
    steps = [np.asarray(table["step"], np.float64) for table in tables]
    if all(np.array_equal(steps[0], other) for other in steps[1:]):
        return column(steps[0], "float64"), [values for table in tables for values in table["bytes"]]
    union: np.ndarray = np.unique(np.concatenate(steps))
    filled = [
        _filled(union, own, values) for own, table in zip(steps, tables, strict=True) for values in table["bytes"]
    ]
    return column(union, "float64"), filled


def _filled(union: np.ndarray, steps: np.ndarray, values: Any) -> np.ndarray:
    at = np.searchsorted(steps, union, side="right") - 1
    return column(np.where(at < 0, 0.0, np.append(np.asarray(values, np.float64), 0.0)[at]), "float64")
