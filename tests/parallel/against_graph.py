"""Steps of an executor against its own graph run node by node on fresh arrays, to the bit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tests.graph.interpret import _Run
from tests.parallel.memory.plan_checker import check_plan
from tests.parallel.models import Model
from tests.planning.stage_checkers import check_stages
from workbench.executors.reference.runner import OpRunner
from workbench.framework.values.rows import Rows, dense
from workbench.graph.ssa import FETCH, Graph, Node, Value


class Walk(_Run):
    """A graph run in order; sub-blocks too, and results lie in memory as in the serial executor."""

    def __init__(self, graph: Graph, start: Any) -> None:
        super().__init__(start)
        self._runners = [OpRunner(graph.program, place, {}) for place in range(graph.devices)]
        self._keeps_layout = False
        with np.errstate(all="ignore"):
            for node in graph.nodes:
                self.node(node)

    def op(self, node: Node) -> None:
        self._keeps_layout = node.record.is_view
        extra = self._runners[node.place].extras(node.origins[0])
        if "wanted" in node.record.needs:
            extra["wanted"] = tuple(
                any(v is not None for v in slot) if isinstance(slot, list) else slot is not None
                for slot in node.outputs
            )
        self.call(node.type, node.inputs, node.outputs, {**node.attrs, **extra})
        self._keeps_layout = False

    def read(self, slot: Any) -> Any:
        if isinstance(slot, list):
            return [self.read(value) for value in slot]
        stored = super().read(slot)
        return self.values[slot].copy(order="K") if isinstance(stored, np.ndarray) else stored

    def write(self, slot: Any, result: Any) -> None:
        if isinstance(slot, Value) and isinstance(result, np.ndarray | np.generic):
            self.values[slot] = np.array(result, order="K" if self._keeps_layout else "C")
        else:
            super().write(slot, result)


def step(model: Model, exe: Any, feed: Mapping[str, Any], names: Sequence[str]) -> None:
    """One step, whose plan, fetched values and changes in the scopes are checked."""
    inspection = exe.inspection
    fed = inspection.fed(feed)
    inspection.binding(tuple(names), feed)
    find, places = inspection.tensor, range(len(inspection.places))
    before = {
        (name, place): np.array(tensor.array)
        for name in inspection.persistables
        for place in places
        if (tensor := find(name, place)) is not None
    }
    rates = {name: schedule() for name, schedule in model.main.lr_schedulers.items()}

    def start(value: Value) -> Any:
        if value.name in rates:
            return np.full(value.spec.shape, rates[value.name], value.spec.dtype.numpy)
        return before[value.name, value.place] if value.persistable else fed.per_device[value.place][value.name]

    graph = inspection.graph(tuple(names))
    walk = Walk(graph, start)
    results = exe.run_step(feed, list(names), return_merged=False)
    assert inspection.last is not None
    check_plan(inspection.last.plan)
    check_stages(inspection.last.plan)
    shared = inspection.shared_variables()
    for arrays, node in zip(results, [n for n in graph.nodes if n.type == FETCH], strict=True):
        for array, value in zip(arrays, node.reads, strict=True):
            _same(array, walk.read(_shared(graph, value, shared)), value)
    for (name, place), value in graph.newest.items():
        tensor = find(name, place) if value.persistable else None
        if tensor is not None:
            _same(tensor.array, walk.read(_shared(graph, value, shared)), value)


def _shared(graph: Graph, value: Value, shared: set[str]) -> Value:
    """The value that devices with one storage see: the newest of all (X-23)."""
    if value.name not in shared:
        return value
    others = [graph.newest[value.name, p] for p in range(graph.devices) if (value.name, p) in graph.newest]
    return max(others, key=lambda v: v.version)


def _same(array: np.ndarray, expected: np.ndarray | Rows, value: Value) -> None:
    expected = dense(np, expected)
    assert array.dtype == expected.dtype and array.shape == expected.shape, value
    assert array.tobytes() == expected.tobytes(), f"{value}: {array} is not {expected}"
