"""Expressions of row programs as instructions on vectors: what a round over elements, or over rows, computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils

from workbench.framework.expr.expr import Expr
from workbench.framework.rows.recording import AT, COUNT, LAST_PLACE, PICK, SCANS, Per
from workbench.runtime.kernels.functions import BODIES, decay
from workbench.runtime.kernels.vectors import F64, I32, I64
from workbench.runtime.words.opcodes import NAMES, OF_TRUTHS

Vector = Any  # a value of LLVM
DOUBLE = 8  # bytes
_ARITHMETIC = {"add": "fadd", "subtract": "fsub", "multiply": "fmul", "divide": "fdiv", "negative": "fneg"}
_CONTRACTED = ("add", "subtract", "multiply")  # a product and the sum behind it are rounded once


class Terms:
    """The values of expressions at one vector of elements or of rows; each part is computed once.

    Args:
        v: builds the instructions. leaf: `leaf(part)` gives what is in memory already, None for what is to be computed.
        scalar: an attribute, or how many elements a row has, as a float64 of LLVM.
        place: of elements, their places in their rows, a vector of int32; needed for comparing with labels alone.
        pick: of rows, `pick(terms, part)` gives the elements that labels name, see `picked`.
        scan: of elements, `scan(part, *operands)` gives what runs up to them.
    """

    def __init__(
        self,
        v: Any,
        leaf: Callable[[Expr], Vector | None],
        scalar: Callable[[Expr], Any],
        place: Vector | None = None,
        pick: Callable[[Terms, Expr], Vector] | None = None,
        scan: Callable[..., Vector] | None = None,
    ) -> None:
        self.v, self._leaf, self.scalar, self._place, self._pick, self._scan = v, leaf, scalar, place, pick, scan
        self._known: dict[int, Vector] = {}

    def value(self, part: Expr) -> Vector:
        """The vector of a part."""
        vector = self._known.get(id(part))
        if vector is None:
            vector = self._leaf(part)
            vector = self._computed(part) if vector is None else vector
            self._known[id(part)] = vector
        return vector

    def _computed(self, part: Expr) -> Vector:
        v = self.v
        if part.function == "constant":
            return v.number(float(part.value))
        if _is_one(part):
            return v.splat(v.builder.fptrunc(self._one(part), v.element) if v.item < DOUBLE else self._one(part))
        if part.function == AT:
            return self._at_label(part)
        if part.function == PICK:
            assert self._pick is not None, "elements are picked between rounds"
            return self._pick(self, part)
        if part.function in SCANS:
            assert self._scan is not None, "scans are computed in the round that they belong to"
            return self._scan(part, *self._scanned(part))
        if part.function == "cast":
            return self._cast(part)
        if part.function == "exp" and _is_below_zero(part.args[0]):
            return decay(v, self.value(part.args[0]))
        if part.function in ("equal", "not_equal") and any(arg.dtype == np.int64 for arg in part.args):
            return self._compared(part)
        name = NAMES.get(part.function, part.function)
        if part.args and all(arg.dtype == bool for arg in part.args):
            name = OF_TRUTHS.get(name, name)
        if name in _CONTRACTED:
            a, b = (v.number(self.value(arg)) for arg in part.args)
            return getattr(v.builder, _ARITHMETIC[name])(a, b, flags=("contract",))
        return BODIES[name](v, *map(self.value, part.args))

    def _scanned(self, part: Expr) -> Iterator[Vector]:
        """What a scan joins."""
        if part.function != LAST_PLACE:
            yield from (self.v.number(self.value(arg)) for arg in part.args)
            return
        met = self.v.is_true(self.v.number(self.value(part.args[0])))
        assert self._place is not None
        yield self.v.builder.select(met, self._place, ir.Constant(self._place.type, [0] * self.v.lanes))

    def _cast(self, part: Expr) -> Vector:
        """Truth values are numbers here, and of numbers there is one kind."""
        (given,) = part.args
        x = self.value(given)
        return self.v.truth(self.v.is_true(x)) if part.dtype == bool and given.dtype != bool else x

    def _one(self, part: Expr) -> Any:
        """A number that is the same everywhere, computed as Python does: in float64."""
        if part.function == "constant":
            return F64(float(part.value))
        if part.function in ("number", COUNT):
            return self.scalar(part)
        return getattr(self.v.builder, _ARITHMETIC[part.function])(*map(self._one, part.args))

    def _at_label(self, part: Expr) -> Vector:
        label = self.value(part.args[0])
        there = self.v.builder.icmp_signed("==", self._place, label)
        there = self.v.builder.and_(there, self.counts(label, part.args[1]))
        return self.v.truth(there)

    def counts(self, label: Vector, ignored: Expr) -> Vector:
        """Which labels are not ignored."""
        return self.v.builder.icmp_signed("!=", label, self._integer(ignored, label.type))

    def _compared(self, part: Expr) -> Vector:
        integer = next(arg for arg in part.args if arg.function == "input")
        (other,) = (arg for arg in part.args if arg is not integer)
        a = self.value(integer)
        sign = "==" if part.function == "equal" else "!="
        return self.v.truth(self.v.builder.icmp_signed(sign, a, self._integer(other, a.type)))

    def _integer(self, part: Expr, kind: Any) -> Vector:
        """An attribute or a constant in every lane of a vector of integers."""
        if part.function == "constant":
            return ir.Constant(kind, [int(part.value)] * kind.count)
        one = self.scalar(part)
        return self.v.everywhere(self.v.builder.trunc(one, I32) if kind.element == I32 else one, kind)


def _is_one(part: Expr) -> bool:
    """Whether a part is arithmetic on numbers that are the same everywhere."""
    if part.function in ("number", COUNT, "constant"):
        return True
    return part.function in _ARITHMETIC and all(map(_is_one, part.args))


def picked(terms: Terms, part: Expr, kinds: dict[int, Per], gather: Callable[[int, Per, Vector], Vector]) -> Vector:
    """The elements that labels name, one of each row, 0 where a label is ignored: they alone are computed.

    Args:
        terms: of the rows. kinds: of all parts. gather: `gather(input, kind, places)` loads elements of an input.
    """
    x, label, ignored = part.args
    v, labels = terms.v, terms.value(label)
    counts = terms.counts(labels, ignored)
    places = v.builder.select(counts, labels, ir.Constant(labels.type, [0] * v.lanes))

    def leaf(inner: Expr) -> Vector | None:
        kind = kinds[id(inner)]
        if kind is Per.ROW:
            return terms.value(inner)
        return gather(inner.value, kind, places) if inner.function == "input" else None

    return v.select(counts, Terms(v, leaf, terms.scalar).value(x), 0.0)


def gathered(v: Any, address: Any, elements: Vector, mask: Vector) -> Vector:
    """Elements by their numbers, a vector of int64."""
    b, pointers = v.builder, ir.VectorType(v.element.as_pointer(), v.lanes)
    distance = b.mul(elements, ir.Constant(elements.type, [v.item] * v.lanes))
    at = b.inttoptr(b.add(v.everywhere(address, elements.type), distance), pointers)
    signature = ir.FunctionType(v.kind, [pointers, I32, mask.type, v.kind])
    name = f"llvm.masked.gather.v{v.lanes}{v.suffix}.v{v.lanes}p0"
    load = cgutils.get_or_insert_function(b.module, signature, name)
    return b.call(load, [at, I32(v.item), mask, v.number(0.0)])


def _is_below_zero(part: Expr) -> bool:
    """Whether it is what lies between elements and the largest of their row."""
    if part.function != "subtract":
        return False
    element, most = part.args
    return most.function in ("row_max", "row_top") and most.args[0] is element


def lanes_from(v: Any, first: Any) -> Vector:
    """The places `first`, `first` + 1 …, as int32."""
    kind = ir.VectorType(I32, v.lanes)
    start = v.everywhere(v.builder.trunc(first, I32), kind)
    return v.builder.add(start, ir.Constant(kind, list(range(v.lanes))))


def masked_integers(v: Any, address: Any, mask: Vector) -> Vector:
    """Sixteen int64: labels, of which it is known that they are places or ignored."""
    kind = ir.VectorType(I64, v.lanes)
    pointer = v.builder.inttoptr(address, kind.as_pointer())
    signature = ir.FunctionType(kind, [kind.as_pointer(), I32, mask.type, kind])
    load = cgutils.get_or_insert_function(v.builder.module, signature, f"llvm.masked.load.v{v.lanes}i64.p0")
    return v.builder.call(load, [pointer, I32(8), mask, ir.Constant(kind, [0] * v.lanes)])
