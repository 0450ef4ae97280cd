"""What a user reads when a node of a graph fails, run or prepared: op, device, inputs, and the line that built it."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from workbench.errors import EnforceNotMet, NoMemory, located
from workbench.framework.outside import is_from_outside
from workbench.framework.program.failures import op_failure
from workbench.framework.values.spec import Spec, size_of
from workbench.graph.ssa import Graph, Node, Value, values_of


class Explained:
    """`with Explained(node, graph, specs):` what goes wrong inside is told as a failure of the node.

    What a signal handler raises stays as it is. There is one for every row of a binding: no generator, which would take
    longer than some rows.

    Args:
        graph: whose node it is. specs: what its inputs are like in this plan.

    Raises:
        EnforceNotMet: as `node_failure` makes it.
    """

    __slots__ = ("_graph", "_node", "_specs")

    def __init__(self, node: Node, graph: Graph, specs: Mapping[Value, Spec]) -> None:
        self._node, self._graph, self._specs = node, graph, specs

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not is_from_outside(error):
            failure = node_failure(self._node, self._graph, self._specs.__getitem__, error)
            if failure is not error:
                raise failure from error


def node_failure(node: Node, graph: Graph, spec_of: Callable[[Value], Spec], error: Exception) -> EnforceNotMet:
    """The exception for a node that failed while it ran, or while it was prepared.

    Args:
        graph: whose node it is.
        spec_of: what a value is like in this step, which may be more than the program declares.
    """
    if isinstance(error, EnforceNotMet) and error.located:
        return error
    inputs: list[tuple[str, list[str]]] = []
    for slot, values in zip(node.record.inputs, node.inputs, strict=True) if node.is_op else ():
        texts = [f"{value.name} {spec_of(value)}" for value in values_of([values])]
        inputs += [(slot.name, texts)] if texts else []
    return op_failure(node.type, f" on {graph.names(node.places)}", inputs, node.site, error)


def no_memory(graph: Graph, specs: Mapping[Value, Spec], error: Exception) -> EnforceNotMet:
    """The exception where the system gives no memory for a plan: it names whose result takes most."""
    sizes = {v: size_of(spec.shape) * spec.dtype.itemsize for v, spec in specs.items() if -1 not in spec.shape}
    value = max(sizes, key=lambda v: sizes[v])
    node = next((n for n in graph.nodes if value in n.writes), None)
    largest = f"the largest is {value.name}, {specs[value]}, of {sizes[value]:,} bytes"
    if node is None:
        return located(NoMemory(f"no memory for the values of a step, {largest}: {error}"))
    lines = [f"op {node.type!r} on {graph.names(node.places)}: no memory for the values of a step, {largest}: {error}"]
    return located(NoMemory("\n".join([*lines, f"  at {node.site}"])))
