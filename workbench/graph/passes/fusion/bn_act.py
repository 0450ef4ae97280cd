"""`batch_norm`, perhaps an addition, and an activation become one node, and so do their backward ops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from workbench.framework.op.record import Op
from workbench.graph.passes.branches import behind_branches
from workbench.graph.passes.dims import Dims, dims_of
from workbench.graph.passes.fusion.activation import (
    Activation,
    activation_of,
    is_temporary,
    made_of,
    only_reader,
    results_of,
    slots_of,
)
from workbench.graph.passes.rewrite import NodePositions, join, renumber
from workbench.graph.ssa import Graph, Node, Slot, Uses, Value
from workbench.ops.math.arithmetic import ADD
from workbench.ops.nn.fused import FUSED_BATCH_NORM_ACT, FUSED_BN_ADD_ACTIVATION, reads_result
from workbench.ops.nn.norm import BATCH_NORM


class FuseBnAct:
    """`batch_norm` and the activation of its result become `fused_batch_norm_act`."""

    name = "fuse_bn_act"
    exact = True

    def __call__(self, graph: Graph) -> bool:
        return _rewrite(graph, _activated_norms)


class FuseBnAddAct:
    """`batch_norm`, the sum of its result and another value of the same shape, and the activation of that sum become
    `fused_bn_add_activation`.

    Args:
        native: nodes run in kernels where they can. Then a graph with branches is left alone: a sum of whose operands
            one has no shape until it runs would take the others out of kernels, and give other bits.
    """

    name = "fuse_bn_add_act"
    exact = True

    def __init__(self, native: bool = False) -> None:
        self._native = native

    def __call__(self, graph: Graph) -> bool:
        if self._native and behind_branches(graph):
            return False
        return _rewrite(graph, _activated_sums)


@dataclass
class _Match:
    """The nodes of a pattern and what the joined ones read and write.

    Attributes:
        fused: the op that is put in their place.
        forward, backward: in the order of the graph; `backward` is empty in a graph without gradients.
        given, results: extra slots of the joined forward (and backward) node.
    """

    fused: Op
    forward: list[Node]
    backward: list[Node]
    act: Activation
    given: dict[str, Slot]
    results: dict[str, Slot]

    @property
    def nodes(self) -> list[Node]:
        return [*self.forward, *self.backward]

    def fits(self, positions: NodePositions) -> bool:
        """Whether each side can be joined where its last member is."""
        return positions.meet(self.forward) and (not self.backward or positions.meet(self.backward))

    def groups(self) -> Iterator[tuple[list[Node], Node]]:
        """The members and the node for them, forward and backward."""
        norm = self.forward[0]
        attrs = {**norm.attrs, "act_type": self.act.node.type}
        given = {**slots_of(norm), **self.given}
        results = {**results_of(norm), "Y": self.act.result}
        yield self.forward, made_of(self.forward, self.fused.type, given, results, attrs)
        if self.backward and self.act.back is not None:
            back = self.backward[-1]
            arriving = slots_of(self.act.back)["Out@GRAD"]
            given = {**slots_of(back), **self.given, "Y": self.act.result, "Y@GRAD": arriving}
            results = {**results_of(back), **self.results}
            yield self.backward, made_of(self.backward, self.fused.grad_type, given, results, attrs)


def _rewrite(graph: Graph, find: Callable[[Graph, Uses], Iterator[_Match]]) -> bool:
    """Join every match that can be joined; a node takes part in one only."""
    if all(node.type != BATCH_NORM.type for node in graph.nodes):
        return False
    matches = list(find(graph, Uses(graph.nodes)))
    positions = NodePositions(graph, (node for match in matches for node in match.nodes))
    taken: set[Node] = set()
    groups: list[tuple[list[Node], Node]] = []
    for match in matches:
        if taken.isdisjoint(match.nodes) and match.fits(positions):
            taken.update(match.nodes)
            groups += match.groups()
    changed = join(graph, groups)
    if changed:
        renumber(graph)
    return changed


def _activated_norms(graph: Graph, uses: Uses) -> Iterator[_Match]:
    for norm in graph.nodes:
        act = activation_of(norm.outputs[0], reads_result, uses) if norm.type == BATCH_NORM.type else None
        if act is None or act.others:
            continue
        back = _norm_back(norm, act.gradient, uses)
        if (back is None) == (act.back is None):
            backward = [act.back, back] if act.back is not None and back is not None else []
            yield _Match(FUSED_BATCH_NORM_ACT, [norm, act.node], backward, act, {}, {})


def _norm_back(norm: Node, gradient: Value | None, uses: Uses) -> Node | None:
    """The backward op of a normalisation whose result's gradient nobody else reads."""
    back = only_reader(gradient, uses) if gradient is not None else None
    if back is None or back.type != norm.record.grad_type or back.inputs[:3] != norm.inputs[:3]:
        return None
    return back


def _activated_sums(graph: Graph, uses: Uses) -> Iterator[_Match]:
    dims: dict[Value, Dims] = {}
    for add in graph.nodes:
        act = activation_of(add.outputs[0], reads_result, uses) if add.type == ADD.type else None
        if act is None or act.others:
            continue
        for slot, other in ((0, 1), (1, 0)):
            normal, added = add.inputs[slot], add.inputs[other]
            norm = uses.writer.get(normal)
            if norm is None or norm.type != BATCH_NORM.type or normal is not norm.outputs[0] or normal is added:
                continue
            dims = dims or dims_of(graph)
            if dims[normal] == dims[added] and normal.spec.dtype is added.spec.dtype:
                match = _sum_match(norm, add, act, slot, uses)
                if match is not None:
                    yield match


def _sum_match(norm: Node, add: Node, act: Activation, slot: int, uses: Uses) -> _Match | None:
    """The pattern whose sum has the normalised value in an input slot; None if others read that value."""
    normal = add.inputs[slot]
    add_back = only_reader(act.gradient, uses) if act.gradient is not None else None
    if not is_temporary(normal) or any(node not in (add, add_back) for node in uses.readers_of(normal)):
        return None
    forward, given = [norm, add, act.node], {"Z": add.inputs[1 - slot]}
    if act.back is None:
        return _Match(FUSED_BN_ADD_ACTIVATION, forward, [], act, given, {})
    if add_back is None or add_back.type != ADD.grad_type or add_back.inputs[:2] != add.inputs:
        return None
    back = _norm_back(norm, add_back.outputs[slot], uses)
    if back is None:
        return None
    results = {"Z@GRAD": add_back.outputs[1 - slot]}
    return _Match(FUSED_BN_ADD_ACTIVATION, forward, [act.back, add_back, back], act, given, results)
