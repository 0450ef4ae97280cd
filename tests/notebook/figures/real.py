"""Real programs to draw, messages to draw them from, and what is written in a picture."""

import xml.etree.ElementTree as ElementTree
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from tests.notebook.figure_messages import (
    graph_message,
    i32,
    sample_message,
)
from workbench.experiments.bench.workloads import WORKLOADS, training
from workbench.notebook.figures.write import svg

Message = dict[str, Any]


class Real:
    """A program on several devices, and the messages about a step of it."""

    def __init__(self, name: str, devices: int) -> None:
        self.training = training(WORKLOADS[name], devices)
        self.training.step()
        self.ssa = self.training.executor.graph()
        self.graph = graph_message(self.ssa, name)
        self.sample = sample_message(self.training, self.ssa)


def texts(figure: Figure) -> list[str]:
    """Everything that is written in a picture."""
    root = ElementTree.fromstring(svg(figure))
    return ["".join(e.itertext()) for e in root.iter() if e.tag.endswith("}text")]


def fed(rows: list[int], first: list[int] | None = None, **more: Any) -> Message:
    """A sample in which devices were fed so many rows of `x`."""
    part = {
        "devices": [f"cpu:{k}" for k in range(len(rows))],
        "names": ["x"],
        "rows": {"x": rows},
        "shapes": {"x": [[n, 4] for n in rows]},
        "dtypes": {"x": "float32"},
        "nbytes": [16 * n for n in rows],
        **({"first": {"x": first}} if first is not None else {}),
        **more,
    }
    return {"type": "sample", "step": 7, "feeds": part}


def spans(*rows: tuple[int, int, float, float, int]) -> Message:
    """A sample of (device, thread, start, end, collective)."""
    device, thread, start, end, together = zip(*rows)
    columns = {
        "node": i32([-1] * len(rows)),
        "device": i32(device),
        "thread": i32(thread),
        "label": i32([0] * len(rows)),
    }
    times = {"start": np.array(start, np.float32), "end": np.array(end, np.float32)}
    return {"type": "sample", "step": 1, "labels": ["mul"], "spans": {**columns, **times, "collective": i32(together)}}


def state(**run: Any) -> Message:
    subject = {"name": "net", "kind": "run", "devices": ["cpu:0", "cpu:1"], "strategy": "AllReduce", "graph": 1}
    default = {"id": 1, "name": "net", "state": "running", "step": 120, "steps": 2400, "seconds": 1.34, "rate": 92.1}
    return {"type": "state", "subject": subject, "run": {**default, "last": {"loss": 0.41234}, "error": None, **run}}
