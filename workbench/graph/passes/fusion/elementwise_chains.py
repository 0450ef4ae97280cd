"""Element-wise ops that hand values of one shape to each other become one node.

Regions grow in the order of the nodes: an op joins the regions that make what it reads. A region is closed by the
first node outside that reads one of its values or overwrites a variable it reads; so all its members may move to the
place of the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from workbench.framework.expr.expr import Expr, Recording, in_order
from workbench.framework.outside import is_from_outside
from workbench.framework.values.dtype import float64
from workbench.framework.values.spec import DENSE
from workbench.graph.passes.branches import behind_branches
from workbench.graph.passes.dims import dims_of
from workbench.graph.passes.rewrite import join, read_instead, renumber
from workbench.graph.ssa import FUSED_ELEMENTWISE, Graph, Node, Uses, Value, values_of

LIMIT = 32  # ops in a region: expressions stay shallow


class ElementwiseChains:
    """Joins element-wise forward and backward ops on one device whose results have one shape.

    The node computes expressions composed of those the ops trace to, function by function, so every bit stays. Values
    that only members read vanish; so do those others read for their shape alone, which then look at another result.
    Ops that write persistable or overwritten variables stay out, and so do gradients that are summed because their
    value was broadcast.

    Args:
        joins: which nodes may be joined; all unless given. Where some ops run in kernels and others do not, only those
            that do: a node runs as a whole in one way or the other, and each op has to give the bits it gives alone.
    """

    name = "elementwise_chains"
    exact = True

    def __init__(self, joins: Callable[[Node], bool] | None = None) -> None:
        self._joins = joins

    def __call__(self, graph: Graph) -> bool:
        regions = _Growth(graph, self._joins).regions()
        uses = Uses(graph.nodes)
        fused = [(region, _fused(region, uses)) for region in regions]
        if not join(graph, [(region.members, node) for region, node in fused if node is not None]):
            return False
        renumber(graph)
        return True


class _Region:
    """Ops that become one.

    Attributes:
        kind: what they have in common: device, role, dimensions, whether they work on float64.
        members: in the order of the graph; results: the expression of every value they make.
        closed: no further op may join.
        into: the region this one has been merged into.
    """

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        self.members: list[Node] = []
        self.results: dict[Value, Expr] = {}
        self.closed = False
        self.into: _Region | None = None

    def root(self) -> _Region:
        region = self
        while region.into is not None:
            region = region.into
        return region


class _Growth:
    """Lets regions grow over a graph.

    Attributes:
        leaves: the expression of every value a region reads from outside; its `value` is the value.
        readers: the regions that read a variable which is overwritten somewhere.
    """

    def __init__(self, graph: Graph, joins: Callable[[Node], bool] | None) -> None:
        self.graph, self.joins = graph, joins
        self.behind_branches = behind_branches(graph) if joins is not None else set()
        self.dims = dims_of(graph)
        self.position = {node: index for index, node in enumerate(graph.nodes)}
        self.ordered = {before for node in graph.nodes for before in node.after}
        self.rewritten = {(v.name, v.place) for v in graph.values() if v.version > 0}
        self.leaves: dict[Value, Expr] = {}
        self.region_of: dict[Value, _Region] = {}
        self.readers: dict[tuple[str, int], list[_Region]] = {}

    def regions(self) -> list[_Region]:
        """All regions of two and more ops."""
        for node in self.graph.nodes:
            self._place(node)
        whole = [r for r in dict.fromkeys(self.region_of.values()) if r.into is None and len(r.members) > 1]
        for region in whole:
            region.members.sort(key=self.position.__getitem__)
        return whole

    def _place(self, node: Node) -> None:
        near = {self.region_of[v].root(): None for v in values_of(node.inputs) if v in self.region_of}
        region = self._joined(node, near) if self._may_join(node) else None
        for other in near:
            other.closed = other.closed or (other is not region and other.into is None)
        for value in values_of(node.outputs):
            for other in self.readers.pop((value.name, value.place), ()):
                other.root().closed = True

    def _may_join(self, node: Node) -> bool:
        if not node.is_op or not node.record.is_elementwise or node.after or node in self.ordered:
            return False
        if self.joins is not None and (node in self.behind_branches or not self.joins(node)):
            return False
        slots, written = (*node.inputs, *node.outputs), node.writes
        return (
            set(node.record.needs) <= {"wanted"}
            and all(slot is None or isinstance(slot, Value) for slot in slots)
            and all(_is_plain(value) for value in values_of(slots))
            and not any(v.persistable or (v.name, v.place) in self.rewritten for v in written)
            and bool(written)
            and (not node.record.is_grad or self._needs_no_sum(node))
        )

    def _needs_no_sum(self, node: Node) -> bool:
        """Whether the gradients have the shape of the result's, so that none is summed to the shape of its input."""
        slots = zip(node.record.inputs, node.inputs, strict=True)
        given = {self.dims[v] for slot, v in slots if slot.name.endswith("@GRAD") and v is not None}
        return given == {self.dims[v] for v in node.writes}

    def _joined(self, node: Node, near: Iterable[_Region]) -> _Region | None:
        """The region a node now belongs to, None if its body has no form as expressions."""
        kind = (node.places, node.role, self.dims[node.writes[0]], self._is_double(node))
        friends = [region for region in near if not region.closed and region.kind == kind]
        if sum(len(region.members) for region in friends) >= LIMIT:
            friends = []
        results = _expressions(node, lambda value: self._operand(value, friends))
        if results is None:
            return None
        region = _merged(friends) if friends else _Region(kind)
        region.members.append(node)
        region.results.update(results)
        self.region_of.update(dict.fromkeys(results, region))
        for value in values_of(node.inputs):
            if (value.name, value.place) in self.rewritten:
                self.readers.setdefault((value.name, value.place), []).append(region)
        return region

    def _is_double(self, node: Node) -> bool:
        """Whether kernels work on float64 for a node: a chain does so on float64 or on float32 as a whole."""
        return self.joins is not None and any(v.spec.dtype is float64 for v in (*node.reads, *node.writes))

    def _operand(self, value: Value, friends: Sequence[_Region]) -> Expr:
        region = self.region_of.get(value)
        if region is not None and region.root() in friends:
            return region.root().results[value]
        if value not in self.leaves:
            self.leaves[value] = Expr("input", value=value, dtype=value.spec.dtype.numpy)
        return self.leaves[value]


