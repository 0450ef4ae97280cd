"""Nodes as a tape of their own, for values that lie wherever they happen to be.

The tape is written once with open sizes, and filled in for each of them (`lowering.open_binding`). What it reads, and
where its results go, are addresses that change from run to run: their words are noted, and set before each.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from sys import getrefcount
from typing import Any, NamedTuple

import numpy as np

from workbench.executors.lowering.bound_values import BoundValues
from workbench.executors.lowering.meta import MetaArray, MetaMemory
from workbench.executors.lowering.numpy.fused_all_reduce_update import FusedReductions
from workbench.executors.lowering.open_binding import FilledTape
from workbench.executors.lowering.open_tape import MetaValues, OpenLowering
from workbench.executors.lowering.operands import Call
from workbench.executors.lowering.programs import RowLowering
from workbench.executors.lowering.stretches.room import StretchRoom
from workbench.executors.lowering.tape.segment import Segment
from workbench.executors.lowering.tape.table import has_kernels
from workbench.executors.lowering.thread_program import in_python
from workbench.executors.planning.memory.refs import Ref, contiguous
from workbench.executors.planning.open_plan import Filled, OpenDims, OpenPlan
from workbench.executors.planning.plan import Given, MemoryOptions, Plan, Row, make_plan
from workbench.executors.planning.sizes.formulas import Formulas
from workbench.executors.planning.sizes.size import Size, Sizes, number_of
from workbench.executors.planning.sizes.unknowns import Turn
from workbench.framework.values.spec import Spec
from workbench.framework.values.views import row_major
from workbench.graph.ssa import Graph, Node, Value
from workbench.runtime.native.tape import address
from workbench.runtime.words.codes import AT, DECLINED, ELSEWHERE, START

_OPTIONS = MemoryOptions(flat=False)


class SizedGraph(NamedTuple):
    """Nodes of one device, apart from others.

    Attributes:
        graph: of these nodes, and of fetches of what is wanted. given: what they read of others, which the graph takes
            for the scope's: nobody writes there. wanted: what they make, or are given, for others.
    """

    graph: Graph
    given: tuple[Value, ...]
    wanted: tuple[Value, ...]


class InPython(Exception):
    """Some of the nodes do not run in kernels.

    Attributes:
        nodes: these.
    """

    def __init__(self, nodes: set[Node]) -> None:
        super().__init__(", ".join(sorted({node.type for node in nodes})))
        self.nodes = nodes


class _Moved(NamedTuple):
    """The words that point to a value which lies somewhere else in each run.

    Attributes:
        unknown: the number of its address. words: where they stand; None if something else than words points to it.
    """

    unknown: int
    words: list[int] | None


class SizedForm:
    """The tape of some nodes with open sizes.

    Raises:
        Unsettled: something has to be known. Fixed, Equal: dimensions are not open, or are one.
        InPython: not all of them run in kernels. EnforceNotMet: an op does not take such inputs.
    """

    in_python: frozenset[Node] = frozenset()

    def __init__(self, nodes: SizedGraph, dims: OpenDims, room: StretchRoom) -> None:
        def make(given: Given, lay_out: Any) -> Plan:
            return make_plan(nodes.graph, given, 1, _OPTIONS, frozenset(), has_kernels, lay_out)

        self.nodes, self.room = nodes, room
        self._plan = OpenPlan(dims, make, 1)
        sizes, plan = self._plan.sizes, self._plan.plan
        sizes.require_open()
        standing = {value: _standing(sizes, plan.shapes.specs[value]) for value in nodes.given}
        arenas: Any = {place: MetaMemory() for place in plan.sizes}
        arrays: Any = standing
        values = MetaValues(plan, arenas, FusedReductions(), arrays, {})
        lowering = OpenLowering(
            plan, room.pool, room.context(values, plan.graph), values, FusedReductions(), _nothing, {}
        )
        lowering.begin(sizes)
        (program,) = lowering.programs(plan.rows, with_waits=True, apart=False)
        if not program.is_native:
            raise InPython(in_python([program]))
        self._segment: Any = program.units[0] if program.units else None
        (self._tape,) = lowering.tapes
        sizes.require_open()
        self._scratch = lowering.scratches[0]
        ends = list(dict.fromkeys(self._scratch.ends))
        self._plan.close(ends)
        self._words = Formulas(sizes, [*self._tape.words, *self._tape.numbers])
        pointing = _pointing(sizes, self._tape.words)
        beside = self._beside()
        self.moved = [
            self._moved(number_of(array.address), pointing, value in beside) for value, array in standing.items()
        ]
        self._pieces = {piece: unknown for unknown, piece in self._plan.addresses.items()}
        spots = plan.memory.storage.spots
        self.results = [
            None if value in standing else self._moved(self._pieces[spots[value].piece], pointing, value in beside)
            for value in nodes.wanted
        ]
        self.own = self._own()

    def _beside(self) -> set[Value]:
        """Values in memory that rows use which are written when sizes are known."""
        spots = self._plan.plan.memory.storage.spots
        used = {value for gap in self._tape.gaps for value in (*gap.node.reads, *gap.node.writes)}
        pieces = {spots[value].piece for value in used if value in spots}
        return {value for value, spot in spots.items() if spot.piece in pieces}

    @staticmethod
    def _moved(unknown: int, pointing: Mapping[int, list[int] | None], is_used_beside: bool) -> _Moved:
        return _Moved(unknown, None if is_used_beside else pointing.get(unknown, []))

    def _own(self) -> list[tuple[list[int], list[int]]]:
        """Of every piece of memory that may lie anywhere: numbers of the results in it, and words that point there."""
        pieces: dict[int, tuple[list[int], list[int]]] = {}
        for number, result in enumerate(self.results):
            if result is not None and result.words is not None:
                pieces.setdefault(result.unknown, ([], result.words))[0].append(number)
        return list(pieces.values())

    @property
    def nbytes(self) -> int:
        """What a filled one takes, about."""
        return 4_000 + 24 * len(self._tape.words)

    def is_current(self) -> bool:
        """It is bound to nothing that could have changed."""
        return True

    def try_fill(self, given: Given) -> Filled | None:
        """The plan for values of these sizes; None if this is not right for them."""
        return self._plan.fill(given)

    def fill(self, filled: Filled) -> Sized:
        """The tape for them."""
        plan, room, unknowns = filled.plan, self.room, list(filled.unknowns)
        arenas = room.arenas(plan.sizes)
        arena = address(arenas[self._place].array(0, (0,), np.uint8))
        for unknown in self._plan.addresses:
            unknowns[unknown] += arena
        begin = room.scratch_of(max(filled.more, default=0))
        unknowns[number_of(self._scratch.begin)] = address(begin)
        fixed: dict[Value, np.ndarray] = {}
        for value, moved in zip(self.nodes.given, self.moved, strict=True):
            unknowns[moved.unknown] = 0
            if moved.words is None:
                spec = plan.shapes.specs[value]
                fixed[value] = np.empty(spec.shape, spec.dtype.numpy)
                unknowns[moved.unknown] = address(fixed[value])
        for result in self.results:
            if result is not None and result.words is not None:
                unknowns[result.unknown] = 0
        values = BoundValues(plan, arenas, FusedReductions(), fixed, {})
        context = room.context(values, plan.graph)
        lowering = RowLowering(plan, room.pool, context, values, FusedReductions(), _nothing, room.scratch)
        tape = FilledTape(self._tape, unknowns)
        tape.write(self._words(unknowns), 0, lowering, plan.row)
        return Sized(self, plan, tape, values, fixed, (arenas, begin))

    @property
    def _place(self) -> int:
        return self.nodes.graph.nodes[0].place

    def segment(self, tape: FilledTape) -> Segment | None:
        """What runs a filled tape."""
        if self._segment is None:
            return None
        return self._segment.on(tape.tape, address(tape.tape.words), _no_calls, _no_row, tape.moved)


Patches = list[tuple[int, int]]  # words, and how far behind the first byte of an array they point


class _Lent:
    """Memory that was handed out, and the results in it.

    Attributes:
        memory: all of it. at: its address. results: the arrays in it, one that is all of it, or several.
    """

    __slots__ = ("_users", "at", "memory", "results")

    def __init__(self, memory: np.ndarray, results: list[np.ndarray]) -> None:
        self.memory, self.results = memory, results
        self.at: int = memory.__array_interface__["data"][0]
        self._users = 0

    def settle(self) -> None:
        """Nobody has any of it now: so many references there are then. A part of a result is one to the memory."""
        self._users = self._references()

    def is_free(self) -> bool:
        """Whether nobody has any of it."""
        return self._references() == self._users

    def _references(self) -> int:
        count = getrefcount(self.memory)
        if self.results[0] is not self.memory:
            for number in range(len(self.results)):
                count += getrefcount(self.results[number])
        return count


class _ResultMemory:
    """Memory for results, new in every run, or what nobody reads any more of an earlier one.

    Args:
        numbers: of the results in it. refs: of these. patches: the words that point there.

    Attributes:
        spare: memory of earlier runs, which others may have still; what was handed out last is last.
    """

    __slots__ = ("_is_one", "_refs", "_room", "nbytes", "numbers", "patches", "spare")

    def __init__(self, numbers: list[int], refs: list[Ref], patches: Patches, room: StretchRoom) -> None:
        self.numbers, self._refs, self.patches, self._room = numbers, refs, patches, room
        self.nbytes = refs[0].root.nbytes
        fills = not refs[0].offset and refs[0].nbytes == self.nbytes and refs[0].strides == contiguous(refs[0])
        self._is_one = fills and len(refs) == 1
        self.spare: deque[_Lent] = deque()

    def lend(self) -> _Lent:
        """Memory that nobody else has."""
        if self.spare:
            self.spare.rotate(-1)
            lent = self.spare[-1]
            if lent.is_free():
                return lent
        lent = self._new()
        lent.settle()
        if self._room.may_keep(self.nbytes):
            self.spare.append(lent)
            for array in lent.results:
                self._room.addresses[id(array)] = address(array)
        return lent

    def _new(self) -> _Lent:
        if self._is_one:
            (ref,) = self._refs
            memory = np.empty(ref.shape, ref.dtype)
            return _Lent(memory, [memory])
        memory = np.empty(self.nbytes, np.uint8)
        return _Lent(memory, [_part(memory, ref) for ref in self._refs])

    def forget(self) -> int:
        """Keep no memory; how many bytes there were."""
        for lent in self.spare:
            for array in lent.results:
                del self._room.addresses[id(array)]
        freed = self.nbytes * len(self.spare)
        self.spare.clear()
        return freed


def _part(memory: np.ndarray, ref: Ref) -> np.ndarray:
    """What lies in memory; an empty array, such as the last column of no rows, may begin behind the end."""
    if not ref.nbytes:
        return np.empty(ref.shape, ref.dtype)
    return np.ndarray(ref.shape, ref.dtype, memory, ref.offset, ref.strides)


class Sized:
    """The nodes for given sizes, bound.

    Attributes:
        nbytes: what it takes, about.
    """

    def __init__(
        self,
        form: SizedForm,
        plan: Any,
        tape: FilledTape,
        values: BoundValues,
        fixed: Mapping[Value, np.ndarray],
        memory: Any,
    ) -> None:
        self.nbytes = form.nbytes + sum(array.nbytes for array in fixed.values())
        self._segment, self._room = form.segment(tape), form.room
        self._kept = tape, memory  # and nothing of the plan: there are many of these
        self._table: Any = tape.tape.words.data
        self._ins = [
            (fixed.get(value), () if moved.words is None else self._patches(tape, moved.words))
            for value, moved in zip(form.nodes.given, form.moved, strict=True)
        ]
        wanted, results = form.nodes.wanted, form.results
        self._pieces = [
            _ResultMemory(numbers, [plan.refs[wanted[n]] for n in numbers], self._patches(tape, words), form.room)
            for numbers, words in form.own
        ]
        given = {value: number for number, value in enumerate(form.nodes.given)}
        self._handed = [(n, given[value]) for n, value in enumerate(wanted) if results[n] is None]
        self._copied = [
            (n, values.array(value))
            for n, value in enumerate(wanted)
            for moved in [results[n]]
            if moved is not None and moved.words is None
        ]
        self._strided = [
            n
            for numbers, _ in form.own
            for n in numbers
            for ref in [plan.refs[wanted[n]]]
            if ref.strides != contiguous(ref)
        ]
        self._count = len(wanted)
        control = form.room.pool.control
        assert control is not None
        self._run = control.run
        self._words = None if self._segment is None else self._segment._words

    def _patches(self, tape: FilledTape, words: list[int]) -> Patches:
        return [(word, self._table[word]) for word in tape.moved(words)]

    def run(self, arrays: Sequence[np.ndarray]) -> list[Any] | None:
        """New arrays, or those that were given; None if a kernel declines them.

        Args:
            arrays: in the order of what is given.

        Raises:
            Stopped: another thread failed.
        """
        table, known = self._table, self._room.addresses
        results: list[Any] = [None] * self._count
        held = []  # until the end of the run
        for array, (fixed, patches) in zip(arrays, self._ins):
            if fixed is not None:
                np.copyto(fixed, array)
            elif patches:
                at = known.get(id(array))
                if at is None:
                    if not array.flags.c_contiguous:
                        array = np.ascontiguousarray(array)
                        held.append(array)
                    at = self._room.address_of(array)
                for word, distance in patches:
                    table[word] = at + distance
        for piece in self._pieces:
            lent = piece.lend()
            at = lent.at
            for word, distance in piece.patches:
                table[word] = at + distance
            for number, result in zip(piece.numbers, lent.results):
                results[number] = result
        if self._segment is not None and not self._walk():
            return None
        for number in self._strided:
            results[number] = np.ascontiguousarray(results[number])
        for number, source in self._handed:
            results[number] = arrays[source]
        for number, array in self._copied:
            results[number] = array.copy()
        return results

    def _walk(self) -> bool:
        segment, words = self._segment, self._words
        assert segment is not None and words is not None
        words[AT] = words[START]
        status = self._run(segment.address)
        while status:
            if status in (DECLINED, ELSEWHERE):
                return False
            segment.answer(status)
            status = self._run(segment.address)
        return True

    def forget(self) -> int:
        """Keep no memory for results; how many bytes there were."""
        return sum(piece.forget() for piece in self._pieces)


def _standing(sizes: Sizes, spec: Spec) -> MetaArray:
    """What stands for a value that is given."""
    item = spec.dtype.itemsize
    return MetaArray(sizes.address(item, Turn()), spec.shape, row_major(spec.shape, item), spec.dtype.numpy)


def _pointing(sizes: Sizes, words: Sequence[Any]) -> dict[int, list[int] | None]:
    """By number of an address the words at some distance from it; None where a word is something else of it."""
    pointing: dict[int, list[int] | None] = {}
    for word, number in enumerate(words):
        if type(number) is not Size:
            continue
        terms = [term for term in number.terms if any(sizes.unknowns[n].turn is not None for n in term)]
        plain = len(terms) == 1 and len(terms[0]) == 1 and number.terms[terms[0]] == 1
        for n in {n for term in terms for n in term if sizes.unknowns[n].turn is not None}:
            there = pointing.setdefault(n, [])
            if not plain:
                pointing[n] = None
            elif there is not None:
                there.append(word)
    return pointing


def _nothing(node: Node) -> None:
    """A kernel that declines is nobody's update."""


def _no_calls(row: Row) -> list[Call]:
    return []


def _no_row(node: Node) -> Row:
    """What a kernel declines, all nodes do as calls; nobody asks whose row it was."""
    raise NotImplementedError(f"rows of {node} are not kept")
