"""Results written the way they are needed next: what a product makes per head goes straight to where heads are joined.

`matmul -> transpose -> reshape` is a product, a view and a copy. If the product writes with the strides of the
transposed result, the reshape is a view, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench.executors.planning.memory.buckets import GradientBuckets
from workbench.executors.planning.memory.request import MemoryRequest
from workbench.executors.planning.shapes import Specs
from workbench.framework.values.views import Transposed
from workbench.graph.ssa import Node, Value

Layouts = Mapping[Value, tuple[int, ...]]
"""Strides in bytes of the values that do not lie in memory row by row."""


def assign_layouts(request: MemoryRequest, buckets: GradientBuckets) -> Layouts:
    """The strides of all results that are written otherwise than row by row."""
    if not request.in_place:
        return {}
    layouts: dict[Value, tuple[int, ...]] = {}
    for node, value in request.produced:
        placed = value in request.staged or value in request.in_scope or value in buckets.spots
        if node in request.native and not placed:
            strides = assigned_strides(node, value, request.readers, request.specs)
            if strides is not None:
                layouts[value] = strides
    return layouts


def assigned_strides(
    node: Node, value: Value, readers: Mapping[Value, Sequence[Node]], specs: Specs
) -> tuple[int, ...] | None:
    """Strides in bytes for a result that is only transposed and then only reshaped; None for any other.

    Args:
        node: writes the value. readers: of the content of every value.
    """
    if not node.is_op or not node.record.layout_free:
        return None
    transposes = _only_reader(value, readers)
    order = None if transposes is None else _order(transposes)
    if transposes is None or order is None:
        return None
    (seen,) = transposes.writes[:1]
    joins = _only_reader(seen, readers)
    if joins is None or joins.record.view is None or not joins.record.view.keeps_order:
        return None
    step, strides = specs[value].dtype.itemsize, [0] * len(order)
    for axis in reversed(range(len(order))):
        strides[order[axis]] = step
        step *= specs[seen].shape[axis]
    return tuple(strides) if specs[value].dtype.itemsize in strides[-2:] else None


def _only_reader(value: Value, readers: Mapping[Value, Sequence[Node]]) -> Node | None:
    nodes = readers.get(value, ())
    one = len(nodes) == 1 and nodes[0].is_op and nodes[0].places == (value.place,)
    return nodes[0] if one and not value.persistable else None


def _order(node: Node) -> list[int] | None:
    """The axes of the input in the order of the result's, of a transposition."""
    view = node.record.view
    return view.axes(len(node.writes[0].spec.shape), node.attrs) if isinstance(view, Transposed) else None