def _is_plain(value: Value) -> bool:
    return value.spec.kind == DENSE and value.spec.dtype.numpy.kind in "fiub"


def _merged(regions: list[_Region]) -> _Region:
    first, *others = regions
    for other in others:
        first.members += other.members
        first.results.update(other.results)
        other.into = first
    return first


def _expressions(node: Node, operand: Callable[[Value], Expr]) -> dict[Value, Expr] | None:
    """What an op makes of its operands; None where that is no function of theirs, or a copy of one."""
    record = node.record
    wanted = {"wanted": tuple(slot is not None for slot in node.outputs)} if "wanted" in record.needs else {}
    operands = [None if slot is None else operand(slot) for slot in node.inputs]
    try:
        returned = record.forward(Recording, *operands, **node.attrs, **wanted)
    except Exception as error:
        if is_from_outside(error):
            raise
        # The body asks for more than expressions can tell; run on arrays it works or says what is wrong.
        return None
    results = returned if isinstance(returned, tuple) else (returned,)
    expressions: dict[Value, Expr] = {}
    for value, result in zip(node.outputs, results, strict=True):
        if value is None:
            continue
        if not isinstance(result, Expr) or result.function == "constant" or _is_leaf(result):
            return None
        if result.dtype != value.spec.dtype.numpy:
            if not record.is_grad:
                return None
            result = result.astype(value.spec.dtype)  # gradients take the dtype of their input
        expressions[value] = result
    return expressions


def _is_leaf(result: Expr) -> bool:
    return result.function == "input"


def _fused(region: _Region, uses: Uses) -> Node | None:
    """The node for a region; None if nobody outside reads anything of it."""
    members = set(region.members)
    shown: list[Value] = []
    for_shape: list[tuple[Value, list[Node]]] = []
    for value in region.results:
        readers = [node for node in uses.readers_of(value) if node not in members]
        if any(not _reads_shape_only(node, value) for node in readers):
            shown.append(value)
        elif readers:
            for_shape.append((value, readers))
    for value, readers in for_shape:
        _show_another(value, readers, shown)
    if not shown:
        return None
    inputs, results = _numbered([region.results[value] for value in shown])
    return Node(
        FUSED_ELEMENTWISE,
        region.members[0].places,
        [inputs],
        [shown],
        {"results": results, "types": [node.type for node in region.members]},
        region.members[-1].role,
        [op for node in region.members for op in node.origins],
    )


def _reads_shape_only(node: Node, value: Value) -> bool:
    """Whether a backward op looks at no element of a value."""
    if not node.is_op or not node.record.is_grad:
        return False
    slots = zip(node.record.inputs, node.inputs, strict=True)
    return all(slot.name in node.record.shape_only for slot, given in slots if given is value)


def _show_another(value: Value, readers: list[Node], shown: list[Value]) -> None:
    """Let readers of a shape look at a result there is anyway; all of a region have one shape."""
    same_dtype = next((other for other in shown if other.spec.dtype is value.spec.dtype), None)
    if same_dtype is None:
        shown.append(value)
    else:
        read_instead(readers, value, same_dtype)


def _numbered(results: Sequence[Expr]) -> tuple[list[Value], list[Expr]]:
    """The values expressions read, and the expressions with the values' numbers in their place."""
    numbers: dict[Value, Expr] = {}
    copies: dict[int, Expr] = {}
    for old in in_order(results):
        if old.function == "input":
            copies[id(old)] = numbers.setdefault(old.value, Expr("input", value=len(numbers), dtype=old.dtype))
        else:
            copies[id(old)] = Expr(old.function, tuple(copies[id(a)] for a in old.args), old.value, old.dtype)
    return list(numbers), [copies[id(result)] for result in results]
