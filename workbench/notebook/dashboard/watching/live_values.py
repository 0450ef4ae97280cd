"""What lives in the memory of each device, and what the strategies for updates make of it."""

from __future__ import annotations

from workbench.executors.inspection.inspection import Inspection
from workbench.executors.planning.shapes import Shapes
from workbench.framework.program.variable import Parameter
from workbench.framework.values.dtype import DType
from workbench.framework.values.spec import size_of
from workbench.graph.ssa import ALL_REDUCE, FUSED_ALL_REDUCE, REDUCE, Graph, is_update
from workbench.notebook.dashboard.watching.graph_message import nbytes
from workbench.notebook.messages import Message

_SHOWN = 200
_SUMS = (ALL_REDUCE, FUSED_ALL_REDUCE, REDUCE)


def live_values(engine: Inspection) -> Message:
    """What exists now: parameters, state, and temporaries of the last step.

    Returns:
        `live` and `live_total` of the message `scopes`: the largest, the largest first; and how much there is in all.
    """
    entries = [*_persistable(engine), *_temporaries(engine)]
    largest = sorted(entries, key=lambda entry: (-entry["bytes"], entry["name"], entry["device"]))[:_SHOWN]
    total = {"count": len(entries), "bytes": sum(entry["bytes"] for entry in entries)}
    return {"live": largest, "live_total": total}


def _persistable(engine: Inspection) -> list[Message]:
    entries = []
    for variable in engine.program.persistables() if engine.started else ():
        kind = "parameter" if isinstance(variable, Parameter) else "state"
        for place in range(len(engine.places)):
            tensor = engine.tensor(variable.name, place)
            if tensor is not None and tensor.initialized:
                entries.append(_entry(variable.name, place, kind, tensor.array.shape, variable.dtype))
    return entries


def _temporaries(engine: Inspection) -> list[Message]:
    binding = engine.last
    if binding is None:
        return []
    specs, entries = binding.plan.shapes.specs, []
    for (name, place), value in list(binding.plan.graph.newest.items()):
        spec = specs.get(value)
        if not value.persistable and spec is not None and -1 not in spec.shape:
            kind = "feed" if value.is_data else "temporary"
            entries.append(_entry(name, place, kind, spec.shape, spec.dtype))
    return entries


def _entry(name: str, place: int, kind: str, shape: tuple[int, ...], dtype: DType) -> Message:
    size = size_of(shape) * dtype.itemsize
    return {"name": name, "device": place, "kind": kind, "shape": list(shape), "dtype": dtype.name, "bytes": size}


def totals(strategy: str, graph: Graph) -> Message:
    """Per device the bytes of the parameters and of the optimizer state it updates, and of summed gradients it gets."""
    shapes = Shapes(graph, {})
    devices = [{"parameters": 0, "state": 0, "gradients": 0} for _ in range(graph.devices)]
    block = graph.program.global_block()
    for node in graph.nodes:
        for value in node.writes:
            if is_update(node) and value.persistable:
                kind = "parameters" if isinstance(block.vars.get(value.name), Parameter) else "state"
                devices[value.place][kind] += nbytes(value, shapes)
            elif node.type in _SUMS:
                devices[value.place]["gradients"] += nbytes(value, shapes)
    return {"strategy": strategy, "devices": devices}
