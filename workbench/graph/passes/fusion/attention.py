"""Two matrix products and the softmax between them become one node, and so do their backward ops."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from workbench.framework.values.dtype import float32, float64
from workbench.framework.values.spec import DENSE, normalize_axis, same_dim
from workbench.graph.passes.branches import behind_branches
from workbench.graph.passes.fusion.activation import carries_those_of, is_temporary, made_of, only_reader, slots_of
from workbench.graph.passes.rewrite import NodePositions, join, renumber
from workbench.graph.ssa import Graph, Node, Slot, Uses, Value
from workbench.ops.loss.fused_attention import FUSED_ATTENTION
from workbench.ops.loss.softmax import SOFTMAX
from workbench.ops.math.arithmetic import ADD, DIV, SCALE
from workbench.ops.math.products.matmul import MATMUL
from workbench.ops.tensor.creation import FILL_CONSTANT

Group = tuple[list[Node], Node]
LEAST = 8  # rows and columns of a matrix: products of smaller ones are others
MANY = 256  # keys from which on one node is quicker, although its backward op computes the scores again


class FuseAttention:
    """`matmul(q, k') * scale + mask -> softmax -> matmul(., v)` becomes `fused_dot_product_attention`.

    Scores may be multiplied by a number, divided by one, or neither, and need not be masked. Nothing is joined where
    somebody else reads scores or weights (what drops some of them out does), or wants the gradient of the mask.

    Args:
        native: nodes run in kernels where they can. Then what follows a branch is left alone: of operands without
            a shape until they run, the single ops might run in other ways, and give other bits. So are float64
            operands: there are kernels for the single ops, and none for the one.
        everywhere: also where that is slower: where there are few keys, or nobody knows how many, and in float64;
            to save memory.
    """

    name = "fuse_attention"
    exact = True

    def __init__(self, native: bool = False, everywhere: bool = False) -> None:
        self._native, self._least = native, LEAST if everywhere else MANY

    def __call__(self, graph: Graph) -> bool:
        if all(node.type != SOFTMAX.type for node in graph.nodes):
            return False
        apart = behind_branches(graph) if self._native else set()
        uses = Uses(graph.nodes)
        matches = [m for m in _matches(graph, uses) if apart.isdisjoint(m.nodes) and self._pays(m)]
        positions = NodePositions(graph, (node for match in matches for node in match.nodes))
        changed = join(graph, [group for match in matches if match.fits(positions, uses) for group in match.groups()])
        if changed:
            renumber(graph)
        return changed

    def _pays(self, match: _AttentionMatch) -> bool:
        """Whether one node is as quick as the others, or is asked for."""
        values = match.forward[-1].inputs[1].spec
        if self._native and values.dtype is not float32 and self._least != LEAST:
            return False
        keys = values.shape[-2]
        return keys >= self._least or (keys < 0 and self._least == LEAST)


@dataclass
class _Scaling:
    """What is done to scores before they are masked.

    Attributes:
        node: None where nothing is. by, divides: see `FUSED_ATTENTION`.
    """

    node: Node | None
    by: float = 1.0
    divides: bool = False


@dataclass
class _AttentionMatch:
    """The nodes of an attention.

    Attributes:
        forward, backward: in the order of the graph; `backward` is empty where there are no gradients.
        mask: None if there is none.
    """

    forward: list[Node]
    backward: list[Node]
    scaling: _Scaling
    mask: Value | None

    @property
    def nodes(self) -> list[Node]:
        return [*self.forward, *self.backward]

    def fits(self, positions: NodePositions, uses: Uses) -> bool:
        """Whether forward ops can be joined where the last one is, and backward ops where the first one is."""
        return positions.meet(self.forward) and (not self.backward or self._comes_early(positions.position, uses))

    def _comes_early(self, position: Mapping[Node, int], uses: Uses) -> bool:
        """Whether all that backward ops read is there before the first of them, as is all that has to come before.

        The gradient of the values is often read before the last of them.
        """
        first = position[self.backward[0]]
        read = {uses.writer[v] for node in self.backward for v in node.reads if v in uses.writer}
        before = read.union(*(node.after for node in self.backward)).difference(self.backward)
        return all(position[node] < first for node in before) and all(
            is_temporary(v) for node in self.backward for v in node.writes
        )

    def groups(self) -> Iterator[Group]:
        """The members and the node for them, forward and backward, which stands where the last of them did."""
        scores, weighted = self.forward[0], self.forward[-1]
        attrs = {"by": self.scaling.by, "divides": self.scaling.divides, "trans_k": scores.attrs["trans_y"]}
        given: dict[str, Slot] = dict(zip("QK", scores.inputs, strict=True))
        given |= {"V": weighted.inputs[1], "Mask": self.mask}
        yield self.forward, made_of(self.forward, FUSED_ATTENTION.type, given, {"Out": weighted.outputs[0]}, attrs)
        if self.backward:
            of_weighted, of_scores = self.backward[0], self.backward[-1]
            given["Out@GRAD"] = slots_of(of_weighted)["Out@GRAD"]
            results = dict(zip(("Q@GRAD", "K@GRAD"), of_scores.outputs, strict=True))
            results["V@GRAD"] = of_weighted.outputs[1]
            members = [*self.backward[1:], of_weighted]
            yield members, made_of(self.backward, FUSED_ATTENTION.grad_type, given, results, attrs)


def _matches(graph: Graph, uses: Uses) -> Iterator[_AttentionMatch]:
    for node in graph.nodes:
        if node.type == SOFTMAX.type:
            match = _attention_at(node, uses)
            if match is not None:
                yield match


def _attention_at(softmax: Node, uses: Uses) -> _AttentionMatch | None:
    """The attention a softmax is part of, if it is one and nobody looks inside."""
    rank = len(softmax.inputs[0].spec.shape)
    weighted = _weighted(softmax, uses)
    before = _before(softmax, uses)
    if weighted is None or before is None or normalize_axis(softmax.attrs["axis"], rank) != rank - 1:
        return None
    masking, scaling, scores = before
    forward = [n for n in (scores, scaling.node, masking, softmax, weighted) if n is not None]
    inside = [node.outputs[0] for node in forward[:-1]]
    backward = _backward(forward, uses)
    members = {*forward, *backward}
    if not all(is_temporary(value) and members.issuperset(uses.readers_of(value)) for value in inside):
        return None
    mask = None if masking is None else masking.inputs[1 - _slot_of(masking, (scaling.node or scores).outputs[0])]
    if weighted.inputs[1] in inside or mask in inside:
        return None  # scores that are values, or a mask, too, have to be there
    if not _fit(scores.inputs, weighted.inputs[1], mask, scores.attrs["trans_y"], inside[0]):
        return None
    return _AttentionMatch(forward, backward, scaling, mask)


def _weighted(softmax: Node, uses: Uses) -> Node | None:
    """The one product of weights and values."""
    weights = softmax.outputs[0]
    products = [n for n in uses.readers_of(weights) if n.type == MATMUL.type]
    if len(products) != 1 or products[0].attrs["trans_x"] or products[0].attrs["trans_y"]:
        return None
    return products[0] if products[0].inputs[0] is weights is not products[0].inputs[1] else None


def _before(softmax: Node, uses: Uses) -> tuple[Node | None, _Scaling, Node] | None:
    """What adds the mask, what scales the scores, and the product they are."""
    value = softmax.inputs[0]
    adds = uses.writer.get(value)
    if adds is not None and adds.type == ADD.type:
        for side in adds.inputs:
            product = _scores(side, uses)
            if product is not None and adds.inputs[0] is not adds.inputs[1]:
                return adds, *product
        return None
    product = _scores(value, uses)
    return None if product is None else (None, *product)


def _scores(value: Value, uses: Uses) -> tuple[_Scaling, Node] | None:
    """How a value is scaled, and the product it is; None if it is no product."""
    node = uses.writer.get(value)
    scaling = _scaling(node, uses) if node is not None else None
    if scaling is not None:
        assert node is not None
        node = uses.writer.get(node.inputs[0])
    if node is None or node.type != MATMUL.type or node.attrs["trans_x"]:
        return None
    return scaling or _Scaling(None), node


def _scaling(node: Node, uses: Uses) -> _Scaling | None:
    """What a node scales by, if it does nothing else."""
    if node.type == SCALE.type and node.attrs["bias"] == 0:
        return _Scaling(node, float(node.attrs["scale"]))
    divisor = uses.writer.get(node.inputs[1]) if node.type == DIV.type else None
    if divisor is None or divisor.type != FILL_CONSTANT.type or set(node.inputs[1].spec.shape) - {1}:
        return None
    if len(node.inputs[1].spec.shape) > len(node.inputs[0].spec.shape):
        return None
    return _Scaling(node, float(divisor.attrs["value"]), divides=True)


def _backward(forward: Sequence[Node], uses: Uses) -> list[Node]:
    """The backward ops of a chain, the first one first, if each hands over to the next alone; else none."""
    slots = [_slot_of(node, before.outputs[0]) for before, node in pairwise(forward)]
    weighted, chain = forward[-1], list[Node]()
    backs = [node for node in uses.readers_of(weighted.inputs[0]) if node.type == weighted.record.grad_type]
    back = backs[0] if len(backs) == 1 else None
    for node, slot in zip(reversed(forward), (*reversed(slots), None), strict=True):
        if back is None or not _is_back(back, node, slot):
            return []
        chain.append(back)
        back = None if slot is None else _handed(back, slot, uses)
    return chain


def _is_back(back: Node, node: Node, slot: int | None) -> bool:
    """Whether a node is the backward op of another one, and nobody wants other gradients on the way."""
    if not carries_those_of(back, node) or back.attrs != node.attrs:
        return False
    return slot is None or node.type not in (ADD.type, DIV.type) or back.outputs[1 - slot] is None


def _handed(back: Node, slot: int, uses: Uses) -> Node | None:
    """Who alone reads a gradient."""
    gradient = back.outputs[slot]
    return None if gradient is None else only_reader(gradient, uses)


def _slot_of(node: Node, value: Value) -> int:
    return 0 if node.inputs[0] is value else 1


def _fit(qk: Sequence[Value], v: Value, mask: Value | None, trans_k: bool, scores: Value) -> bool:
    """Whether all are matrices of one batch, not too small for kernels, and the mask is added to each of them.

    A kernel goes through the batch in two loops. Sizes that are known only in a step are taken to be the same; where
    they are not, the node runs as a NumPy call, which rounds in another order than kernels.
    """
    given: list[Any] = [*qk, v] + ([] if mask is None else [mask])
    if any(x.spec.kind != DENSE or x.spec.dtype not in (float32, float64) for x in given):
        return False
    (q, k), shape = (x.spec.shape for x in qk), v.spec.shape
    if not 2 <= len(q) == len(k) == len(shape) <= 4:
        return False
    if not all(same_dim(a, b) and same_dim(a, c) for a, b, c in zip(q[:-2], k[:-2], shape[:-2], strict=True)):
        return False
    if min(q[-1], shape[-1]) < LEAST or not all(size < 0 or size >= LEAST for size in (q[-2], shape[-2])):
        return False
    return mask is None or _is_added(mask.spec.shape, scores.spec.shape)


def _is_added(mask: Sequence[int], scores: Sequence[int]) -> bool:
    """Whether scores keep their shape with a mask, as far as that is known."""
    pairs = zip(mask[::-1], scores[::-1], strict=False)
    return len(mask) <= len(scores) and all(a == 1 or same_dim(a, b) for a, b in pairs)
