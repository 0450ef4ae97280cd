"""Vector code as the words of a row: where values are kept, and what is done in chains."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from workbench.runtime.native.tape import Pointer, Tape, pointer
from workbench.runtime.words.opcodes import (
    ADVANCES,
    CASE,
    CHAIN,
    COLUMN_SUM,
    GATHERED,
    ITEMS,
    LINK_WORDS,
    LOAD,
    LONG_NUMBER,
    MIRRORED,
    REPEATED,
    SCALAR,
    SHORT,
    SLOT_WORDS,
    STORE,
    TILED,
    VECTOR,
    WHOLE,
)

Memory = Callable[[int], np.ndarray]
_VECTOR = 16  # numbers
_LINE = 64  # bytes; blocks begin where a vector may
_FLOAT = 4  # bytes


class Leaf(NamedTuple):
    """An array as blocks see it; its kind is one of `native.opcodes`."""

    kind: int
    where: Pointer
    sizes: tuple[int, ...]
    strides: tuple[int, ...]  # in elements

    @property
    def address(self) -> int:
        return self.where.address

    @property
    def period(self) -> int:
        return self.sizes[-1]

    @property
    def unit(self) -> int:
        """Elements of the work that are to be seen together: a whole number of them can be left out at the begin."""
        return 1 if self.kind in (ADVANCES, SCALAR) else prod(self.sizes[1:])

    def part(self, begin: int, end: int, item: int) -> Leaf:
        """As work on the elements from `begin` to `end` sees it; both are multiples of the unit, or the very end.

        Args:
            item: bytes of the numbers that are worked on.
        """
        if self.kind in (SCALAR, TILED):
            return self
        unit = self.unit
        where = self.where.moved(ITEMS.get(self.kind, item) * (begin // unit) * self.strides[0])
        return self._replace(where=where, sizes=((end - begin) // unit, *self.sizes[1:]))

    def words(self, slot: int, buffer: Pointer | None = None, filled: int = 0) -> list[Any]:
        """How a row spells it; `filled` is how many numbers of the buffer are filled once."""
        pad = 4 - len(self.sizes)
        return [
            self.kind, slot, buffer, filled, self.where, *[1] * pad, *self.sizes, *[0] * pad, *self.strides,
        ]  # fmt: skip


class Instruction(NamedTuple):
    """`result = function(*operands)`, values being numbers; `"copy"`, or `"sum"`: add rows of `width` to `target`."""

    function: str
    result: int
    operands: tuple[int, ...]
    target: Pointer | None = None
    width: int = 0


class RowWriter:
    """Puts a row together.

    Args:
        leaves, constants: the values that are read; outs: (value, array it is to be in).
        block: numbers worked on at a time. item: bytes of one.
        memory: `memory(floats)` gives memory that only this thread uses, for as long as the row runs.
    """

    def __init__(
        self,
        code: Sequence[Instruction],
        leaves: dict[Leaf, int],
        constants: dict[bytes, int],
        outs: Sequence[tuple[int, Leaf]],
        count: int,
        block: int,
        memory: Memory,
        item: int,
    ) -> None:
        self.leaves, self.constants, self.block, self.memory, self.item = leaves, constants, block, memory, item
        self._again = item * REPEATED - 1  # the mask of what repeats as soon as it may
        self._next = count  # the number of the next value
        self.slots: dict[int, int] = {}  # value -> its slot
        self.slot_words: list[Any] = []
        self.leaf_words: list[list[Any]] = []
        self.targets: dict[int, list[int]] = {}  # value -> slots of the arrays it goes to when it is made
        self.code, self.outs = self._with_copies(code, outs)
        self._flowing = self._find_flowing()

    def write(self, tape: Tape, total: int) -> None:
        """Write the row."""
        self._operand_slots(tape)
        late = self._result_slots()
        last = self._last_reads(late)
        words = self._instructions(last)
        stores = [leaf.words(self.slots[value]) for value, leaf in late]
        slots = len(self.slot_words) // SLOT_WORDS
        tape.row(
            VECTOR[self.item], total, self.block, len(self.leaf_words), len(words), len(stores), slots,
            *self.slot_words,
            *[w for leaf in self.leaf_words for w in leaf], *words, *[w for leaf in stores for w in leaf],
        )  # fmt: skip

    # Values

    def _new(self) -> int:
        self._next += 1
        return self._next - 1

    def _with_copies(
        self, code: Sequence[Instruction], outs: Sequence[tuple[int, Leaf]]
    ) -> tuple[list[Instruction], list[tuple[int, Leaf]]]:
        """Results are made here, and rows added up are as long as the block.

        What is only passed on is copied first of all, before anything is written over it.
        """
        results = {i.result for i in code if i.function != "sum"}
        copies: dict[int, int] = {}
        short = {v for leaf, v in self.leaves.items() if leaf.kind in (SCALAR, TILED)} | {*self.constants.values()}
        needed = [v for v, _ in outs if v not in results]
        needed += [i.operands[0] for i in code if i.function == "sum" and i.operands[0] in short]
        for value in needed:
            if value not in copies:
                copies[value] = self._new()
        before = [Instruction("copy", copy, (value,)) for value, copy in copies.items()]
        after = [
            i._replace(operands=(copies[i.operands[0]],)) if i.function == "sum" and i.operands[0] in copies else i
            for i in code
        ]
        return before + after, [(copies.get(v, v) if v not in results else v, leaf) for v, leaf in outs]

    def _find_flowing(self) -> set[int]:
        """The instructions whose result the next one takes from the accumulator."""
        flowing = set()
        for n, (i, following) in enumerate(zip(self.code, self.code[1:], strict=False)):
            if _is_link(i) and _is_link(following) and i.result in following.operands:
                flowing.add(n)
        return flowing

    def _last_reads(self, late: Sequence[tuple[int, Leaf]]) -> dict[int, int]:
        """Value -> the last instruction that reads it from memory; values missing here need no memory."""
        last: dict[int, int] = {}
        for n, i in enumerate(self.code):
            operands = list(i.operands)
            if n - 1 in self._flowing:
                operands.remove(self.code[n - 1].result)
            last.update(dict.fromkeys(operands, n))
        last.update({value: len(self.code) for value, _ in late})
        return last

    # Slots

    def _slot(self, where: Pointer | None, mask: int = WHOLE) -> int:
        self.slot_words += [where, mask]
        return len(self.slot_words) - SLOT_WORDS

    def _buffer(self, count: int) -> Pointer:
        return pointer(self.memory((count + _VECTOR) * (self.item // _FLOAT))).aligned(_LINE)

    def _operand_slots(self, tape: Tape) -> None:
        for data, value in self.constants.items():
            self.slots[value] = self._slot(pointer(tape.constant(data, REPEATED + _VECTOR)).aligned(_LINE), self._again)
        for leaf, value in self.leaves.items():
            self.slots[value] = self._operand_slot(leaf)

    def _operand_slot(self, leaf: Leaf) -> int:
        if leaf.kind == ADVANCES:
            return self._noted(leaf, self._slot(None))
        if leaf.kind == SCALAR:
            return self._filled(leaf, REPEATED, self._again)
        if leaf.kind != TILED:
            buffer = self._buffer(self.block)
            return self._noted(leaf, self._slot(buffer), buffer)
        if leaf.period & (leaf.period - 1) == 0:
            if leaf.period >= REPEATED:
                return self._slot(leaf.where, self.item * leaf.period - 1)
            return self._filled(leaf, REPEATED, self._again)
        return self._slot(leaf.where) if leaf.period == self.block else self._filled(leaf, self.block, WHOLE)

    def _filled(self, leaf: Leaf, count: int, mask: int) -> int:
        buffer = self._buffer(count)
        return self._noted(leaf, self._slot(buffer, mask), buffer, count)

    def _noted(self, leaf: Leaf, slot: int, buffer: Pointer | None = None, filled: int = 0) -> int:
        self.leaf_words.append(leaf.words(slot, buffer, filled))
        return slot

    def _result_slots(self) -> list[tuple[int, Leaf]]:
        """Let results go right into their arrays, unless what is there is read later; those that are stored last."""
        made_at = {i.result: n for n, i in enumerate(self.code) if i.function != "sum"}
        source = {value: leaf.address for leaf, value in self.leaves.items()}
        last_read = {source[v]: n for n, i in enumerate(self.code) for v in i.operands if v in source}
        late = []
        for value, leaf in self.outs:
            only_once = value not in self.targets or _is_link(self.code[made_at[value]])
            if leaf.kind == ADVANCES and only_once and last_read.get(leaf.address, -1) <= made_at[value]:
                slot = self._noted(leaf, self._slot(None))
                self.targets.setdefault(value, []).append(slot)
                self.slots.setdefault(value, slot)
            else:
                late.append((value, leaf._replace(kind=GATHERED) if leaf.kind == ADVANCES else leaf))
        return late

    # Instructions

    def _instructions(self, last: dict[int, int]) -> list[Any]:
        words: list[Any] = []
        links: list[int] = []
        registers = _Registers(self, last)
        for n, i in enumerate(self.code):
            if _is_link(i):
                links += self._link(n, i)
            else:
                words += _chain(links)
                links = []
            registers.give(n, i)
            if not _is_link(i):
                words += self._whole(i)
            links += [w for slot in self._stored(i) for w in (STORE, slot, 0)]
        return words + _chain(links)

    def _link(self, n: int, i: Instruction) -> list[int]:
        """The short function of an instruction, after what brings an operand into the accumulator."""
        operands, place, words = list(i.operands), 0, []
        if n - 1 in self._flowing:
            place = operands.index(self.code[n - 1].result)
        else:
            words = [LOAD, self.slots[operands[0]], 0]
        if i.function == "copy":
            return words
        del operands[place]
        name = MIRRORED[i.function] if place and i.function in MIRRORED else i.function
        case = CASE[name, 0 if i.function in MIRRORED else place]
        slots = [self.slots[v] for v in operands]
        return [*words, case, *slots, *[0] * (LINK_WORDS - 1 - len(slots))]

    def _whole(self, i: Instruction) -> list[Any]:
        slots = [self.slots[v] for v in i.operands]
        if i.function == "sum":
            return [COLUMN_SUM, 5, i.target, *slots, i.width]
        return [LONG_NUMBER[i.function], 5, self.slots[i.result], *slots, *[0] * (2 - len(slots))]

    def _stored(self, i: Instruction) -> list[int]:
        """The slots the accumulator is copied to."""
        if not _is_link(i):
            return []
        return self.targets.get(i.result) or ([self.slots[i.result]] if i.result in self.slots else [])


class _Registers:
    """Gives values a block of memory each; blocks nobody reads any more are used again."""

    def __init__(self, row: RowWriter, last: dict[int, int]) -> None:
        self.row, self.last = row, last
        self._free: list[int] = []
        self._taken: dict[int, int] = {}

    def give(self, n: int, i: Instruction) -> None:
        """Memory for the result of instruction `n`, if it has none and needs some."""
        slots, needed = self.row.slots, i.result in self.last or not _is_link(i)
        if i.function != "sum" and needed and i.result not in slots:
            if not self._free:
                self._free.append(self.row._slot(self.row._buffer(self.row.block)))
            slots[i.result] = self._taken[i.result] = self._free.pop()
        for value in dict.fromkeys((*i.operands, i.result)):
            if value in self._taken and self.last.get(value, n) <= n:
                self._free.append(self._taken.pop(value))


def _is_link(i: Instruction) -> bool:
    return i.function in SHORT or i.function == "copy"


def _chain(links: list[int]) -> list[int]:
    return [CHAIN, 2 + len(links), *links] if links else []
