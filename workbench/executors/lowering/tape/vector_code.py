"""Element-wise ops as vector code: the steps of `framework.expr.lowered` for blocks of numbers in native code.

The numbers are float32 or, where an operand is, float64. Arrays of float16 and bfloat16 are computed with as float32:
results are rounded to them when they are made, and who reads such a result in the same row gets it as it was rounded.
Ops that follow each other and have one shape become one row: what the first makes, the next takes from a register.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from math import lcm, prod
from typing import Any

import numpy as np

from workbench.executors.lowering.tape.vector_row import Instruction, Leaf, Memory, RowWriter
from workbench.executors.planning.sizes.size import overlap
from workbench.framework.expr.lowered import ExprStep, Lowered
from workbench.framework.values.dtype import HALVES
from workbench.runtime.division import borders
from workbench.runtime.native.tape import Pointer, Tape, pointer
from workbench.runtime.words.opcodes import (
    ADVANCES,
    BFLOAT16S,
    FLOAT16S,
    FLOAT32S,
    GATHERED,
    NAMES,
    OF_ONE_KIND,
    OF_TRUTHS,
    OPERANDS,
    SCALAR,
    TILED,
    TRUTHS,
)

BLOCK = 1024  # numbers a block aims at: a few of them stay in the first cache
MOST = 2048  # numbers a block has at most
_LONGEST = 64  # instructions of a row
_VECTOR = 16  # numbers; where pieces of the work begin
_FLOAT, _DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
_TRUTH, _BYTE = np.dtype(bool), np.dtype(np.uint8)
_SHORTER = {"E": BFLOAT16S, "e": FLOAT16S, "f": FLOAT32S}  # kinds of leaves, by NumPy's letters
_ROUNDED = {"E": "to_bfloat16", "e": "to_float16", "f": "to_float32"}

Array = np.ndarray
Range = tuple[int, int]  # of bytes: first, and one past the last


class Unsuitable(Exception):
    """The work has no form as vector code."""


class VectorCode:
    """Element-wise work on arrays of one shape, as one row of a tape.

    Values are numbers, as in `Lowered`; which of them is in which array is kept track of while ops are added.

    Args:
        dtype: of the numbers, float32 or float64, see `dtype_for`.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any] = _FLOAT) -> None:
        self.shape, self.dtype = shape, dtype
        self.total = prod(shape)
        self.code: list[Instruction] = []
        self._leaves: dict[Leaf, int] = {}
        self._constants: dict[bytes, int] = {}
        self._outs: dict[int, tuple[int, Leaf]] = {}  # address -> (value it holds by now, array)
        self._ranges: dict[Leaf, Range] = {}  # the bytes of arrays read
        self._written: dict[int, Range] = {}  # address -> the bytes of arrays written
        self._periods: set[int] = set()
        self._count = 0

    def copy(self) -> VectorCode:
        """As it is now; what is added to one is not added to the other."""
        copied = VectorCode(self.shape, self.dtype)
        for name, value in vars(self).items():
            setattr(copied, name, value.copy() if isinstance(value, list | dict | set) else value)
        return copied

    def accepts(self, shape: tuple[int, ...], steps: int, dtype: np.dtype[Any] = _FLOAT) -> bool:
        """Whether work of this shape on such numbers may join."""
        return shape == self.shape and dtype == self.dtype and len(self.code) + steps <= _LONGEST

    def add(self, form: Lowered, arrays: Sequence[Array | None], outs: Sequence[Array | None]) -> None:
        """Add an op.

        Args:
            form: its steps, not rewritten for buffers.
            outs: of the work's shape, or smaller: then the last dimensions, over which rows are added up.

        Raises:
            Unsuitable: nothing has been added then.
        """
        addition = _Addition(self, form, arrays)
        wanted = [(r, out) for out, r in zip(outs, form.results, strict=True) if out is not None and r is not None]
        values = [addition.value(result) for result, _ in wanted]  # all is read before anything is written
        for value, (result, out) in zip(values, wanted, strict=True):
            is_number = len(form.dtypes) <= result < form.first_step and out.dtype.kind != "b"  # it takes any dtype
            addition.give(value, self.dtype if is_number else form.dtype_of(result), out)
        addition.apply()

    def overlaps_result(self, memory: Range) -> bool:
        """Whether some of these bytes are written here."""
        return any(overlap(memory, where) for where in self._written.values())

    def new(self) -> int:
        self._count += 1
        return self._count - 1

    def emit(self, tape: Tape, memory: Memory) -> None:
        """Write the row.

        Args:
            memory: `memory(floats)` gives memory that only this thread uses, for as long as the row runs.
        """
        outs = list(self._outs.values())
        item = self.dtype.itemsize
        RowWriter(self.code, self._leaves, self._constants, outs, self._count, self._block(), memory, item).write(
            tape, self.total
        )

    def blocks(self, most: int, threads: int) -> list[VectorCode] | None:
        """At most so many pieces of the work that together are all of it; None if it does not divide.

        What follows from the shape alone is where pieces may begin: with a row of what repeats, and of whatever has
        strides; rows that are added up are not divided.
        """
        leaves = [*self._leaves, *(leaf for _, leaf in self._outs.values())]
        if any(i.function == "sum" for i in self.code):
            return None
        unit = _common_multiple([_VECTOR, *self._periods, *(leaf.unit for leaf in leaves)])
        edges = borders(self.total, unit, most, threads)
        if len(edges) < 3:
            return None
        return [self._part(begin, end) for begin, end in pairwise(edges)]

    def _part(self, begin: int, end: int) -> VectorCode:
        """The work on some of the elements; nothing is added to it."""
        part, item = self.copy(), self.dtype.itemsize
        part.total = end - begin
        part._leaves = {leaf.part(begin, end, item): value for leaf, value in self._leaves.items()}
        part._outs = {address: (value, leaf.part(begin, end, item)) for address, (value, leaf) in self._outs.items()}
        return part

    def _block(self) -> int:
        """How many elements are worked on at a time; where it is open how many there are, no fewer than there are."""
        step = lcm(*self._periods) if self._periods else 1
        most = step * max(1, BLOCK // step)
        return min(most, -(-self.total // step) * step) if type(self.total) is int else most


def _common_multiple(numbers: Sequence[Any]) -> Any:
    """Of numbers that may depend on open sizes; then not always the least."""
    common = lcm(*(n for n in numbers if type(n) is int))
    for n in numbers:
        if type(n) is not int and not _goes_into(n, common):
            common = n if _goes_into(common, n) else common * n
    return common


def _goes_into(n: Any, number: Any) -> bool:
    """Whether a number is a multiple of n, whatever the sizes."""
    rest = 1 if type(number) is int and type(n) is not int else number % n
    return type(rest) is int and rest == 0


class _Addition:
    """One op on its way into vector code."""

    def __init__(self, code: VectorCode, form: Lowered, arrays: Sequence[Array | None]) -> None:
        self.code, self.form, self.arrays = code, form, arrays
        self.values: dict[int, int] = {}
        self.instructions: list[Instruction] = []
        self.leaves: dict[Leaf, int] = {}
        self.constants: dict[bytes, int] = {}
        self.outs: list[tuple[int, Leaf]] = []
        self.written: dict[int, Range] = {}
        self.ranges: dict[Leaf, Range] = {}
        self.periods: set[int] = set()
        if not code.total:
            raise Unsuitable

    def give(self, value: int, dtype: Any, out: Array) -> None:
        """Ask for a value in an array."""
        if dtype == _FLOAT and self.code.dtype == _FLOAT and out.dtype.char in HALVES:
            value, dtype = self._rounded(value, out.dtype), out.dtype
        if dtype != out.dtype:
            raise Unsuitable
        if out.shape != self.code.shape:
            self._add_up(value, out)
            return
        leaf = _leaf_of(out, self.code.shape, self.code.dtype, for_result=True)
        if self._held(leaf) == value:
            return  # it is there
        self._note_written(leaf.where, leaf)
        self.outs.append((value, leaf))

    def _held(self, leaf: Leaf) -> int | None:
        """The value that is in an array by now."""
        written = {where.address: (value, where) for value, where in (*self.code._outs.values(), *self.outs)}
        value, where = written.get(leaf.address, (None, leaf))
        if leaf.address in written:
            return value if where == leaf else None
        return self.leaves.get(leaf, self.code._leaves.get(leaf))

    def _note_written(self, out: Pointer, seen: Leaf | None) -> None:
        """Refuse results over memory that is read or written in another way.

        Args:
            seen: how it is written; None if rows are added up there.
        """
        memory = out.begin, out.end
        for leaf, where in (*self.code._ranges.items(), *self.ranges.items()):
            if overlap(memory, where) and leaf != seen:
                raise Unsuitable
        held = {leaf.address: leaf for _, leaf in (*self.code._outs.values(), *self.outs)}
        for begin, where in (*self.code._written.items(), *self.written.items()):
            if overlap(memory, where) and (seen is None or held.get(begin) != seen):
                raise Unsuitable
        self.written[out.address] = memory

    def _add_up(self, value: int, out: Array) -> None:
        """The rows of a value, added up: the gradient of something that was repeated for every row."""
        shape = tuple(d for d in out.shape if d != 1)
        last = self.code.shape[len(self.code.shape) - len(shape) :] if shape else ()
        if not shape or last != shape or not out.flags.c_contiguous or out.dtype != self.code.dtype:
            raise Unsuitable
        self._require_period(out.size)
        where = pointer(out)
        self._note_written(where, None)
        self.instructions.append(Instruction("sum", -1, (value,), where, out.size))

    def _require_period(self, width: int) -> None:
        if lcm(width, *self.code._periods, *self.periods) > MOST:
            raise Unsuitable
        self.periods.add(width)

    def value(self, number: int) -> int:
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
        leaf = _leaf_of(array, self.code.shape, self.code.dtype)
        value, held = self.code._outs.get(leaf.address, (-1, None))
        if held == leaf:
            return value
        if self.code.overlaps_result(memory := (leaf.where.begin, leaf.where.end)):
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
            self.ranges[leaf] = memory
        return known

    def _constant(self, number: Array) -> int:
        data = self.code.dtype.type(number[()]).tobytes()
        known = self.code._constants.get(data)
        if known is None:
            known = self.constants.get(data)
        if known is None:
            known = self.constants[data] = self.code.new()
        return known

    def _step(self, step: ExprStep) -> int:
        if step.converts:
            raise Unsuitable
        if step.function == "copy" and self.code.dtype == _DOUBLE and {step.loop[0], step.dtype} == {_DOUBLE, _FLOAT}:
            return self._rounded(self.value(step.args[0]), step.dtype)
        reads_bytes = step.function == "copy" and step.loop == (_BYTE,)
        loop = (*(() if reads_bytes else step.loop), step.dtype)
        if any(d not in (self.code.dtype, _TRUTH) for d in loop):
            raise Unsuitable
        operands = [self.value(a) for a in step.args]
        if step.function == "power":
            return self._power(operands, self._constant_exponent(step.args[1]))
        name = NAMES.get(step.function, step.function)
        if all(d == _TRUTH for d in step.loop):
            name = OF_TRUTHS.get(name, name)
        if name == "copy" and step.dtype == _TRUTH:
            name, operands = "not_equal", [*operands, self._number(0.0)]
        if name != "copy" and (name not in OPERANDS or name in OF_ONE_KIND):
            raise Unsuitable
        return self._made(name, *operands)

    def _rounded(self, value: int, dtype: np.dtype[Any]) -> int:
        """A value as one of some dtype, which may be shorter than the numbers that are worked on."""
        return value if dtype == self.code.dtype else self._made(_ROUNDED[dtype.char], value)

    def _made(self, name: str, *operands: int) -> int:
        result = self.code.new()
        self.instructions.append(Instruction(name, result, operands))
        return result

    def _number(self, x: float) -> int:
        return self._constant(np.asarray(x, self.code.dtype))

    def _constant_exponent(self, number: int) -> float | None:
        inputs = len(self.form.dtypes)
        return float(self.form.constants[number - inputs]) if inputs <= number < self.form.first_step else None

    def _power(self, operands: Sequence[int], exponent: float | None) -> int:
        """A power; those NumPy has other functions for use them here, too."""
        short = {2.0: "square", 0.5: "sqrt", -1.0: "reciprocal", 1.0: "copy"}.get(exponent) if exponent else None
        return self._made(short, operands[0]) if short else self._made("power", *operands)

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


def dtype_for(form: Lowered, arrays: Sequence[Array | None]) -> np.dtype[Any]:
    """The numbers to work on for steps, their operands and results."""
    is_double = any(a is not None and a.dtype == _DOUBLE for a in arrays)
    return _DOUBLE if is_double or any(step.dtype == _DOUBLE for step in form.steps) else _FLOAT


@lru_cache(maxsize=4096)
def is_expressible(form: Lowered) -> bool:
    """Whether steps have a form as vector code, whatever the shapes and layouts of the operands."""
    arrays = [None if d is None else np.zeros(2, d) for d in form.dtypes]
    outs = [None if r is None else np.empty(2, form.dtype_of(r)) for r in form.results]
    try:
        VectorCode((2,), dtype_for(form, [*arrays, *outs])).add(form, arrays, outs)
    except Unsuitable:
        return False
    return True


def _leaf_of(array: Array, shape: tuple[int, ...], dtype: np.dtype[Any], for_result: bool = False) -> Leaf:
    """How an array is seen from blocks of a shape it is broadcast to.

    Args:
        dtype: of the numbers that are worked on.
    """
    sizes, strides = _collapsed(array, shape)
    where = pointer(array)
    if array.dtype != dtype:
        kind = _kind_of(array.dtype, dtype, for_result)
        if len(sizes) > 4 or (for_result and kind == TRUTHS and strides != (1,)):
            raise Unsuitable
        return Leaf(kind, where, sizes, strides)
    if strides == (1,):
        return Leaf(ADVANCES, where, sizes, strides)
    if array.size == 1:
        return Leaf(SCALAR, where, sizes, strides)
    if len(sizes) == 2 and strides == (0, 1) and sizes[1] <= MOST:
        return Leaf(TILED, where, sizes, strides)
    if len(sizes) > 4:
        raise Unsuitable
    return Leaf(GATHERED, where, sizes, strides)


def _kind_of(held: np.dtype[Any], dtype: np.dtype[Any], for_result: bool) -> int:
    """The kind of leaf of an array of something else than the numbers that are worked on."""
    if held == _TRUTH or (held == _BYTE and not for_result):
        return TRUTHS
    kind = _SHORTER.get(held.char)
    if kind is None or (kind == FLOAT32S) != (dtype == _DOUBLE):
        raise Unsuitable
    return kind


def _collapsed(array: Array, shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Sizes and strides in elements of an array broadcast to a shape, with as few dimensions as will do."""
    wide = array.strides if array.shape == shape else _broadcast(array, shape)
    if any(s % array.itemsize for s in wide):
        raise Unsuitable
    sizes: list[int] = []
    strides: list[int] = []
    for size, stride in zip(shape, wide, strict=True):
        step = stride // array.itemsize
        if size == 1:
            continue
        if sizes and strides[-1] == step * size:
            sizes[-1], strides[-1] = sizes[-1] * size, step
        else:
            sizes.append(size)
            strides.append(step)
    return (tuple(sizes), tuple(strides)) if sizes else ((1,), (1,))


def _broadcast(array: Array, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of an array broadcast to a shape."""
    missing = len(shape) - array.ndim
    dims = list(zip(array.shape, shape[max(missing, 0) :], array.strides, strict=missing >= 0))
    if missing < 0 or not all(own in (1, wanted) for own, wanted, _ in dims):
        raise Unsuitable
    return (*[0] * missing, *(0 if own == 1 else stride for own, _, stride in dims))
