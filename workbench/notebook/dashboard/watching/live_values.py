"""What lives in the memory of each device, and what the strategies for updates make of it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np

from workbench.executors.inspection.inspection import Inspection
from workbench.executors.planning.shapes import Shapes
from workbench.framework.program.variable import Parameter
from workbench.framework.values.dtype import DType
from workbench.framework.values.spec import size_of
from workbench.graph.ssa import ALL_REDUCE, FUSED_ALL_REDUCE, REDUCE, Graph, is_update
from workbench.notebook.dashboard.watching.graph_message import nbytes
from workbench.notebook.messages import Message

_SHOWN = 200
_KEPT = ("parameter", "state")  # from step to step
_SUMS = (ALL_REDUCE, FUSED_ALL_REDUCE, REDUCE)


class _Extent(NamedTuple):
    """Where a value lies: so many bytes from the beginning of some memory."""

    memory: Hashable
    begin: int
    end: int


class _Covered:
    """Bytes of one memory that have been counted, as extents in their order that do not touch."""

    def __init__(self) -> None:
        self._begins: list[int] = []
        self._ends: list[int] = []

    def add(self, begin: int, end: int) -> int:
        """Count an extent; how many bytes of it had not been counted before."""
        i, j = bisect_left(self._ends, begin), bisect_right(self._begins, end)
        known = sum(min(end, self._ends[k]) - max(begin, self._begins[k]) for k in range(i, j))
        if i < j:
            begin, end, size = min(begin, self._begins[i]), max(end, self._ends[j - 1]), end - begin
        else:
            size = end - begin
        self._begins[i:j], self._ends[i:j] = [begin], [end]
        return size - known


def live_values(engine: Inspection) -> Message:
    """What exists now: parameters, state, and temporaries of the last step.

    Returns:
        `live` and `live_total` of the message `scopes`: the largest, the largest first, of each of which `own` are the
        bytes that no larger one lies in; and how much there is in all, every byte counted once, how much of that are
        parameters and state, and of these how much several devices have in common.
    """
    placed = [*_persistable(engine), *_temporaries(engine)]
    placed.sort(key=lambda one: (-one[0]["bytes"], one[0]["name"], str(one[0]["device"])))
    covered: defaultdict[Hashable, _Covered] = defaultdict(_Covered)
    entries = [{**entry, "own": covered[extent.memory].add(extent.begin, extent.end)} for entry, extent in placed]
    kept = [entry for entry in entries if entry["kind"] in _KEPT]
    total = {
        "count": len(entries),
        "bytes": sum(entry["own"] for entry in entries),
        "kept": sum(entry["own"] for entry in kept),
        "shared": sum(entry["own"] for entry in kept if isinstance(entry["device"], str)),
    }
    return {"live": entries[:_SHOWN], "live_total": total}


def _persistable(engine: Inspection) -> list[tuple[Message, _Extent]]:
    """Storage that several devices have in common stands there once."""
    stored = []
    for variable in engine.program.persistables() if engine.started else ():
        kind = "parameter" if isinstance(variable, Parameter) else "state"
        holders: dict[_Extent, list[int]] = {}
        shapes = {}
        for place in range(len(engine.places)):
            tensor = engine.tensor(variable.name, place)
            if tensor is not None and tensor.initialized:
                extent = _extent_of(tensor.array)
                holders.setdefault(extent, []).append(place)
                shapes[extent] = tensor.array.shape
        for extent, places in holders.items():
            device = places[0] if len(places) == 1 else f"shared by {len(places)} devices"
            stored.append((_entry(variable.name, device, kind, shapes[extent], variable.dtype), extent))
    return stored


def _extent_of(array: Any) -> _Extent:
    if not isinstance(array, np.ndarray):  # on a GPU
        return _Extent(id(array), 0, array.nbytes)
    begin = array.__array_interface__["data"][0]
    return _Extent("host", begin, begin + array.nbytes)


def _temporaries(engine: Inspection) -> list[tuple[Message, _Extent]]:
    binding = engine.last
    if binding is None:
        return []
    plan, temporaries = binding.plan, []
    for (name, place), value in list(plan.graph.newest.items()):
        spec = plan.shapes.specs.get(value)
        if value.persistable or spec is None or -1 in spec.shape or value in binding.reductions.contributions:
            continue  # the last: a sum that its update makes on the way, which is nowhere
        kind, size = "feed" if value.is_data else "temporary", size_of(spec.shape) * spec.dtype.itemsize
        ref = plan.refs.get(value)
        begin = 0 if ref is None else ref.root.offset + ref.offset
        memory = (name, place) if ref is None else ref.root.place
        temporaries.append((_entry(name, place, kind, spec.shape, spec.dtype), _Extent(memory, begin, begin + size)))
    return temporaries


def _entry(name: str, device: int | str, kind: str, shape: tuple[int, ...], dtype: DType) -> Message:
    size = size_of(shape) * dtype.itemsize
    return {"name": name, "device": device, "kind": kind, "shape": list(shape), "dtype": dtype.name, "bytes": size}


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
