"""Leaving out what nobody can observe."""

from __future__ import annotations

from workbench.framework.op.record import Op
from workbench.framework.program.roles import BACKWARD, OPTIMIZE
from workbench.graph.passes.rewrite import renumber
from workbench.graph.ssa import FUSED_ELEMENTWISE, SCALE_LOSS_GRAD, Graph, Node, Value, values_of

_OURS = __name__.partition(".")[0] + "."


class DeadCode:
    """Removes nodes whose results are not read, not fetched and not persistable.

    All ops always run (X-47), so a node goes only if nobody can tell: no forward op, whose result can be looked at in
    the local scope; no op that users declared (its body may do anything), that runs blocks, or that reads integers
    (labels and indices, which it may refuse); no collective (other trainers count on it). Random streams are numbered
    in the program and do not shift.
    """

    name = "dead_code"
    exact = True

    def __call__(self, graph: Graph) -> bool:
        needed: set[Value] = set()
        dead: dict[Node, tuple[Node, ...]] = {}
        for node in reversed(graph.nodes):
            written = list(values_of(node.outputs))
            if any(value in needed or value.persistable for value in written) or not (written and _is_silent(node)):
                needed.update(values_of(node.inputs))
            else:
                dead[node] = ()
        if dead:
            graph.replace(dead)
            renumber(graph)
        return bool(dead)


def _is_silent(node: Node) -> bool:
    """Whether a node does nothing but compute its results, whatever the data."""
    if not node.role & (BACKWARD | OPTIMIZE):
        return False
    if node.type in (SCALE_LOSS_GRAD, FUSED_ELEMENTWISE):
        return True
    if not node.is_op or "run_block" in node.record.needs or not _is_ours(node.record):
        return False
    return not any(value.spec.dtype.kind in ("int", "uint") for value in values_of(node.inputs))


def _is_ours(record: Op) -> bool:
    owner = record.forward_of or record
    return str(owner.forward.__module__).startswith(_OURS)
