"""Running a graph one node after the other on fresh arrays: what a graph means, without plan, memory or threads."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from workbench.framework.expr.numpy_functions import numpy_xp
from workbench.framework.op.record import find_op
from workbench.framework.values.random import RandomStream
from workbench.framework.values.rows import Rows, dense
from workbench.graph.ssa import (
    ALL_REDUCE,
    BROADCAST,
    FETCH,
    FUSED_ALL_REDUCE,
    FUSED_BROADCAST,
    FUSED_ELEMENTWISE,
    FUSED_UPDATE,
    REDUCE,
    SCALE_LOSS_GRAD,
    Graph,
    Node,
    Value,
)

Values = dict[Value, Any]


Found = dict[str, np.ndarray]


def interpret(graph: Graph, start: Callable[[Value], Any]) -> tuple[Found, Found]:
    """Run the nodes in order.

    Args:
        start: the array of a value nobody writes.

    Returns:
        all persistable values that were written, and everything fetched, by `name@place`.
    """
    run = _Run(start)
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            run.node(node)
    newest = {(v.name, v.place): v for v in sorted(run.values, key=lambda v: v.version) if v.persistable}
    state = {f"{name}@{place}": dense(np, run.values[v]) for (name, place), v in newest.items() if v.version}
    return state, run.fetched


def bits(results: tuple[Found, Found]) -> list[dict[str, Any]]:
    """What `interpret` found, to be compared to the bit."""
    return [{name: (a.dtype, a.shape, a.tobytes()) for name, a in part.items()} for part in results]


class _Run:
    def __init__(self, start: Callable[[Value], Any]) -> None:
        self.start = start
        self.values: Values = {}
        self.fetched: Found = {}

    def read(self, slot: Any) -> Any:
        if slot is None or isinstance(slot, list):
            return None if slot is None else [self.read(value) for value in slot]
        if slot not in self.values:
            self.values[slot] = self.start(slot)
        stored = self.values[slot]
        return stored.copy() if isinstance(stored, np.ndarray) else stored

    def write(self, slot: Any, result: Any) -> None:
        if isinstance(slot, list):
            for value, part in zip(slot, result, strict=True):
                self.write(value, part)
        elif slot is not None and result is not None:
            self.values[slot] = result if isinstance(result, Rows) or hasattr(result, "passes") else np.array(result)

    def node(self, node: Node) -> None:
        bodies: Mapping[str, Any] = {
            ALL_REDUCE: self.all_reduce, FUSED_ALL_REDUCE: self.all_reduce, REDUCE: self.reduce,
            BROADCAST: self.broadcast, FUSED_BROADCAST: self.broadcast, SCALE_LOSS_GRAD: self.scale,
            FETCH: self.fetch, FUSED_UPDATE: self.update, FUSED_ELEMENTWISE: self.elementwise,
        }  # fmt: skip
        bodies.get(node.type, self.op)(node)

    def op(self, node: Node) -> None:
        extra: dict[str, Any] = {}
        if "wanted" in node.record.needs:
            extra["wanted"] = tuple(slot is not None for slot in node.outputs)
        if "rng" in node.record.needs:
            extra["rng"] = RandomStream(7, node.attrs["stream"], node.place)
        self.call(node.type, node.inputs, node.outputs, {**node.attrs, **extra})

    def call(self, kind: str, inputs: Any, outputs: Any, attrs: dict[str, Any]) -> None:
        results = find_op(kind).forward(numpy_xp, *[self.read(slot) for slot in inputs], **attrs)
        for slot, result in zip(outputs, results if isinstance(results, tuple) else (results,), strict=True):
            self.write(slot, result)

    def update(self, node: Node) -> None:
        count = len(next(slot for slot in node.inputs if slot is not None))
        for i in range(count):
            one = [[None if slot is None else slot[i] for slot in side] for side in (node.inputs, node.outputs)]
            self.call(node.attrs["update"], *one, node.attrs["attrs"])

    def elementwise(self, node: Node) -> None:
        inputs = self.read(node.inputs[0])
        self.write(node.outputs[0], [result.evaluate(numpy_xp, *inputs) for result in node.attrs["results"]])

    def all_reduce(self, node: Node) -> None:
        for parts, results in zip(node.inputs, node.outputs, strict=True):
            self.write(results, [_sum(self.read(parts))] * len(results))

    def reduce(self, node: Node) -> None:
        ((parts,), (results,)) = node.inputs, node.outputs
        values, root = self.read(parts), node.attrs["root"]
        order = values if isinstance(values[0], Rows) else [values[root], *values[:root], *values[root + 1 :]]
        self.write(results, [_sum(order)])

    def broadcast(self, node: Node) -> None:
        for parts, results in zip(node.inputs, node.outputs, strict=True):
            self.write(results, self.read(parts) * len(results))

    def scale(self, node: Node) -> None:
        (value,) = node.writes
        factor = 1.0 if node.attrs["strategy"] == "One" else 1.0 / node.attrs["ranks"]
        self.write(value, np.full(value.spec.shape, factor, value.spec.dtype.numpy))

    def fetch(self, node: Node) -> None:
        for value in node.reads:
            self.fetched[f"{value.name}@{value.place}"] = dense(np, self.read(value))


def _sum(parts: list[Any]) -> Any:
    if isinstance(parts[0], Rows):
        return Rows(np.concatenate([p.rows for p in parts]), np.concatenate([p.values for p in parts]), parts[0].height)
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    return total


def some_values(rows: Callable[[Value], int] = lambda value: 3, classes: int = 3) -> Callable[[Value], Any]:
    """A `start` for `interpret`: numbers that depend on the name, and for data on the device too.

    Args:
        rows: the size unknown dimensions of a value have.
        classes: integers are below it.
    """

    def start(value: Value) -> Any:
        key = f"{value.name}@{value.place}" if value.is_data else value.name
        r = np.random.default_rng(zlib.crc32(key.encode()))
        shape = [rows(value) if dim < 0 else dim for dim in value.spec.shape]
        dtype = value.spec.dtype.numpy
        if dtype.kind in "iu":
            return r.integers(0, classes, shape).astype(dtype)
        return r.uniform(0.1, 0.9, shape).astype(dtype)

    return start
