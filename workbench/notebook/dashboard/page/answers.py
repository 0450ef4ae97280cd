"""Answers to what the page asks; they may take a while."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from workbench.executors.profiling.chrome import write_trace
from workbench.notebook.dashboard.model.model import Model
from workbench.notebook.dashboard.watching.node_message import node_message, statistics_now, statistics_of_nan
from workbench.notebook.dashboard.watching.ranks.cluster_watch import ClusterWatch
from workbench.notebook.dashboard.watching.samples import fed_message_of_nan
from workbench.notebook.dashboard.watching.watch import Watch
from workbench.notebook.messages import Message


def answer(model: Model, message: Message) -> Message | None:
    """The answer to a `node`, `statistics`, `fed`, `sample` or `trace` message; None where there is none."""
    kind = message.get("type")
    if kind in ("node", "statistics"):
        return {**_of_node(model, str(kind), message), "request": message.get("request")}
    if kind == "fed":
        return {**_fed(model, message.get("step")), "request": message.get("request")}
    if kind == "sample":
        return model.watch.sample_at(int(message["step"]))
    return {**trace_file(model, message.get("step")), "request": message.get("request")} if kind == "trace" else None


def _fed(model: Model, step: int | None) -> Message:
    """What the step with the first NaN was fed; of other steps nothing is kept."""
    watch, nan = model.watch, model.nan
    if nan is None or nan.step != step or not isinstance(watch, Watch):
        return {"type": "fed", "error": f"what step {step} was fed is not kept"}
    return fed_message_of_nan(watch.engine, nan, watch.graph_number)


def _of_node(model: Model, kind: str, message: Message) -> Message:
    watch, number = model.watch, int(message["node"])
    if message.get("graph") != watch.graph_number or not 0 <= number < len(watch.graph.nodes):
        return {"type": kind, "error": "the graph has changed since", "note": "", "values": []}
    if kind == "node":
        return node_message(watch.graph, watch.shapes, number, watch.samples.kept)
    node, nan = watch.graph.nodes[number], model.nan
    if nan is not None and message.get("step") == nan.step:
        return statistics_of_nan(nan, node)
    if isinstance(watch, ClusterWatch):
        why = "its values are in the ranks of a cluster; a run on devices of this process, devices=2, shows them"
        return {"type": kind, "error": why, "note": "", "values": []}
    newest = watch.newest_batch() if isinstance(watch, Watch) else None
    if not isinstance(watch, Watch) or newest is None:
        return {"type": kind, "error": "no step has been looked at yet: run one", "note": "", "values": []}
    step, arrays = newest
    return statistics_now(watch.engine, watch.fetches_of_last(), arrays, node, f"of the batch of step {step}")


def trace_file(model: Model, step: int | None) -> Message:
    """A step that was looked at, by its number from 1, as a file for Perfetto; None: the newest.

    Raises:
        PreconditionNotMet: no step has been looked at. NotFound: this one has not been, or is no longer kept.
    """
    told = model.watch.events_of(step)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.json"
        write_trace(path, told)
        data = path.read_bytes()
    name = f"{model.subject.name}-step-{told[-1].step + 1}.json"
    return {"type": "file", "name": name, "mime": "application/json", "data": np.frombuffer(data, np.uint8)}
