"""Where every value of a plan lives: in the scope, in a device's arena, or as an object made while the step runs.

Values share memory where that is safe whatever the threads do: a view with what it looks into, the result of an
element-wise op with an input nobody reads any more, and, one after the other, values that only one thread touches.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from workbench.executors.failures import Explained
from workbench.executors.planning.layout_assignment import assigned_strides
from workbench.executors.planning.schedule import Schedule
from workbench.executors.planning.shapes import Shapes, is_static
from workbench.framework.op.record import Op
from workbench.framework.op.ufuncs import passes_through
from workbench.framework.values.spec import Spec, size_of
from workbench.framework.values.views import Strided, row_major
from workbench.graph.ssa import (
    ALL_REDUCE,
    FETCH,
    FUSED_ALL_REDUCE,
    FUSED_ELEMENTWISE,
    Graph,
    Node,
    Uses,
    Value,
    values_of,
)

ALIGN = 64  # bytes: a cache line, and the widest vector register
END = 1 << 60  # later than every node


@dataclass(eq=False)
class Root:
    """A piece of memory.

    Attributes:
        place: the device it belongs to.
        name: of the persistable variable whose storage in the scope it is; "" in the arena.
        nbytes, offset: in the arena.
        first, last: positions in the schedule between which its content matters.
        threads: those that touch it.
        read_from, read_until: positions of the first and last node that reads a value in it; readers: their threads.
        pinned: it holds a value the commit needs. taken: position of the node whose result took it over last.
    """

    place: int
    nbytes: int
    name: str = ""
    offset: int = 0
    first: int = 0
    last: int = -1
    threads: set[int] = field(default_factory=set)
    read_from: int = END
    read_until: int = -1
    readers: set[int] = field(default_factory=set)
    pinned: bool = False
    taken: int = -1


@dataclass(frozen=True, eq=False)
class Ref:
    """An array within a root: byte offset, shape, strides in bytes, dtype."""

    root: Root
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def nbytes(self) -> int:
        return size_of(self.shape) * self.dtype.itemsize

    @property
    def fills_root(self) -> bool:
        return self.offset == 0 and self.nbytes == self.root.nbytes and self.strides == contiguous(self)


def contiguous(ref: Ref) -> tuple[int, ...]:
    """The strides of an array in row-major order."""
    return row_major(ref.shape, ref.dtype.itemsize)


class MemoryPlan:
    """The memory of one plan.

    Args:
        fed: persistable values, as (name, device), that are given with the feed instead of read from the scope.
        staged: persistable values that are computed aside and copied into the scope by the commit.
        in_scope: persistable values that updates write right into the scope.
        committed: those updates; they run after everything else, so what they read is needed until the end.
        patched: values of which only some rows are made; they travel as objects.
        flat: groups of values that are to lie one after the other, in this order (the gradients of one update).
        reuse, in_place: whether values may share memory one after the other, and results take over that of inputs.
        native: nodes that run in kernels.

    Attributes:
        refs: of every value that has memory of its own; the others travel as objects.
        roots: all pieces in arenas.
        aliases: values that only see the memory of another one differently, or are that value unchanged.
        sizes: bytes of every device's arena.
        flats: for every group the Ref of the whole, None where its members could not be put together.
    """

    def __init__(
        self,
        graph: Graph,
        shapes: Shapes,
        schedule: Schedule,
        uses: Uses,
        fed: frozenset[tuple[str, int]],
        staged: set[Value],
        in_scope: set[Value],
        committed: set[Node],
        patched: set[Value],
        flat: Sequence[Sequence[Value]],
        reuse: bool,
        in_place: bool,
        native: Collection[Node] = (),
    ) -> None:
        self.graph, self.shapes, self.schedule, self.uses = graph, shapes, schedule, uses
        self.fed, self.native = fed, native
        self.staged, self.in_scope, self.committed, self.in_place = staged, in_scope, committed, in_place
        self.position = {node: i for i, node in enumerate(schedule.order)}
        self.refs: dict[Value, Ref] = {}
        self.roots: list[Root] = []
        self.aliases: set[Value] = set()
        self.readers: dict[Value, list[Node]] = {}  # of what values hold; many gradients only look at shapes
        for node in graph.nodes:
            for value in node.value_reads:
                self.readers.setdefault(value, []).append(node)
        self.homes: dict[tuple[str, int], Root] = {}
        self.bucketed: dict[Value, Ref] = {}
        self.flats = [self._put_together(members) for members in flat]
        self._visit_all(patched)
        self.sizes = self._lay_out(reuse)

    # Which root a value gets

    def _visit_all(self, patched: set[Value]) -> None:
        for node in self.graph.nodes:  # nodes of one device in program order, whatever the schedule
            for value in values_of(node.inputs):
                if value not in self.refs and value not in self.uses.writer:
                    self._begin_with(value)
        for node in self.schedule.order:
            with Explained(node, self.graph, self.shapes.specs):
                for k, value in enumerate(node.writes):
                    if is_static(self.shapes.specs[value]) and value not in patched:
                        self._give(node, k, value)
            self._touch(node)
        for value in self.staged:
            if value in self.refs:
                self.refs[value].root.last = END

    def _begin_with(self, value: Value) -> None:
        """A feed, or what the scope holds."""
        spec = self.shapes.specs[value]
        if not is_static(spec):
            return
        if value.persistable and (value.name, value.place) not in self.fed:
            self._hold(value, self._home(value), spec)
        elif value.persistable:
            self._hold(value, self._new_root(value.place, spec, first=-1), spec)
            self.refs[value].root.last = END  # the commit hands it to the scope
        else:
            self._hold(value, self._new_root(value.place, spec, first=-1), spec)

    def _home(self, value: Value) -> Root:
        key = value.name, value.place
        if key not in self.homes:
            self.homes[key] = Root(value.place, _nbytes(self.shapes.specs[value]), value.name)
        return self.homes[key]

    def _give(self, node: Node, k: int, value: Value) -> None:
        spec = self.shapes.specs[value]
        if value in self.in_scope:
            self._hold(value, self._home(value), spec)
        elif value in self.bucketed:
            self._hold_ref(value, self.bucketed[value])
        else:
            seen = self._seen(node, k, value, spec)
            shared = seen or self._shared(node, k, value, spec)
            if seen is not None:
                self.aliases.add(value)
            if shared is not None:
                shared.root.taken = self.position[node]
                self._hold_ref(value, shared)
                return
            root = self._new_root(value.place, spec, self.position[node])
            strides = self._assigned_strides(node, value)
            if strides is None:
                self._hold(value, root, spec)
            else:
                self._hold_ref(value, Ref(root, 0, spec.shape, strides, spec.dtype.numpy))

    def _assigned_strides(self, node: Node, value: Value) -> tuple[int, ...] | None:
        if not self.in_place or node not in self.native or value in self.staged:
            return None
        return assigned_strides(node, value, self.readers, self.shapes.specs)

    def _seen(self, node: Node, k: int, value: Value, spec: Spec) -> Ref | None:
        """Where a result is that already exists: an input seen differently, or one handed through."""
        if not (self.in_place and node.is_op) or value in self.staged:
            return None
        if node.record.is_view:
            return self._view(node, spec)
        return self._passed_on(node, k, spec) if node.record.is_elementwise else None

    def _shared(self, node: Node, k: int, value: Value, spec: Spec) -> Ref | None:
        """Memory of an input that a result may overwrite."""
        if not self.in_place or value in self.staged:
            return None
        if node.type in (ALL_REDUCE, FUSED_ALL_REDUCE):
            return self._over(node, _part_of(node, k), spec, alone=True)
        if node.is_op and node.record.is_elementwise:
            return self._over_any(node, spec)
        return self._over_any(node, spec) if node.type == FUSED_ELEMENTWISE and len(node.writes) == 1 else None

    def _view(self, node: Node, spec: Spec) -> Ref | None:
        """Where an op that only looks at its input differently finds it."""
        record = node.record
        source = node.inputs[shown_input(record)]
        ref = self.refs.get(source) if source is not None else None
        if record.view is None or ref is None or ref.root.name:
            return None
        strided = Strided(ref.offset, ref.shape, ref.strides, ref.dtype.itemsize)
        view = record.view(strided, spec.shape, node.attrs)
        if view is None or view.shape != spec.shape:
            return None
        return Ref(ref.root, view.offset, view.shape, view.strides, ref.dtype)

    def _passed_on(self, node: Node, k: int, spec: Spec) -> Ref | None:
        """The memory of an input that is handed through unchanged, as the gradient of an addition is."""
        ins = [slot for slot in node.inputs if not isinstance(slot, list)]
        if len(ins) != len(node.inputs):
            return None
        dtypes = tuple(None if v is None else self.shapes.specs[v].dtype.numpy for v in ins)
        output = next(i for i, slot in enumerate(node.outputs) if slot is not None and slot is node.writes[k])
        source = passes_through(node.record, dtypes, node.attrs).get(output)
        ref = self.refs.get(ins[source]) if source is not None else None
        if ref is None or ref.root.name or ref.shape != spec.shape or ref.dtype != spec.dtype.numpy:
            return None
        return ref

    def _over_any(self, node: Node, spec: Spec) -> Ref | None:
        for value in node.value_reads:
            overwritten = self._over(node, value, spec)
            if overwritten is not None:
                return overwritten
        return None

    def _over(self, node: Node, value: Value, spec: Spec, alone: bool = False) -> Ref | None:
        """The memory of an input nobody needs after this node.

        Args:
            alone: the input has no other reader, so that it does not matter on which threads they are.
        """
        ref = self.refs.get(value)
        if ref is None or not ref.fills_root or ref.root.name or value in self.bucketed:
            return None
        if ref.shape != spec.shape or ref.dtype != spec.dtype.numpy or ref.root.last == END:
            return None
        root, position, thread = ref.root, self.position[node], self.schedule.thread[node]
        if root.read_until > position or root.pinned or root.taken == position:
            return None
        if alone:
            return ref if root.read_from == position else None
        return ref if root.readers <= {thread} and root.threads <= {thread} else None

    def _new_root(self, place: int, spec: Spec, first: int) -> Root:
        root = Root(place, _nbytes(spec), first=first)
        self.roots.append(root)
        return root

    def _hold(self, value: Value, root: Root, spec: Spec) -> None:
        ref = Ref(root, 0, spec.shape, (), spec.dtype.numpy)
        self._hold_ref(value, Ref(root, 0, spec.shape, contiguous(ref), spec.dtype.numpy))

    def _hold_ref(self, value: Value, ref: Ref) -> None:
        self.refs[value] = ref
        root = ref.root
        root.pinned |= value in self.staged
        for reader in self.readers.get(value, ()):
            at_end = reader.type == FETCH or reader in self.committed
            position = END if at_end else self.position[reader]
            root.read_from, root.read_until = min(root.read_from, position), max(root.read_until, position)
            root.readers.add(self.schedule.thread[reader])

    def _touch(self, node: Node) -> None:
        at_end = node.type == FETCH or node in self.committed
        position, thread = END if at_end else self.position[node], self.schedule.thread[node]
        for value in (*node.value_reads, *node.writes):
            ref = self.refs.get(value)
            if ref is not None:
                ref.root.last = max(ref.root.last, position)
                ref.root.threads.add(thread)

    # Groups

    def _put_together(self, members: Sequence[Value]) -> Ref | None:
        """One root for values that an update reads as one array; padding keeps each of them aligned."""
        specs = [self.shapes.specs[v] for v in members]
        usable = all(is_static(s) and v in self.uses.writer for s, v in zip(specs, members, strict=True))
        if not usable or any(v in self.bucketed for v in members) or len(set(members)) < len(members):
            return None
        dtype = specs[0].dtype.numpy
        offsets, total = flat_offsets([size_of(s.shape) * dtype.itemsize for s in specs])
        root = Root(members[0].place, total, last=END)
        self.roots.append(root)
        for value, spec, offset in zip(members, specs, offsets, strict=True):
            ref = Ref(root, offset, spec.shape, (), dtype)
            ref = Ref(root, offset, spec.shape, contiguous(ref), dtype)
            self.bucketed[value] = ref
            self._reach_back(value, ref)
        return Ref(root, 0, (total // dtype.itemsize,), (dtype.itemsize,), dtype)

    def _reach_back(self, value: Value, ref: Ref) -> None:
        """Let a gradient be computed where its sum over the devices will be, if nothing else reads it."""
        node = self.uses.writer[value]
        if not self.in_place or node.type not in (ALL_REDUCE, FUSED_ALL_REDUCE):
            return
        part = _part_of(node, node.writes.index(value))
        if self.readers.get(part) == [node] and part in self.uses.writer:
            self.bucketed[part] = ref

    # Offsets

    def _lay_out(self, reuse: bool) -> dict[int, int]:
        """Give every root its offset; returns the bytes each device needs."""
        sizes = dict.fromkeys(range(self.graph.devices), 0)
        free: dict[tuple[int, int], list[tuple[int, int]]] = {}
        ends: dict[tuple[int, int], list[tuple[int, int, Root]]] = {}
        for number, root in enumerate(sorted(self.roots, key=lambda r: r.first)):
            nbytes = -(-max(root.nbytes, 1) // ALIGN) * ALIGN
            if not reuse or len(root.threads) > 1 or root.last == END or root.first < 0:
                root.offset, sizes[root.place] = sizes[root.place], sizes[root.place] + nbytes
                continue
            key = root.place, min(root.threads, default=0)
            holes, busy = free.setdefault(key, []), ends.setdefault(key, [])
            while busy and busy[0][0] < root.first:
                gone = busy.pop(0)[2]
                _give_back(holes, gone.offset, -(-max(gone.nbytes, 1) // ALIGN) * ALIGN)
            offset = _take(holes, nbytes)
            if offset is None:
                offset, sizes[root.place] = sizes[root.place], sizes[root.place] + nbytes
            root.offset = offset
            insort(busy, (root.last, number, root), key=lambda entry: entry[:2])
        return sizes


def _take(holes: list[tuple[int, int]], nbytes: int) -> int | None:
    """The smallest hole that is large enough."""
    best = min((hole for hole in holes if hole[1] >= nbytes), key=lambda hole: hole[1], default=None)
    if best is None:
        return None
    holes.remove(best)
    if best[1] > nbytes:
        insort(holes, (best[0] + nbytes, best[1] - nbytes))
    return best[0]


def _give_back(holes: list[tuple[int, int]], offset: int, nbytes: int) -> None:
    """A new hole, joined with its neighbours."""
    for hole in list(holes):
        if hole[0] + hole[1] == offset:
            offset, nbytes = hole[0], hole[1] + nbytes
            holes.remove(hole)
        elif offset + nbytes == hole[0]:
            nbytes += hole[1]
            holes.remove(hole)
    insort(holes, (offset, nbytes))


def flat_offsets(sizes: Sequence[int]) -> tuple[list[int], int]:
    """Byte offsets of arrays one after the other, each aligned, and the bytes of all."""
    offsets, total = [], 0
    for nbytes in sizes:
        offsets.append(total)
        total += -(-nbytes // ALIGN) * ALIGN
    return offsets, total


def shown_input(record: Op) -> int:
    """Number of the input slot whose memory the result of a view op shows."""
    (shown,) = record.aliases.values()
    return next(i for i, slot in enumerate(record.inputs) if slot.name == shown)


def _part_of(node: Node, k: int) -> Value:
    """The part of a collective that its k-th result stands for on the same device."""
    return node.reads[k]


def _nbytes(spec: Spec) -> int:
    return size_of(spec.shape) * spec.dtype.itemsize
