"""Which values have the same shape although their sizes are unknown before a step runs.

Every dimension is a number or a symbol; a symbol stands for one size. Two unknown dimensions of equal declaration may
turn out different (one could be 1 and be broadcast), so only symbols that come from one place are equal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench.framework.op.record import Op
from workbench.graph.ssa import COLLECTIVES, Graph, Node, Value, values_of

Dim = object  # an int, or a symbol: any other object
Dims = tuple[Dim, ...]


def dims_of(graph: Graph) -> dict[Value, Dims]:
    """The dimensions of every value of a graph."""
    known: dict[Value, Dims] = {}
    for node in graph.nodes:
        for value in values_of(node.inputs):
            if value not in known:
                known[value] = _fresh(value)
        for value in values_of(node.outputs):
            known[value] = _fresh(value)
        if any(-1 in value.spec.shape for value in values_of(node.outputs)):
            known.update(_derived(node, known))
    return known


def _fresh(value: Value) -> Dims:
    return tuple(dim if dim >= 0 else object() for dim in value.spec.shape)


def _derived(node: Node, known: dict[Value, Dims]) -> dict[Value, Dims]:
    """Outputs whose dimensions follow from those of the inputs."""
    if node.type in COLLECTIVES:
        sources = [slot[0] for slot in node.inputs]
        return {v: known[source] for source, slot in zip(sources, node.outputs, strict=True) for v in slot}
    if not node.is_op:
        return {}
    ins = {slot.name: value for slot, value in zip(node.record.inputs, node.inputs, strict=True)}
    outs = {slot.name: value for slot, value in zip(node.record.outputs, node.outputs, strict=True)}
    results = {name: value for name, value in outs.items() if isinstance(value, Value)}
    if node.record.is_grad:  # a gradient has the shape of what it is the gradient of
        pairs = ((ins.get(name.removesuffix("@GRAD")), value) for name, value in results.items())
        return {value: known[source] for source, value in pairs if isinstance(source, Value)}
    if node.record.is_elementwise:
        operands = [known[v] for v in ins.values() if isinstance(v, Value)]
        return {v: _broadcast(operands, known[v]) for v in results.values()}
    given = {known[value] for value in values_of(node.inputs[:1])}
    if len(given) != 1:  # none, or terms whose shapes are not known to be equal
        return {}
    return _like_first(node.record, given.pop(), results, known)


def _like_first(
    record: Op, first: Dims, results: Mapping[str, Value], known: Mapping[Value, Dims]
) -> dict[Value, Dims]:
    """Outputs that have the shape of the first input, or as many rows."""
    same = {value: first for name, value in results.items() if name in record.like_x}
    if first:
        same.update((v, _with_rows(first, known[v])) for name, v in results.items() if name in record.same_rows)
    return same


def _broadcast(operands: Sequence[Dims], declared: Dims) -> Dims:
    """The dimensions of an element-wise result; a dimension several different symbols meet in stays unknown."""
    dims = list(declared)
    for axis in range(1, len(dims) + 1):
        met = {operand[-axis] for operand in operands if axis <= len(operand)} - {1}
        if not isinstance(dims[-axis], int) and len(met) == 1:
            dims[-axis] = met.pop()
    return tuple(dims)


def _with_rows(source: Dims, declared: Dims) -> Dims:
    if not declared or isinstance(declared[0], int):
        return declared
    return (source[0], *declared[1:])
