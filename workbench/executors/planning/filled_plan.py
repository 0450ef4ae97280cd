"""The plan for some sizes, from the form of the open one: what it is made of is worked out when somebody asks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from workbench.executors.planning.memory.aliases import Alias, Aliases
from workbench.executors.planning.memory.memory_plan import MemoryPlan
from workbench.executors.planning.memory.offsets import Offsets
from workbench.executors.planning.memory.refs import Ref, Root
from workbench.executors.planning.memory.storage import Storage, StorageSpot
from workbench.executors.planning.plan import Plan, Row
from workbench.executors.planning.plan_form import PlanForm
from workbench.executors.planning.shapes import Shapes
from workbench.framework.op.record import Cost
from workbench.framework.values.spec import Spec
from workbench.framework.values.views import Strided
from workbench.graph.ssa import Node, Value


class FilledPlan(Plan):
    """The plan for some sizes; what it is made of is worked out when somebody asks.

    Attributes:
        offsets: where pieces of memory lie.
    """

    offsets: Offsets
    _form: PlanForm
    _numbers: list[int]
    _rows: dict[Node, Row]
    _roots: dict[int, Root]

    def __init__(self, form: PlanForm, numbers: list[int]) -> None:
        nbytes_of = [numbers[n] for _, n in form.pieces]
        offsets = form.in_order.offsets(nbytes_of, form.open.graph.devices)
        vars(self).update(form.shared, _form=form, _numbers=numbers, _rows={}, _roots={}, offsets=offsets)

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
