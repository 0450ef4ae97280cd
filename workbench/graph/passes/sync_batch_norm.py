"""`batch_norm` over the rows of all devices (BuildStrategy.sync_batch_norm)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from workbench.errors import Unimplemented
from workbench.framework.program.block import Block
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.graph.passes.fusion.activation import made_of, results_of, slots_of
from workbench.graph.ssa import ALL_REDUCE, Graph, Node, Value
from workbench.ops.nn.norm import BATCH_NORM
from workbench.ops.nn.sync_norm import SPREAD


def joins_devices(program: Program) -> bool:
    """Whether the pass would have devices of a program take statistics together."""
    return any(op.type == BATCH_NORM.type for op in program.all_ops())


class SyncBatchNorm:
    """Every `batch_norm` in training, and its backward op, takes its sums over all devices.

    Each becomes a node per device that adds up the device's rows, an all-reduce of the sums, and a node per device
    that goes on with the total. Those that use given statistics (inference) stay as they are. It is no rewriting of
    the same computation but the one that was asked for; so `BuildStrategy.exact` does not leave it out.
    """

    name = "sync_batch_norm"
    exact = True

    def __call__(self, graph: Graph) -> bool:
        if graph.devices * graph.settings.num_trainers < 2:
            return False
        for op in graph.program.global_block().ops:
            _refuse_inner(op, op.blocks())
        copies: dict[Operator, list[Node]] = {}
        for node in graph.nodes:
            if node.type in SPREAD and len(node.origins) == 1 and _takes_statistics(node):
                copies.setdefault(node.origins[0], []).append(node)
        if copies:
            graph.replace({old: new for nodes in copies.values() for old, new in _synchronised(graph, nodes)})
        return bool(copies)


def _takes_statistics(node: Node) -> bool:
    """Whether a normalisation takes the statistics of its batch, and anybody asks for more than a by-product's."""
    a = node.attrs
    given = a["use_global_stats"] or (a["is_test"] and not a["trainable_statistics"])
    return not given and (node.type == BATCH_NORM.type or slots_of(node)["Y@GRAD"] is not None)


def _refuse_inner(owner: Operator, blocks: Iterable[Block]) -> None:
    """Inside control flow devices may go different ways: nobody there can wait for another."""
    for block in blocks:
        for op in block.ops:
            if op.type == BATCH_NORM.type and not (op.attrs["use_global_stats"] or op.attrs["is_test"]):
                raise Unimplemented(
                    f"sync_batch_norm: the batch_norm at {op.site} is inside the {owner.type!r} at {owner.site}, where "
                    "devices cannot wait for each other; take it out, or set is_test or use_global_stats"
                )
            _refuse_inner(owner, op.blocks())


def _synchronised(graph: Graph, copies: list[Node]) -> Iterator[tuple[Node, list[Node]]]:
    """What the copies of one operator, which stand next to each other, are replaced with."""
    sums = [_sums(graph, node) for node in copies]
    local = [node.writes[0] for node in sums]
    totals = [graph.fresh(value, value.name + "@ALL") for value in local]
    first = copies[0]
    places = [node.place for node in copies]
    exchange = Node(ALL_REDUCE, places, [local], [totals], {"name": local[0].name}, first.role, first.origins)
    after = [_going_on(node, part, total) for node, part, total in zip(copies, local, totals, strict=True)]
    for node, ahead, behind in zip(copies, sums, after, strict=True):
        behind.after = node.after
        yield node, [ahead, exchange, *after] if node is copies[-1] else [ahead]


def _sums(graph: Graph, node: Node) -> Node:
    sums = made_of([node], SPREAD[node.type].sums.type, slots_of(node), {}, {"data_layout": node.attrs["data_layout"]})
    like = node.writes[0]
    spec = sums.record.infer(*(value.spec for value in sums.inputs), **sums.attrs)
    sums.outputs = [graph.fresh(like, like.name + "@SUMS", spec)]
    return sums


def _going_on(node: Node, local: Value, total: Value) -> Node:
    """The node of one device that has the sums of all."""
    going_on = SPREAD[node.type].with_sums
    attrs = {key: value for key, value in node.attrs.items() if key in going_on.attrs}
    given = {**slots_of(node), "LocalSums": local, "Sums": total}
    return made_of([node], going_on.type, given, results_of(node), attrs)
