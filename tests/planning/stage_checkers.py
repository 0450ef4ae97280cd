"""Is what each stage of planning decides right? Told from definitions, by brute force, and not from how it decides.

check_schedule    every node once, after all it depends on, whatever the threads do
check_shares      what several threads do together runs in kernels, on a step that is one thread's otherwise
check_shapes      the graph, run node by node, gives arrays of these shapes and dtypes
check_buckets     members lie one after the other, in the order of the update that reads them
check_layouts     strides are those of a dense array with its dimensions in another order
check_aliases     the op, run by NumPy on an array there, gives a view with those strides, or those numbers
check_takeovers   nobody reads what is written over afterwards, in any order in which threads may run
check_storage     every value lies within its piece, and a piece lasts from its first use to its last
check_offsets     pieces that are needed at the same time have no byte in common
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import combinations
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from tests.graph.interpret import _Run
from tests.parallel.memory.plan_checker import happens_before
from workbench.executors.lowering.numpy.lower import call_attrs
from workbench.executors.planning.late import WINDOW
from workbench.executors.planning.memory.refs import Ref
from workbench.executors.planning.memory.request import END
from workbench.executors.planning.plan import Plan
from workbench.executors.planning.shares import BLOCKS
from workbench.executors.reference.runner import OpRunner
from workbench.framework.op.record import find_op
from workbench.framework.values.rows import Rows
from workbench.graph.ssa import ALL_REDUCE, FETCH, FUSED_ALL_REDUCE, FUSED_ELEMENTWISE, Node, Value


def check_stages(plan: Plan) -> None:
    """All checks but that of shapes, which runs the graph.

    Raises:
        AssertionError: names the stage's value and what is wrong with it.
    """
    for check in (
        check_schedule, check_shares, check_buckets, check_layouts, check_aliases, check_takeovers, check_storage,
        check_offsets,
    ):  # fmt: skip
        check(plan)


def writers(plan: Plan) -> dict[Value, Node]:
    return {value: node for node in plan.graph.nodes for value in node.writes}


def readers(plan: Plan) -> dict[Value, list[Node]]:
    """Who reads what a value holds."""
    readers: dict[Value, list[Node]] = {}
    for node in plan.graph.nodes:
        for value in dict.fromkeys(node.value_reads):
            readers.setdefault(value, []).append(node)
    return readers


def in_step(plan: Plan) -> set[Node]:
    """The nodes of the speculation."""
    return {row.node for row in plan.rows}


# Schedule


def check_schedule(plan: Plan) -> None:
    order, made_by = plan.schedule.order, writers(plan)
    assert len(order) == len(plan.graph.nodes) and set(order) == set(plan.graph.nodes), "not every node once"
    done: set[Node] = set()
    for node in order:
        needs = {made_by[v] for v in node.reads if v in made_by} | set(node.after)
        assert needs <= done, f"{node} comes before {needs - done}"
        assert 0 <= plan.schedule.thread[node] < plan.schedule.threads, f"{node} is on no thread"
        done.add(node)
    before, number = happens_before(plan)
    for node in in_step(plan):
        needs = {made_by[v] for v in node.reads if v in made_by} | set(node.after)
        for other in needs & in_step(plan):
            assert before[node] >> number[other] & 1, f"{node} does not wait for {other}"


# Shapes


def check_shapes(plan: Plan) -> None:
    run = _Shaped(plan)
    with np.errstate(all="ignore"):
        for node in plan.graph.nodes:
            run.node(node)
    for value, got in run.values.items():
        spec = plan.shapes.specs[value]
        if isinstance(got, Rows):
            assert spec.kind == "rows" and spec.dtype.numpy == got.values.dtype, f"{value}: {spec}, in truth {got}"
        elif isinstance(got, np.ndarray):
            fits = len(spec.shape) == got.ndim and all(d in (-1, n) for d, n in zip(spec.shape, got.shape, strict=True))
            assert fits and spec.dtype.numpy == got.dtype, f"{value}: {spec}, in truth {got.shape} {got.dtype}"


class _Shaped(_Run):
    """The graph of a plan on zeros and ones of the shapes the plan was made for."""

    def __init__(self, plan: Plan) -> None:
        def start(value: Value) -> np.ndarray:
            spec = plan.shapes.specs[value]
            return np.ones([1 if d < 0 else d for d in spec.shape], spec.dtype.numpy)

        super().__init__(start)
        self._runners = [OpRunner(plan.graph.program, place, {}) for place in range(plan.graph.devices)]

    def op(self, node: Node) -> None:
        extra = self._runners[node.place].extras(node.origins[0])
        attrs = {**call_attrs(node), **{name: extra[name] for name in node.record.needs if name in extra}}
        self.call(node.type, node.inputs, node.outputs, attrs)


# Shares


def check_shares(plan: Plan) -> None:
    blocks, threads = plan.shares.blocks, plan.shares.threads
    is_shared = bool(blocks or plan.shares.late)
    assert is_shared == (threads > 1), f"{threads} threads share {len(blocks)} nodes"
    if is_shared:
        assert plan.schedule.threads == 1, "threads that have nodes of their own share others"
    for node in (*blocks, *plan.shares.late):
        assert node in plan.graph.nodes and node in plan.native, f"{node} runs in no kernels"
    for node, values in plan.shares.late.items():
        assert values and set(values) <= set(node.writes), f"{node} makes none of {values}"
    for node, count in blocks.items():
        assert node not in plan.shares.late, f"{node} is both divided and late"
        assert 1 < count <= BLOCKS * threads, f"{node} has {count} blocks"


# Buckets


def check_buckets(plan: Plan) -> None:
    memory, made_by, read_by = plan.memory, writers(plan), readers(plan)
    seen: dict[Value, tuple[int, int]] = {}
    for number, (update, bucket) in enumerate(zip(plan.flats, memory.buckets.buckets, strict=False)):
        if bucket is None:
            continue
        slots = [slot.name for slot in find_op(update.attrs["update"]).inputs]
        assert list(bucket.members) == update.inputs[slots.index("Grad")], f"{bucket} is not what {update} reads"
        end = 0
        for value, offset in zip(bucket.members, bucket.offsets, strict=True):
            assert offset % 64 == 0 and 0 <= offset - end < 64, f"{value} does not follow the one before it"
            end = offset + _array_bytes(plan, value)
            seen[value] = number, offset
        assert end <= bucket.nbytes < end + 64, f"{bucket} has {bucket.nbytes} bytes, its members {end}"
    for value, spot in memory.buckets.spots.items():
        if value in seen:
            assert spot == seen.pop(value), f"{value} is at {spot}"
            continue
        sums = [v for node in read_by[value] for v in node.writes if v.place == value.place]
        (total,) = [v for v in sums if memory.buckets.spots.get(v) == spot]
        assert made_by[total].type in (ALL_REDUCE, FUSED_ALL_REDUCE), f"{value} is where {total} will be"
        assert read_by[value] == [made_by[total]], f"{value} has other readers than its sum"
    assert not seen, f"{seen} are in a bucket and have no spot"


def _array_bytes(plan: Plan, value: Value) -> int:
    spec = plan.shapes.specs[value]
    return int(np.prod(spec.shape, dtype=int)) * spec.dtype.itemsize


# Layout


def check_layouts(plan: Plan) -> None:
    for value, strides in plan.memory.layouts.items():
        spec, made_by = plan.shapes.specs[value], writers(plan)
        step = spec.dtype.itemsize
        for stride, dim in sorted(zip(strides, spec.shape, strict=True)):
            assert dim == 1 or stride == step, f"{value}: {strides} of {spec} are not those of a dense array"
            step = max(step, stride * dim)
        assert spec.dtype.itemsize in strides[-2:], f"{value}: neither of the last two dimensions is dense"
        assert made_by[value].record.layout_free and made_by[value] in plan.native, f"{value} is not written by kernels"
        if value in plan.refs:
            assert plan.refs[value].strides == strides, f"{value} is laid out otherwise: {plan.refs[value]}"


# Aliases


def check_aliases(plan: Plan) -> None:
    made_by = writers(plan)
    for value in plan.aliases:
        node = made_by[value]
        sources = [v for v in node.value_reads if plan.refs.get(v) and plan.refs[v].root is plan.refs[value].root]
        assert sources, f"{value} shows the memory of nothing {node} reads"
        assert any(_shows(plan, node, value, source) for source in sources), f"{value} is not what {node} gives"


def _shows(plan: Plan, node: Node, value: Value, source: Value) -> bool:
    """Whether the op, given its source where the plan has it, gives what lies where the plan says."""
    root = plan.refs[source].root
    memory = np.frombuffer(np.random.default_rng(0).bytes(4 * root.nbytes + 64), np.uint8)  # where faults lead, too
    as_planned = _array_in(memory, plan.refs[value])
    operands = {v: _array_in(memory, plan.refs[v]) if v is source else _ones(plan, v) for v in node.reads}
    ins = [[operands.get(v) for v in slot] if isinstance(slot, list) else operands.get(slot) for slot in node.inputs]
    with np.errstate(all="ignore"):
        results = node.record.forward(np, *ins, **call_attrs(node))
    got = dict(zip(node.outputs, results if isinstance(results, tuple) else (results,), strict=True))[value]
    if not node.record.is_view:
        return got.shape == as_planned.shape and got.tobytes() == as_planned.tobytes()
    where, planned = got.__array_interface__["data"][0], as_planned.__array_interface__["data"][0]
    steps = zip(got.shape, got.strides, as_planned.strides, strict=True)
    same = got.shape == as_planned.shape and all(a == b for dim, a, b in steps if dim != 1)
    return (same and where == planned) or not got.size


def _array_in(memory: np.ndarray, ref: Ref) -> np.ndarray:
    return np.ndarray(ref.shape, ref.dtype, memory.data, ref.offset, ref.strides)


def _ones(plan: Plan, value: Value) -> np.ndarray:
    spec = plan.shapes.specs[value]
    return np.ones([max(d, 1) for d in spec.shape], spec.dtype.numpy)


def _ended(plan: Plan) -> tuple[dict[Node, int], dict[Node, int]]:
    """`happens_before`, where a node goes on until its late results are there: read, or with more behind them."""
    before, number = happens_before(plan)
    order, late = plan.schedule.order, list(plan.shares.late)
    for node, due in zip(late, [*late[WINDOW:], *([None] * WINDOW)], strict=False):
        reading = {reader for value in plan.shares.late[node] for reader in readers(plan).get(value, ())}
        for other in order[order.index(node) + 1 :]:
            if other in reading or other is due or other not in number:
                break
            before[other] &= ~(1 << number[node])
    return before, number


# In place


def check_takeovers(plan: Plan) -> None:
    made_by, read_by, aliases = writers(plan), readers(plan), plan.memory.aliases
    before, number = _ended(plan)
    late = {v for _, values in plan.fetches for v in values}.union(plan.staged)
    late |= {v for v in plan.feeds if v.persistable}
    for result, over in plan.memory.takeovers.items():
        node = made_by[result]
        assert _goes_element_by_element(node, result, over), f"{node} cannot write {result} over {over}"
        assert plan.refs[result] is plan.refs[over], f"{result} is not where {over} is"
        same = [v for v in plan.refs if aliases.base_of(v) is aliases.base_of(over)]
        assert not late.intersection(same), f"{result} is over {over}, which is needed at the end of the step"
        for value in same:
            for reader in set(read_by.get(value, ())) - {node}:
                there = reader in number and before[node] >> number[reader] & 1
                assert there, f"{reader} may read {value} when {result} has been written over it"


def _goes_element_by_element(node: Node, result: Value, over: Value) -> bool:
    if node.type in (ALL_REDUCE, FUSED_ALL_REDUCE):
        return node.reads[node.writes.index(result)] is over
    return node.type == FUSED_ELEMENTWISE or (node.is_op and node.record.is_elementwise)


# Storage


def check_storage(plan: Plan) -> None:
    storage, position = plan.memory.storage, {node: i for i, node in enumerate(plan.schedule.order)}
    made_by, read_by = writers(plan), readers(plan)
    uses: dict[int, list[int]] = {}
    for value, spot in storage.spots.items():
        piece, ref = storage.pieces[spot.piece], plan.refs[value]
        first, end = _reach(ref)
        assert ref.root.nbytes == piece.nbytes and first >= 0 and end <= piece.nbytes, f"{value} is not within {piece}"
        assert ref.root.place == value.place, f"{value} is on another device"
        users = {*read_by.get(value, ()), *([made_by[value]] if value in made_by else [])}
        uses.setdefault(spot.piece, []).extend(position[node] for node in users)
        for node in users:
            assert plan.schedule.thread[node] in piece.threads, f"{node} touches {piece} from another thread"
    for number, when in uses.items():
        piece = storage.pieces[number]
        if when and not piece.name:
            assert piece.first <= min(when) and piece.last >= max(when), f"{piece} is used from {when}"
    for value in {*plan.staged, *(v for v in plan.feeds if v.persistable)} & storage.spots.keys():
        piece = storage.pieces[storage.spots[value].piece]
        assert piece.name or piece.last >= END, f"the commit hands {value} to the scope, but {piece} does not last"


def _reach(ref: Ref) -> tuple[int, int]:
    """The bytes from the first to the last element, as NumPy counts them."""
    if 0 in ref.shape:
        return ref.offset, ref.offset
    array = np.lib.stride_tricks.as_strided(np.empty(1, ref.dtype), ref.shape, ref.strides)  # nobody looks into it
    start = array.__array_interface__["data"][0]
    low, high = byte_bounds(array)
    return ref.offset + low - start, ref.offset + high - start


# Offsets


def check_offsets(plan: Plan) -> None:
    spans = _spans(plan)
    touched = _touched(plan)
    before, number = _ended(plan)
    for root, (first, end) in spans.items():
        assert first >= 0 and end <= plan.sizes[root.place], f"{root} lies outside its arena"
        assert root.offset % 64 == 0, f"{root} does not begin at a cache line"
    for a, b in combinations(spans, 2):
        if a.place == b.place and spans[a][0] < spans[b][1] and spans[b][0] < spans[a][1]:
            apart = _all_before(touched[a], touched[b], before, number)
            assert apart or _all_before(touched[b], touched[a], before, number), f"{a} and {b} overlap"


def _spans(plan: Plan) -> dict[Any, tuple[int, int]]:
    roots = {ref.root for ref in (*plan.refs.values(), *(f for f in plan.memory.flats if f is not None))}
    return {root: (root.offset, root.offset + root.nbytes) for root in roots if not root.name and root.nbytes}


def _touched(plan: Plan) -> dict[Any, set[Node | None]]:
    """Per root the nodes that touch it; None: it is there before the first node, or needed after the last."""
    made_by, read_by = writers(plan), readers(plan)
    touched: dict[Any, set[Node | None]] = {}
    late = {v for _, values in plan.fetches for v in values}.union(plan.staged)
    for value, ref in plan.refs.items():
        nodes: set[Node | None] = {*read_by.get(value, ()), *([made_by[value]] if value in made_by else [])}
        outside = value in late or value in plan.feeds or any(n.type == FETCH for n in nodes if n is not None)
        touched.setdefault(ref.root, set()).update(nodes, [None] if outside else [])
    return touched


def _all_before(
    some: Collection[Node | None], others: Collection[Node | None], before: dict[Node, int], number: dict[Node, int]
) -> bool:
    """Whether all of some nodes have ended, on all threads, when the first of the others begins."""
    if not all(node is not None and node in number for node in (*some, *others)):
        return False
    return all(before[b] >> number[a] & 1 for a in some for b in others if a is not None and b is not None)
