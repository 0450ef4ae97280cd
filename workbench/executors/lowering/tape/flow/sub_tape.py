"""A block of a program as a tape of its own, which a row of another tape walks.

The block is planned like a program: with memory of its own for what it makes. What it is given lies where whoever
walks it says. An operator without a native form is a row, too, which asks Python to make its NumPy calls: whoever walks
the tape then leaves all blocks around, and comes back into them where it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from workbench.errors import EnforceNotMet
from workbench.executors.failures import Explained
from workbench.executors.lowering.bound_values import BoundValues
from workbench.executors.lowering.numpy.fused_all_reduce_update import FusedReductions
from workbench.executors.lowering.numpy.lower import lower
from workbench.executors.lowering.operands import Call, Context, Scratch
from workbench.executors.lowering.spans import Span, SpanCall, find_spans
from workbench.executors.lowering.tape.flow.block_graph import BlockGraph
from workbench.executors.lowering.tape.flow.memory import handing_over
from workbench.executors.lowering.tape.rules import FLOAT, require
from workbench.executors.lowering.tape.transposes import strided_copy
from workbench.executors.lowering.tape.vector_code import Unsuitable
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.plan import MemoryOptions, Plan, Row, make_plan
from workbench.executors.planning.schedule import seconds
from workbench.executors.planning.sizes.unknowns import Unsettled
from workbench.framework.program.block import Block
from workbench.framework.values.spec import STACK, Spec, spec_of
from workbench.graph.ssa import Graph, Value
from workbench.runtime.arena import Arena
from workbench.runtime.native.control import lines
from workbench.runtime.native.tape import Tape, address
from workbench.runtime.words.codes import AT, CALL, CONTROL, END, START, STATE_WORDS, TABLE

_OPTIONS = MemoryOptions(flat=False)


class AskedCalls:
    """The rows of a block that Python runs, and what else it does for it. The first one has number 1.

    Args:
        state: of the block's tape, where the number of the one that it waits for stands.

    Attributes:
        calls: all of them. rows: the operators among them.
    """

    def __init__(self, state: np.ndarray) -> None:
        self._words = state.data
        self.calls: list[Call] = []
        self.rows: list[Row] = []

    def add(self, call: Call) -> int:
        """One more; its number."""
        self.calls.append(call)
        return len(self.calls)

    def answer(self) -> bool:
        number = self._words[CALL]
        if number <= 0:
            return False
        self.calls[number - 1]()
        self._words[CALL] = -number
        return True

    def clear(self) -> None:
        self._words[CALL] = 0


class _RowCalls:
    """The calls of one row of a block, which tell whose they are if they fail."""

    def __init__(self, row: Row, plan: Plan, calls: Sequence[Call]) -> None:
        self._explained, self._calls = Explained(row.node, plan.graph, plan.shapes.specs), calls

    def __call__(self) -> None:
        with self._explained:
            for call in self._calls:
                call()


class SubTape:
    """A tape that is written block by block and move by move, then closed.

    Args:
        outer: writes the tape that walks this one.
        number: where the number of its pass is; None: it is always the first.

    Attributes:
        state: its words, for rows that walk it. seconds: estimated.
    """

    def __init__(self, outer: TapeWriter, place: int, number: np.ndarray | None = None) -> None:
        assert outer.pool.control is not None
        self._outer, self._place = outer, place
        self._tape = Tape(outer.pool.control.kernels)
        number = self._tape.keep(np.zeros(1, np.int64)) if number is None else number
        self._passes = (*outer.context.passes, number)
        self.state = lines(STATE_WORDS)
        self._asked = AskedCalls(self.state)
        self.seconds = 0.0

    def row(self, kernel: str, *arguments: Any) -> None:
        """Add a row."""
        self._tape.row(kernel, *arguments)

    def new(self, like: np.ndarray) -> np.ndarray:
        """Memory for an array, which is there as long as the tape."""
        return self._tape.keep(np.empty(like.shape, like.dtype))

    def dense(self, array: np.ndarray) -> np.ndarray:
        """The array, or a copy whose elements lie in order, where they do not, as in a part of another array."""
        if array.flags.c_contiguous:
            return array
        beside = self.new(array)
        strided = strided_copy(array, beside) if array.dtype == FLOAT and array.size else None
        if strided is None:
            self.ask(partial(np.copyto, beside, array))
        else:
            self.row(*strided)
        return beside

    def ask(self, call: Call) -> None:
        """Add a row that has Python make a call."""
        self._tape.row("ask", self.state, self._asked.add(call))

    def move(self, source: np.ndarray, out: np.ndarray) -> None:
        """Copy an array."""
        require(source.shape == out.shape, source.dtype == out.dtype, out.flags.c_contiguous)
        source = self.dense(source)
        if address(source) != address(out):
            self.row("move_bytes", source, out, out.nbytes)

    def move_all(self, moves: Sequence[tuple[np.ndarray, np.ndarray]]) -> None:
        """Copy arrays as if at the same time."""
        if any(np.may_share_memory(a, out) for i, (a, _) in enumerate(moves) for _, out in moves[:i]):
            aside = [self.new(source) for source, _ in moves]
            for (source, _), between in zip(moves, aside, strict=True):
                self.move(source, between)
            moves = [(between, out) for between, (_, out) in zip(aside, moves, strict=True)]
        for source, out in moves:
            self.move(source, out)

    def block(self, block: Block, given: Mapping[str, Any], wanted: Sequence[str]) -> dict[str, Any]:
        """Add the operators of a block.

        Args:
            given: what it may read: arrays, and what control flow in kernels has kept.
            wanted: names of what it makes, or is given, that is to be seen afterwards.

        Returns:
            the same of those.

        Raises:
            Unsuitable: something it makes has a size that nobody knows before.
        """
        graph = self._outer.context.graph
        if graph is None:
            raise Unsuitable
        builder = BlockGraph(block, self._place, Graph(graph.program, graph.places, graph.settings))
        builder.fetch(wanted)
        specs: dict[tuple[str, int], Spec] = {
            (name, self._place): spec_of(array) for name, array in given.items() if isinstance(array, np.ndarray)
        }  # fmt: skip
        try:
            plan = make_plan(builder.graph, specs, 1, _OPTIONS)
        except EnforceNotMet:
            raise Unsuitable from None  # what is wrong is told by the body of the op
        require(not plan.commit, not plan.staged, all(value.name in given for value in plan.feeds))
        arrays = {value: given[value.name] for value in plan.feeds if value in plan.refs}
        memories = {value: given[value.name] for value in plan.feeds if value not in plan.refs}
        arenas = {place: Arena(nbytes) for place, nbytes in plan.sizes.items()}
        self._outer.context.held += arenas.items()
        values = BoundValues(plan, arenas, FusedReductions(), arrays, {})
        self._tape.kept.append(values)
        self._write(plan, values, memories)
        results = {name: builder.newest[name] for name in wanted}
        require(all(value in plan.refs or value in memories for value in results.values()))
        return {name: values.array(v) if v in plan.refs else memories[v] for name, v in results.items()}

    def _write(self, plan: Plan, values: BoundValues, memories: dict[Value, Any]) -> None:
        scratch = Scratch()
        self._tape.kept.append(scratch)
        context = _inner(self._outer.context, plan, values, memories, self._passes)
        writer = TapeWriter(self._outer.pool, context, scratch, lambda row: (), tape=self._tape)
        spans = {row.node: span for span in self._spans(plan) for row in span}
        for row in plan.rows:
            span = spans.get(row.node)
            if span is not None and row is span[0]:
                writer.cut()
                self.ask(_RowCalls(row, plan, [SpanCall(span, context, ())]))
                self._asked.rows += span
            elif span is None and not writer.add(row):
                writer.cut()
                self._leave_to_python(row, context, plan)
            self.seconds += seconds(row.cost)
        writer.cut()
        self._outer.calls_blas |= writer.calls_blas

    def _spans(self, plan: Plan) -> list[Span]:
        return [] if self._outer.context.stretches is None else find_spans(plan.rows, lambda row: False)

    def _leave_to_python(self, row: Row, context: Context, plan: Plan) -> None:
        try:
            calls = [*handing_over(row, context), *lower(row, context)]
        except EnforceNotMet:
            raise Unsuitable from None  # if the block ever runs, the body of the op tells what is wrong
        if calls:
            self.ask(_RowCalls(row, plan, calls))
            self._asked.rows.append(row)

    def close(self) -> np.ndarray:
        """The words of its state, now that it is complete."""
        control = self._outer.pool.control
        assert control is not None
        self.state[[TABLE, AT, END, CONTROL, START]] = self._tape.table(), 0, len(self._tape), control.address, 0
        self._outer.tape.kept.append(self._tape)
        self._outer.tape.growing += self._tape.growing
        self._outer.tape.desks += self._tape.desks + ([self._asked] if self._asked.calls else [])
        return self._outer.tape.keep(self.state)


def _inner(
    context: Context, plan: Plan, values: BoundValues, memories: dict[Value, Any], passes: tuple[np.ndarray, ...]
) -> Context:
    """What the rows of a block are bound to: nothing of it is an update or a collective."""
    return replace(
        context, array=values.array, cell=values.cell, flat=values.flat, gradients=lambda node: None,
        shards=lambda node: None, reduces_in_update=lambda node: False, graph=plan.graph, memories=memories,
        passes=passes,
    )  # fmt: skip


def require_memory(row: Row) -> None:
    """All operands but what is kept for the gradient have memory: their sizes are known before the step runs."""
    for slots, refs in ((row.node.inputs, row.ins), (row.node.outputs, row.outs)):
        for slot, ref in zip(slots, refs, strict=True):
            for value, its_ref in zip(slot, ref, strict=True) if isinstance(slot, list) else [(slot, ref)]:
                require(value is None or its_ref is not None or value.spec.kind == STACK)


def settled(writer: TapeWriter, values: Sequence[Value | None]) -> list[np.ndarray]:
    """The arrays of values.

    Raises:
        Unsettled: their sizes are open: blocks are planned for sizes.
    """
    arrays = [writer.context.array(value) for value in values if value is not None]
    if any(type(array) is not np.ndarray for array in arrays):
        raise Unsettled("the operands of control flow have to be known")
    return arrays


def cleared(writer: TapeWriter, out: np.ndarray) -> None:
    """A row that makes an array zeros."""
    require(out.flags.c_contiguous, out.nbytes > 0)
    writer.row("clear_bytes", out, out.nbytes)


def read_by_value(block: Block) -> set[str]:
    """What the operators of a block read; of much else a gradient sees only the shape."""
    names: set[str] = set()
    for op in block.ops:
        shape_only = op.record.shape_only if op.record.is_grad else ()
        for slot in op.record.inputs:
            if slot.name not in shape_only:
                names.update(op.inputs.get(slot.name) or ())
    return names
