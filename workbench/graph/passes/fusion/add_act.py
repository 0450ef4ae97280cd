"""A sum and its activation become one node, and so do their backward ops."""

from __future__ import annotations

from collections.abc import Callable

from workbench.graph.passes.branches import behind_branches
from workbench.graph.passes.fusion.activation import (
    Activation,
    activation_of,
    made_of,
    only_reader,
    results_of,
    slots_of,
)
from workbench.graph.passes.rewrite import NodePositions, join, renumber
from workbench.graph.ssa import Graph, Node, Uses
from workbench.ops.math.arithmetic import ADD
from workbench.ops.nn.fused import FUSED_ELEMWISE_ADD_ACTIVATION, is_activation, reads_result

Group = tuple[list[Node], Node]


class FuseAddAct:
    """`elementwise_add` and the activation of its result become `fused_elemwise_add_activation`.

    Where the two have backward ops these must hand over to each other alone, or nothing is joined; a sum that is read
    elsewhere too is kept as `IntermediateOut`.

    Args:
        joins: which nodes may be joined; all unless given, see `ElementwiseChains`.
    """

    name = "fuse_add_act"
    exact = True

    def __init__(self, joins: Callable[[Node], bool] | None = None) -> None:
        self._joins = joins

    def __call__(self, graph: Graph) -> bool:
        uses = Uses(graph.nodes)
        apart = behind_branches(graph) if self._joins is not None else set()
        sums = [node for node in graph.nodes if node.type == ADD.type]
        acts = [activation_of(node.writes[0], is_activation, uses) for node in sums]
        pairs = [_Pair(node, act, uses) for node, act in zip(sums, acts, strict=True) if act is not None]
        positions = NodePositions(graph, (node for pair in pairs for node in pair.nodes))
        suits = [p for p in pairs if apart.isdisjoint(p.nodes) and self._suits(p) and not p.is_overwritten(graph)]
        groups = [group for pair in suits if pair.fits(positions) for group in pair.groups()]
        changed = join(graph, groups)
        if changed:
            renumber(graph)
        return changed

    def _suits(self, pair: _Pair) -> bool:
        return self._joins is None or all(self._joins(node) for node in pair.nodes)


class _Pair:
    """A sum, its activation and the backward ops of both."""

    def __init__(self, add: Node, act: Activation, uses: Uses) -> None:
        self.add, self.act = add, act
        self.add_back = only_reader(act.gradient, uses) if act.gradient is not None else None

    @property
    def nodes(self) -> list[Node]:
        return [n for n in (self.add, self.act.node, self.act.back, self.add_back) if n is not None]

    def is_overwritten(self, graph: Graph) -> bool:
        """Whether the sum is another value by the time at which the joined backward op would read it."""
        own = self.add.writes[0]
        newest = graph.newest.get((own.name, own.place), own)
        return self.act.back is not None and newest.version != own.version

    def fits(self, positions: NodePositions) -> bool:
        """Whether both directions can be joined."""
        if not positions.meet([self.add, self.act.node]):
            return False
        if self.act.back is None:
            return True
        back = self.add_back
        if back is None or back.type != ADD.grad_type or back.inputs[:2] != self.add.inputs:
            return False
        return positions.meet([self.act.back, back])

    def groups(self) -> list[Group]:
        """The members and the node for them, forward and backward."""
        act, fused = self.act.node.type, FUSED_ELEMWISE_ADD_ACTIVATION
        kept = self.add.writes[0] if self.act.others or not reads_result(act) else None
        attrs = {"functor_list": (act, ADD.type), "save_intermediate_out": kept is not None}
        given = {**slots_of(self.add), "Out": self.act.result, "IntermediateOut": kept}
        forward = [self.add, self.act.node]
        groups = [(forward, made_of(forward, fused.type, given, given, attrs))]
        if self.act.back is not None and self.add_back is not None:
            backward = [self.act.back, self.add_back]
            given = {**given, "Out@GRAD": slots_of(self.act.back)["Out@GRAD"]}
            fused_back = made_of(backward, fused.grad_type, given, results_of(self.add_back), attrs)
            groups.append((backward, fused_back))
        return groups
