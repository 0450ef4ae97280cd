"""Plans whose sizes are open: made once for feeds of certain names, ranks and dtypes, filled in for every shape.

Which dimensions are open is seen from shapes that came before: those that changed. Dimensions that were always equal
are one unknown. A plan that was filled in is the plan made for that very shape; where a decision depends on sizes, that
is a condition (`sizes.Conditions`), and where one does not hold `OpenPlan.fill` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from workbench.executors.planning.memory.aliases import Alias, Aliases
from workbench.executors.planning.memory.memory_plan import MemoryPlan
from workbench.executors.planning.memory.offsets import Offsets, PiecesInOrder, room_for
from workbench.executors.planning.memory.refs import ALIGN, Ref, Root
from workbench.executors.planning.memory.storage import Storage, StoragePiece, StorageSpot
from workbench.executors.planning.plan import Given, MemoryOptions, Plan, Row, make_plan
from workbench.executors.planning.schedule import BYTES, CALL, FLOPS, MARGIN, NATIVE_CALL, seconds, shared_schedule
from workbench.executors.planning.shapes import Shapes
from workbench.executors.planning.shares import share
from workbench.executors.planning.sizes.formulas import Conditions, Formulas
from workbench.executors.planning.sizes.size import Sizes
from workbench.executors.planning.sizes.unknowns import Number, Turn, Unsettled
from workbench.framework.op.record import Cost
from workbench.framework.values.spec import Spec
from workbench.framework.values.views import Strided
from workbench.graph.ssa import Graph, Node, Value

_TIMES = 4.0  # so much more work than in the example, at most: how long a tape runs in one go goes by that


class OpenDims(NamedTuple):
    """Which dimensions of feeds are open.

    Attributes:
        groups: of each unknown the dimensions it is, as (name, device) and axis.
        given: the feeds of the example; where nothing is open they stay so.
    """

    groups: tuple[tuple[tuple[tuple[str, int], int], ...], ...]
    given: Given

    def sizes_of(self, given: Given) -> list[int] | None:
        """The unknowns, of feeds; None if these differ from the example in something else."""
        if given.keys() != self.given.keys():
            return None
        rest = {key: list(spec.shape) for key, spec in given.items()}
        wanted = {key: list(spec.shape) for key, spec in self.given.items()}
        sizes: list[int] = []
        for group in self.groups:
            dims = {given[key].shape[axis] if axis < len(given[key].shape) else -1 for key, axis in group}
            if len(dims) > 1 or -1 in dims:
                return None
            sizes += dims
            for key, axis in group:
                rest[key][axis] = wanted[key][axis]
        same = all(given[key][1:] == spec[1:] for key, spec in self.given.items())
        return sizes if same and rest == wanted else None


def open_dims(seen: Sequence[Given]) -> OpenDims | None:
    """What is open, of feeds of which the last is the example; None if that cannot be told.

    Args:
        seen: feeds with the same names, ranks and dtypes.
    """
    example = seen[-1]
    groups: dict[tuple[int, ...], list[tuple[tuple[str, int], int]]] = {}
    for key, spec in example.items():
        for axis in range(len(spec.shape)):
            column = tuple(given[key].shape[axis] for given in seen)
            if len(set(column)) > 1:
                groups.setdefault(column, []).append((key, axis))
    small = any(column[-1] < 2 for column in groups)
    return None if small or not groups else OpenDims(tuple(map(tuple, groups.values())), example)


@dataclass(frozen=True, eq=False)
class Filled:
    """A plan for given sizes, and what its unknowns are.

    Attributes:
        unknowns: by number; where memory begins as bytes from the beginning of the arena.
    """

    plan: FilledPlan
    unknowns: list[int]


class OpenPlan:
    """A plan for feeds of which some dimensions are open.

    Args:
        make: makes the plan, as `make_plan`, given specs and a stage of offsets.
        num_threads: at most so many threads are used.

    Attributes:
        plan: with `Size`s in it. sizes: its unknowns. addresses: of every piece in an arena, by number of the unknown.

    Raises:
        Unsettled: a size has to be known.
    """

    def __init__(self, dims: OpenDims, make: Callable[..., Plan], num_threads: int) -> None:
        self.dims, self.sizes, self._num_threads = dims, Sizes(), num_threads
        self.addresses: dict[int, int] = {}  # number of the unknown -> number of the piece
        given = dict(dims.given)
        for group in dims.groups:
            (key, axis), *_ = group
            size = self.sizes.unknown(given[key].shape[axis])
            for key, axis in group:
                shape: list[Any] = list(given[key].shape)
                shape[axis] = size
                given[key] = given[key].with_shape(shape)
        self.plan = make(given, self._lay_out)
        if self.sizes.had_to_be_known:
            number = self.sizes.had_to_be_known[0]
            raise Unsettled(f"{number.formula} has to be known when the plan is made, such as {number.example}")
        self._form: _Form | None = None

    def _lay_out(self, pieces: Sequence[StoragePiece], devices: int, reuse: bool) -> Offsets:
        """Every piece somewhere; which may share bytes follows from when they are needed."""
        offsets: list[Number] = []
        for number, piece in enumerate(pieces):
            if piece.name:
                offsets.append(0)
                continue
            room = room_for(piece) if reuse else None
            self.addresses[len(self.sizes.unknowns)] = number
            offsets.append(self.sizes.address(ALIGN, Turn(room, piece.first, piece.last)))
        return Offsets(tuple(offsets), dict.fromkeys(range(devices), 0))

    def close(self) -> None:
        """All decisions have been made, those of the lowering, too: conditions are complete."""
        self._form = _Form(self.plan, self.sizes)

    def fill(self, given: Given) -> Filled | None:
        """The plan for these feeds; None if it is not the right one for them."""
        form, sizes = self._form, self.dims.sizes_of(given)
        assert form is not None, "conditions are looked at when all are known"
        if sizes is None:
            return None
        unknowns = form.conditions.complete(dict(enumerate(sizes)))
        if not form.conditions.hold(unknowns):
            return None
        numbers = form.numbers(unknowns)
        if not form.is_scheduled_so(numbers, self._num_threads):
            return None
        plan = FilledPlan(form, numbers.tolist())
        for unknown, piece in self.addresses.items():
            unknowns[unknown] = plan.offsets.offsets[piece]
        return Filled(plan, unknowns)


class _Numbers:
    """Numbers of a plan, each kept once; what is made of them is told by where they stand."""

    def __init__(self) -> None:
        self.numbers: list[Number] = []
        self._known: dict[Any, int] = {}

    def at(self, number: Number) -> int:
        key = (type(number), number) if type(number) is int else number
        if key not in self._known:
            self._known[key] = len(self.numbers)
            self.numbers.append(number)
        return self._known[key]

    def all_at(self, numbers: Sequence[Number]) -> tuple[int, ...]:
        return tuple(map(self.at, numbers))


class _RefForm(NamedTuple):
    """A Ref: its piece, and where its numbers stand."""

    piece: int
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any


class _Form:
    """A plan with open sizes, taken apart into numbers and what is made of them."""

    def __init__(self, plan: Plan, sizes: Sizes) -> None:
        self.open, self.conditions = plan, Conditions(sizes)
        self.updates = plan.updates
        self.rows = {row.node: row for row in (*plan.rows, *plan.commit)}
        numbers, memory = _Numbers(), plan.memory
        self.specs = {v: (numbers.all_at(spec.shape), spec) for v, spec in plan.shapes.specs.items()}
        self.costs = {node: numbers.all_at(cost) for node, cost in plan.shapes.formulas.items()}
        self.pieces = [(piece, numbers.at(piece.nbytes)) for piece in memory.storage.pieces]
        self.in_order = PiecesInOrder(memory.storage.pieces, memory.request.reuse)
        piece_of = {plan.refs[value].root: spot.piece for value, spot in memory.storage.spots.items()}
        distinct = {id(ref): ref for ref in (*plan.refs.values(), *memory.flats) if ref is not None}
        self.refs = [
            _RefForm(
                piece_of[ref.root], numbers.at(ref.offset), numbers.all_at(ref.shape), numbers.all_at(ref.strides),
                ref.dtype,
            )
            for ref in distinct.values()
        ]  # fmt: skip
        self.ref_number = {key: n for n, key in enumerate(distinct)}
        self.ref_of = {value: self.ref_number[id(ref)] for value, ref in plan.refs.items()}
        self.spots = {value: (spot.piece, numbers.at(spot.offset)) for value, spot in memory.storage.spots.items()}
        self.shown = {
            value: (alias.base, numbers.at(alias.seen.offset)) for value, alias in memory.aliases.aliases.items()
        }  # fmt: skip
        self.layouts = {value: numbers.all_at(strides) for value, strides in memory.layouts.items()}
        self.numbers = Formulas(sizes, numbers.numbers)
        self._flops, self._moved = (np.array([cost[k] for cost in self.costs.values()], np.intp) for k in (0, 1))
        self._chain = self._longest_chain()
        self._native = np.array([node in plan.native for node in self.costs], bool)
        self._calls = np.where(self._native, NATIVE_CALL, CALL)
        self._seconds = float(self._work(self.numbers([u.example for u in sizes.unknowns])).sum())

    # Whether the schedule of the example is that of other sizes

    def _work(self, numbers: np.ndarray) -> np.ndarray:
        """Estimated seconds of every node."""
        return numbers[self._flops] / FLOPS + numbers[self._moved] / BYTES

    def _longest_chain(self) -> np.ndarray:
        """Numbers of nodes of which each needs the one before it, those that take longest in the example."""
        ends: dict[Node, tuple[float, Node | None]] = {}
        for node in self.costs:
            last = max(self.open.before.get(node, ()), key=lambda n: ends[n][0], default=None)
            begin = 0.0 if last is None else ends[last][0]
            ends[node] = begin + seconds(self.open.shapes.costs[node]) + NATIVE_CALL, last
        at = max(ends, key=lambda n: ends[n][0], default=None)
        chain = set()
        while at is not None:
            chain.add(at)
            at = ends[at][1]
        return np.array([n for n, node in enumerate(self.costs) if node in chain], np.intp)

    def is_scheduled_so(self, numbers: np.ndarray, num_threads: int) -> bool:
        """Whether the work takes the same order and threads as in the example, and about as long."""
        mine, work = self.open.schedule, self._work(numbers)
        if work.sum() > _TIMES * self._seconds:
            return False
        if num_threads == 1:
            return True
        shares = self.open.shares.threads > 1
        if mine.threads == 1 and shares != (share(work, numbers[self._moved], self._native, num_threads) is not None):
            return False
        if shares:
            return True
        takes = work + self._calls
        if mine.threads == 1 and takes[self._chain].sum() >= MARGIN * takes.sum():
            return True  # no threads are quicker than this chain
        listed: list[int] = numbers.tolist()
        costs = {node: Cost(listed[flops], listed[moved]) for node, (flops, moved) in self.costs.items()}
        nodes, native = self.open.graph.nodes, self.open.native
        shared = shared_schedule(nodes, self.open.before, costs, num_threads, native)
        if shared is None:
            return mine.threads == 1
        return (shared.order, shared.thread, shared.threads) == (mine.order, mine.thread, mine.threads)


_SHARED = (
    "graph", "schedule", "shares", "memory_options", "staged", "feeds", "fetches", "before", "waits", "last_reader",
    "native",
)  # fmt: skip


class FilledPlan(Plan):
    """The plan for some sizes; what it is made of is worked out when somebody asks.

    Attributes:
        offsets: where pieces of memory lie.
    """

    offsets: Offsets
    _form: _Form
    _numbers: list[int]
    _rows: dict[Node, Row]
    _roots: dict[int, Root]

    def __init__(self, form: _Form, numbers: list[int]) -> None:
        vars(self).update({name: getattr(form.open, name) for name in _SHARED}, _form=form, _numbers=numbers)
        vars(self).update(_rows={}, _roots={}, updates=form.updates)
        nbytes_of = [numbers[n] for _, n in form.pieces]
        vars(self)["offsets"] = form.in_order.offsets(nbytes_of, form.open.graph.devices)

    @cached_property
    def refs(self) -> _FilledRefs:
        """The memory of every value that has some."""
        return _FilledRefs(self)

    def ref(self, number: int) -> Ref:
        """A Ref of the open plan, filled in."""
        form, numbers = self._form.refs[number], self._numbers
        shape, strides = (tuple([numbers[n] for n in each]) for each in (form.shape, form.strides))
        return Ref(self._root(form.piece), numbers[form.offset], shape, strides, form.dtype)

    def _root(self, number: int) -> Root:
        root = self._roots.get(number)
        if root is None:
            piece, nbytes = self._form.pieces[number]
            root = Root(piece.place, self._numbers[nbytes], piece.name, self.offsets.offsets[number])
            self._roots[number] = root
        return root

    @property
    def sizes(self) -> Mapping[int, int]:
        """Bytes of each device's arena."""
        return self.offsets.sizes

    @cached_property
    def shapes(self) -> Shapes:
        """Specs and costs."""
        numbers, form = self._numbers, self._form
        specs = {
            value: Spec(tuple([numbers[n] for n in shape]), spec.dtype, spec.kind)
            for value, (shape, spec) in form.specs.items()
        }
        costs = {node: Cost(numbers[flops], numbers[moved]) for node, (flops, moved) in form.costs.items()}
        return Shapes.known(specs, costs)

    @cached_property
    def memory(self) -> MemoryPlan:
        """Where every value lives, and why."""
        numbers, form, memory = self._numbers, self._form, self._form.open.memory
        pieces = tuple(piece._replace(nbytes=numbers[n]) for piece, n in form.pieces)
        storage = Storage(pieces, {value: StorageSpot(piece, numbers[n]) for value, (piece, n) in form.spots.items()})
        layouts = {value: tuple([numbers[n] for n in strides]) for value, strides in form.layouts.items()}
        request = replace(memory.request, specs=self.shapes.specs)
        return MemoryPlan(
            request, memory.buckets, layouts, self._aliases(), memory.takeovers, storage, self.offsets, self.refs,
            tuple(None if ref is None else self.refs.numbered(form.ref_number[id(ref)]) for ref in memory.flats),
        )  # fmt: skip

    def _aliases(self) -> Aliases:
        def strided(value: Value, offset: int) -> Strided:
            ref = self.refs[value]
            return Strided(offset, ref.shape, ref.strides, ref.dtype.itemsize)

        shown = {value: Alias(base, strided(value, self._numbers[n])) for value, (base, n) in self._form.shown.items()}
        return Aliases(shown, {value: strided(value, 0) for value in self._form.open.memory.aliases.own})

    @cached_property
    def rows(self) -> tuple[Row, ...]:
        """The speculative phase."""
        return tuple([self.row(row.node) for row in self._form.open.rows])

    @cached_property
    def commit(self) -> tuple[Row, ...]:
        """Updates that write the scope in place."""
        return tuple([self.row(row.node) for row in self._form.open.commit])

    def row(self, node: Node) -> Row:
        """The row of a node."""
        row = self._rows.get(node)
        if row is None:
            row = self._rows[node] = self._made(self._form.rows[node])
        return row

    def _made(self, row: Row) -> Row:
        def of(ref: Any) -> Any:
            if isinstance(ref, list):
                return [of(each) for each in ref]
            return None if ref is None else self.refs.numbered(self._form.ref_number[id(ref)])

        flops, moved = self._form.costs[row.node]
        cost = Cost(self._numbers[flops], self._numbers[moved])
        return Row(row.node, [of(ref) for ref in row.ins], [of(ref) for ref in row.outs], row.thread, cost)

    @cached_property
    def flats(self) -> Mapping[Node, Ref | None]:
        """The memory of the gradients of each update."""
        return dict(zip(self._form.open.flats, self.memory.flats, strict=False))


class _FilledRefs(Mapping[Value, Ref]):
    """The refs of a plan, each made when it is asked for."""

    def __init__(self, plan: FilledPlan) -> None:
        self._plan, self._of = plan, plan._form.ref_of
        self._made: dict[int, Ref] = {}

    def numbered(self, number: int) -> Ref:
        """By its number in the open plan: what is one object there is one here."""
        ref = self._made.get(number)
        if ref is None:
            ref = self._made[number] = self._plan.ref(number)
        return ref

    def __getitem__(self, value: Value) -> Ref:
        return self.numbered(self._of[value])

    def __contains__(self, value: object) -> bool:
        return value in self._of

    def __iter__(self) -> Iterator[Value]:
        return iter(self._of)

    def __len__(self) -> int:
        return len(self._of)


def plan_openly(
    dims: OpenDims, graph: Graph, num_threads: int, memory_options: MemoryOptions, fed: frozenset[tuple[str, int]],
    has_kernels: Any,
) -> OpenPlan:  # fmt: skip
    """`make_plan` with open sizes."""

    def make(given: Given, lay_out: Any) -> Plan:
        return make_plan(graph, given, num_threads, memory_options, fed, has_kernels, lay_out)

    return OpenPlan(dims, make, num_threads)
