"""Element-wise ops as vector code: the steps of `framework.lowered` for blocks of float32 in native code.

Ops that follow each other and have one shape become one row: what the first makes, the next takes from a register.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import lcm
from typing import Any, NamedTuple

import numpy as np

from workbench.framework.lowered import Lowered, Step
from workbench.runtime.native.opcodes import (
    ADVANCES,
    COLUMN_SUM,
    GATHERED,
    NUMBER,
    SCALAR,
    TILED,
    TRUTHS,
)
from workbench.runtime.native.tape import Tape, address

BLOCK = 512  # floats a block aims at: a few of them stay in the first cache
MOST = 2048  # floats a block has at most
_LONGEST = 64  # instructions of a row
_FLOAT, _TRUTH = np.dtype(np.float32), np.dtype(bool)

Array = np.ndarray
Range = tuple[int, int]  # of bytes: first, and one past the last


class _Leaf(NamedTuple):
    """An array as blocks see it."""

    kind: int
    address: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]  # in elements

    @property
    def period(self) -> int:
        return self.sizes[-1]


class _Instruction(NamedTuple):
    function: int
    result: int
    operands: tuple[int, ...]
    target: int = 0  # of COLUMN_SUM: an address
    width: int = 0


class Unsuitable(Exception):
    """The work has no form as vector code."""


class VectorCode:
    """Element-wise work on arrays of one shape, as one row of a tape.

    Values are numbers, as in `Lowered`; which of them is in which array is kept track of while ops are added.
    """

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape
        self.total = int(np.prod(shape, dtype=np.int64))
        self.code: list[_Instruction] = []
        self._leaves: dict[_Leaf, int] = {}
        self._constants: dict[bytes, int] = {}
        self._held: dict[int, int] = {}  # address -> the value its array holds by now, where that was made here
        self._outs: dict[int, tuple[int, _Leaf]] = {}  # address -> (value, array) to store
        self._ranges: dict[_Leaf, Range] = {}  # the bytes of arrays read
        self._written: dict[int, Range] = {}  # address -> the bytes of arrays written
        self._periods: set[int] = set()
        self._count = 0

    def copy(self) -> VectorCode:
        """As it is now; what is added to one is not added to the other."""
        made = VectorCode(self.shape)
        for name, value in vars(self).items():
            setattr(made, name, value.copy() if isinstance(value, list | dict | set) else value)
        return made

    def accepts(self, shape: tuple[int, ...], steps: int) -> bool:
        """Whether work of this shape may join."""
        return shape == self.shape and len(self.code) + steps <= _LONGEST

    def add(self, form: Lowered, arrays: Sequence[Array | None], outs: Sequence[Array | None]) -> None:
        """Add an op.

        Args:
            form: its steps, not rewritten for buffers.
            outs: of the work's shape, or smaller: then the last dimensions, over which rows are added up.

        Raises:
            Unsuitable: nothing has been added then.
        """
        made = _Addition(self, form, arrays)
        for out, result in zip(outs, form.results, strict=True):
            if out is not None and result is not None:
                made.give(result, out)
        made.apply()

    def overlaps_result(self, found: Range) -> bool:
        """Whether some of these bytes are written here."""
        return any(found[0] < end and begin < found[1] for begin, end in self._written.values())

    def new(self) -> int:
        self._count += 1
        return self._count - 1

    # Making the row

    def emit(self, tape: Tape, block_memory: Any) -> None:
        """Write the row.

        Args:
            block_memory: `block_memory(floats)` gives memory that only this thread uses, for as long as the row runs.
        """
        block = self._block()
        slots, addresses, leaves = self._operand_slots(tape, block, block_memory)
        stores, targets = self._targets(slots, addresses, leaves, block)
        self._registers(slots, addresses, targets, block, block_memory)
        words: list[int] = [self.total, block, len(leaves), len(self.code), len(stores), len(addresses), *addresses]
        for slot, buffer, leaf in leaves:
            words += _leaf_words(leaf, slot, buffer)
        for i in self.code:
            operands = [slots[v] for v in i.operands] + [0] * (3 - len(i.operands))
            words += [i.function, i.target or slots[i.result], *operands, i.width]
        for value, leaf in stores:
            words += _leaf_words(leaf, slots[value], 0)
        tape.row("vector", *words)

    def _block(self) -> int:
        step = lcm(*self._periods) if self._periods else 1
        return min(step * max(1, BLOCK // step), -(-self.total // step) * step)

    def _operand_slots(
        self, tape: Tape, block: int, block_memory: Any
    ) -> tuple[dict[int, int], list[int], list[tuple[int, int, _Leaf]]]:
        slots: dict[int, int] = {}
        addresses: list[int] = []
        leaves: list[tuple[int, int, _Leaf]] = []
        for data, value in self._constants.items():
            slots[value] = len(addresses)
            addresses.append(tape.constant(data, block))
        for leaf, value in self._leaves.items():
            buffer = 0 if leaf.kind == ADVANCES else address(block_memory(block))
            slots[value] = len(addresses)
            leaves.append((len(addresses), buffer, leaf))
            addresses.append(buffer)
        return slots, addresses, leaves

    def _targets(
        self, slots: dict[int, int], addresses: list[int], leaves: list[tuple[int, int, _Leaf]], block: int
    ) -> tuple[list[tuple[int, _Leaf]], dict[int, int]]:
        """Where results go: right into their array if nothing later reads what it held, else by a store at the end."""
        made_at = {i.result: n for n, i in enumerate(self.code) if i.function != COLUMN_SUM}
        source = {value: leaf.address for leaf, value in self._leaves.items()}
        last_read = {source[v]: n for n, i in enumerate(self.code) for v in i.operands if v in source}
        stores: list[tuple[int, _Leaf]] = []
        targets: dict[int, int] = {}
        for value, leaf in self._outs.values():
            direct = leaf.kind == ADVANCES and value in made_at and value not in targets
            if direct and last_read.get(leaf.address, -1) <= made_at[value]:
                targets[value] = len(addresses)
                leaves.append((len(addresses), 0, leaf))
                addresses.append(0)
            elif leaf.kind == ADVANCES:
                copied = self.new()
                self.code.append(_Instruction(NUMBER["copy"], copied, (value,)))
                targets[copied] = len(addresses)
                leaves.append((len(addresses), 0, leaf))
                addresses.append(0)
            else:
                stores.append((value, leaf))
        return stores, targets

    def _registers(
        self, slots: dict[int, int], addresses: list[int], targets: dict[int, int], block: int, block_memory: Any
    ) -> None:
        """Give every value that is made a block of memory; blocks nobody reads any more are used again."""
        last: dict[int, int] = {}
        for n, i in enumerate(self.code):
            for value in i.operands:
                last[value] = n
        for value, _ in self._outs.values():
            if value not in targets:
                last[value] = len(self.code)
        slots.update(targets)
        free: list[int] = []
        taken: dict[int, int] = {}
        for n, i in enumerate(self.code):
            if i.function != COLUMN_SUM and i.result not in slots:
                if not free:
                    free.append(len(addresses))
                    addresses.append(address(block_memory(block)))
                slots[i.result] = taken[i.result] = free.pop()
            for value in dict.fromkeys((*i.operands, i.result)):
                if value in taken and last.get(value, n) == n:
                    free.append(taken.pop(value))


class _Addition:
    """One op on its way into vector code."""

    def __init__(self, code: VectorCode, form: Lowered, arrays: Sequence[Array | None]) -> None:
        self.code, self.form, self.arrays = code, form, arrays
        self.values: dict[int, int] = {}
        self.instructions: list[_Instruction] = []
        self.leaves: dict[_Leaf, int] = {}
        self.constants: dict[bytes, int] = {}
        self.outs: list[tuple[int, _Leaf]] = []
        self.written: dict[int, Range] = {}
        self.ranges: dict[_Leaf, Range] = {}
        self.periods: set[int] = set()
        if not code.total:
            raise Unsuitable

    def give(self, result: int, out: Array) -> None:
        """Ask for a result in an array."""
        value = self._value(result)
        if self.form.dtype_of(result) != out.dtype:
            raise Unsuitable
        if out.shape != self.code.shape:
            self._add_up(value, out)
            return
        leaf = _leaf_of(out, self.code.shape, for_result=True)
        if self.leaves.get(leaf, self.code._leaves.get(leaf)) == value:
            return  # it is there
        self.outs.append((value, leaf))
        self._note_written(out, leaf)

    def _note_written(self, out: Array, seen: _Leaf | None = None) -> None:
        """Refuse memory that is read in another way: what is read element by element may be written so, too."""
        where, found = address(out), _bytes_of(out)
        for leaf, (begin, end) in (*self.code._ranges.items(), *self.ranges.items()):
            if found[0] < end and begin < found[1] and leaf != seen:
                raise Unsuitable
        others = {**self.code._written, **self.written}
        others.pop(where, None)
        if any(found[0] < end and begin < found[1] for begin, end in others.values()):
            raise Unsuitable
        self.written[where] = found

    def _add_up(self, value: int, out: Array) -> None:
        """The rows of a value, added up: the gradient of something that was repeated for every row."""
        shape = tuple(d for d in out.shape if d != 1)
        last = self.code.shape[len(self.code.shape) - len(shape) :] if shape else ()
        if not shape or last != shape or not out.flags.c_contiguous or address(out) in self.code._written:
            raise Unsuitable
        self._require_period(out.size)
        self.instructions.append(_Instruction(COLUMN_SUM, -1, (value,), address(out), out.size))
        self._note_written(out)

    def _require_period(self, width: int) -> None:
        if lcm(width, *self.code._periods, *self.periods) > MOST:
            raise Unsuitable
        self.periods.add(width)

    def _value(self, number: int) -> int:
        """The value of a number of the form."""
        if number not in self.values:
            inputs, first = len(self.form.dtypes), self.form.first_step
            if number < inputs:
                self.values[number] = self._input(self.arrays[number])
            elif number < first:
                self.values[number] = self._constant(self.form.constants[number - inputs])
            else:
                self.values[number] = self._step(self.form.steps[number - first])
        return self.values[number]

    def _input(self, array: Array | None) -> int:
        if array is None:
            raise Unsuitable
        leaf = _leaf_of(array, self.code.shape)
        held = self.code._held.get(leaf.address)
        if held is not None and self.code._outs[leaf.address][1] == leaf:
            return held
        if self.code.overlaps_result(found := _bytes_of(array)):
            raise Unsuitable  # the same memory, seen in another way
        if leaf.kind == TILED:
            try:
                self._require_period(leaf.period)
            except Unsuitable:
                leaf = leaf._replace(kind=GATHERED)
        known = self.code._leaves.get(leaf)
        if known is None:
            known = self.leaves.get(leaf)
        if known is None:
            known = self.leaves[leaf] = self.code.new()
            self.ranges[leaf] = found
        return known

    def _constant(self, number: Array) -> int:
        data = np.float32(number[()]).tobytes()
        known = self.code._constants.get(data)
        if known is None:
            known = self.constants.get(data)
        if known is None:
            known = self.constants[data] = self.code.new()
        return known

    def _step(self, step: Step) -> int:
        name = _function(step)
        operands = tuple(self._value(a) for a in step.args)
        if step.function == "copy" and step.dtype == _TRUTH:
            operands = (*operands, self._constant(np.zeros((), np.float32)))
        result = self.code.new()
        self.instructions.append(_Instruction(NUMBER[name], result, operands))
        return result

    def apply(self) -> None:
        """Now it is part of the code."""
        code = self.code
        code.code += self.instructions
        code._leaves |= self.leaves
        code._constants |= self.constants
        code._periods |= self.periods
        code._ranges |= self.ranges
        code._written |= self.written
        for value, leaf in self.outs:
            code._outs[leaf.address] = value, leaf
            code._held[leaf.address] = value


def _function(step: Step) -> str:
    """The name of a step in vector code."""
    if step.converts or any(d not in (_FLOAT, _TRUTH) for d in (*step.loop, step.dtype)):
        raise Unsuitable
    if step.function == "copy":
        return "not_equal" if step.dtype == _TRUTH else "copy"
    name = {"abs": "absolute"}.get(step.function, step.function)
    if name not in NUMBER:
        raise Unsuitable
    return name


def _leaf_words(leaf: _Leaf, slot: int, buffer: int) -> list[int]:
    pad = 4 - len(leaf.sizes)
    return [leaf.kind, slot, buffer, leaf.address, *[1] * pad, *leaf.sizes, *[0] * pad, *leaf.strides]


def _leaf_of(array: Array, shape: tuple[int, ...], for_result: bool = False) -> _Leaf:
    """How an array is seen from blocks of a shape it is broadcast to."""
    if array.dtype not in (_FLOAT, _TRUTH):
        raise Unsuitable
    sizes, strides = _collapsed(array, shape)
    where = address(array)
    if array.dtype == _TRUTH:
        if strides != (1,):
            raise Unsuitable
        return _Leaf(TRUTHS, where, sizes, strides)
    if array.size == 1 and not for_result:
        return _Leaf(SCALAR, where, sizes, strides)
    if strides == (1,) or array.size == 1:
        return _Leaf(ADVANCES, where, sizes, strides)
    if len(sizes) == 2 and strides == (0, 1) and sizes[1] <= MOST:
        return _Leaf(TILED, where, sizes, strides)
    if len(sizes) > 4:
        raise Unsuitable
    return _Leaf(GATHERED, where, sizes, strides)


def _collapsed(array: Array, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes and strides in elements of an array broadcast to a shape, with as few dimensions as will do."""
    try:
        wide = np.broadcast_to(array, shape) if array.shape != shape else array
    except ValueError:
        raise Unsuitable from None
    if any(s % array.itemsize for s in wide.strides):
        raise Unsuitable
    sizes: list[int] = []
    strides: list[int] = []
    for size, stride in zip(wide.shape, wide.strides, strict=True):
        step = stride // array.itemsize
        if size == 1:
            continue
        if sizes and strides[-1] == step * size:
            sizes[-1], strides[-1] = sizes[-1] * size, step
        else:
            sizes.append(size)
            strides.append(step)
    return (tuple(sizes), tuple(strides)) if sizes else ((1,), (1,))


def _bytes_of(array: Array) -> Range:
    begin = end = address(array)
    for size, stride in zip(array.shape, array.strides, strict=True):
        reach = (size - 1) * stride
        begin, end = begin + min(reach, 0), end + max(reach, 0)
    return begin, end + array.itemsize
