"""Passes over float32 or float64: a body on vectors, whose results are stored, or folded to sums and extremes.

Arrays may be each other. The lanes of vectors are folded in a fixed tree, so results depend on the length alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from workbench.runtime.kernels import functions
from workbench.runtime.kernels.intrinsics import REAL
from workbench.runtime.kernels.vectors import (
    I32,
    I64,
    INTEGERS,
    WIDTH,
    Arithmetic,
    Vectors,
    as_address,
    is_of_doubles,
    loop,
    vectors_of,
)

Vector = Any  # a value of LLVM
Addresses = Sequence[Any]


class Fold(NamedTuple):
    """How vectors become one number: `combine(v, a, b)`, beginning with `start`."""

    start: float
    combine: Callable[[Vectors, Vector, Vector], Vector]


ADDED = Fold(0.0, Vectors.add)
CONTRACTED = Fold(0.0, lambda v, a, b: v.builder.fadd(a, b, flags=("contract",)))  # products are rounded with the sum
LARGEST = Fold(-math.inf, functions.maximum)
LARGEST_NUMBER = Fold(-math.inf, lambda v, a, b: v.select(v.compare(">", b, a), b, a))  # NaN is passed over


def sweep(body: Callable[..., Any], *folds: Fold, together: int = 1) -> Any:
    """A function of kernels: `run(outs, ins, numbers, count)`.

    Args:
        body: `body(v, *ins, *numbers)`, vectors all, gives what is stored to each of `outs`, then what is folded.
        together: vectors one round of the loop works on, each folded by itself.

    Returns:
        a function of tuples of pointers, of pointers and of numbers; what was folded is its result. Addresses in
        place of pointers are of float32.
    """

    @intrinsic
    def run(context: Any, outs: Any, ins: Any, numbers: Any, count: Any) -> Any:
        real = types.float64 if is_of_doubles((*outs.types, *ins.types)) else REAL

        def generate(cx: Any, builder: Any, signature: Any, args: Any) -> Any:
            packed = zip(args, (outs, ins, numbers), strict=False)
            to, of, told = (cgutils.unpack_tuple(builder, values, len(kind)) for values, kind in packed)
            to, of = ([as_address(builder, x) for x in places] for places in (to, of))
            told = [cx.cast(builder, x, kind, real) for x, kind in zip(told, numbers.types, strict=True)]
            sweeping = _Sweep(vectors_of(builder, (*outs.types, *ins.types)), body, folds, to, of, told)
            return sweeping.result(cx, sweeping.row(args[3], together))

        return _result_type(folds, real)(outs, ins, numbers, count), generate

    return run


def _result_type(folds: Sequence[Fold], real: Any) -> Any:
    return {0: types.void, 1: real}.get(len(folds), types.UniTuple(real, len(folds)))


class _Sweep:
    """Builds the instructions of one pass."""

    def __init__(
        self, v: Arithmetic, body: Callable[..., Any], folds: Sequence[Fold], outs: Addresses, ins: Addresses,
        numbers: Sequence[Any],
    ) -> None:  # fmt: skip
        self.v, self.builder, self.body, self.folds, self.outs, self.ins = v, v.builder, body, folds, outs, ins
        self.numbers = [self.v.splat(number) for number in numbers]
        self.starts = [self.v.number(fold.start) for fold in folds]

    def result(self, context: Any, held: Sequence[Any]) -> Any:
        """What the function returns: nothing, a number, or several."""
        totals = [across(self.v, fold, x) for fold, x in zip(self.folds, held, strict=True)]
        if len(totals) > 1:
            return cgutils.pack_array(self.builder, totals)
        return totals[0] if totals else context.get_dummy_value()

    def row(self, count: Any, together: int) -> Sequence[Any]:
        """Whole rounds, single vectors, and what is left of one."""
        b, folds = self.builder, self.folds
        if together == 1:
            return self._vectors(I64(0), count, self.starts)
        rounds = b.sdiv(count, I64(WIDTH * together))

        def one_round(i: Any, *held: Any) -> list[Any]:
            first, terms = b.mul(i, I64(together)), []
            for k in range(together):
                terms += self._vector(b.add(first, I64(k)), held[k * len(folds) : (k + 1) * len(folds)])
            return terms

        held = loop(b, rounds, self.starts * together, one_round)
        held = [self._tree(fold, held[k :: len(folds)]) for k, fold in enumerate(folds)]
        return self._vectors(b.mul(rounds, I64(together)), count, held)

    def _vectors(self, first: Any, count: Any, held: Sequence[Any]) -> Sequence[Any]:
        """The vectors from a number on, one at a time."""
        b = self.builder
        vectors = b.sdiv(count, I64(WIDTH))
        held = loop(b, b.sub(vectors, first), held, lambda i, *held: self._vector(b.add(first, i), held))
        return self._rest(vectors, b.srem(count, I64(WIDTH)), held)

    def _vector(self, number: Any, held: Sequence[Any], mask: Any = None) -> list[Any]:
        """One vector by its number: stores, and what is held with what it adds."""
        v, offset = self.v, self.builder.mul(number, I64(self.v.item * WIDTH))
        loaded = [v.load(self.builder.add(a, offset), mask) for a in self.ins]
        results = self.body(v, *loaded, *self.numbers)
        results = [v.number(x) for x in (results if isinstance(results, tuple) else (results,))]
        for x, out in zip(results, self.outs, strict=False):
            v.store(x, self.builder.add(out, offset), mask)
        terms = results[len(self.outs) :]
        if mask is not None:
            terms = [v.select(mask, x, fold.start) for fold, x in zip(self.folds, terms, strict=True)]
        return [fold.combine(v, a, x) for fold, a, x in zip(self.folds, held, terms, strict=True)]

    def _rest(self, number: Any, lanes: Any, held: Sequence[Any]) -> list[Any]:
        """The first lanes of the last vector."""
        before = self.builder.block
        with self.builder.if_then(self.builder.icmp_signed(">", lanes, I64(0))):
            results = self._vector(number, held, self.v.first_lanes(lanes))
            inside = self.builder.block
        phis = []
        for old, new in zip(held, results, strict=True):
            phi = self.builder.phi(old.type)
            phi.add_incoming(old, before)
            phi.add_incoming(new, inside)
            phis.append(phi)
        return phis

    def _tree(self, fold: Fold, parts: list[Any]) -> Any:
        while len(parts) > 1:
            parts = [fold.combine(self.v, a, b) for a, b in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]


def across(v: Any, fold: Fold, x: Any) -> Any:
    """All lanes of a vector as one number."""
    distance = WIDTH // 2
    while distance:
        order = ir.Constant(INTEGERS, [(lane + distance) % WIDTH for lane in range(WIDTH)])
        x = fold.combine(v, x, v.builder.shuffle_vector(x, x, order))
        distance //= 2
    return v.builder.extract_element(x, I32(0))
