"""Chains: short functions one after the other on vectors that stay in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding as llvm
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from workbench.runtime.kernels.functions import BODIES
from workbench.runtime.kernels.intrinsics import INT
from workbench.runtime.kernels.vectors import I64, WIDTH, Arithmetic, BlockOperand, loop, vectors_in
from workbench.runtime.words.opcodes import CASES, LINK_WORDS, LOAD, OF_ONE_KIND, SHORT, STORE

_BYTES = 512 if llvm.get_host_cpu_features().get("avx512f") else 256
"""Of the accumulator: half of the registers, or all where a vector takes two."""


def chain_of(numbers: type[Arithmetic]) -> Any:
    """A function of kernels that runs the links between two addresses on a count of numbers of one kind.

    A chain begins with LOAD, so what the accumulator holds before does not matter.
    """

    @intrinsic
    def run_chain(context: Any, links: Any, end: Any, slots: Any, count: Any) -> Any:
        def generate(cx: Any, builder: Any, signature: Any, args: Any) -> Any:
            _write_chain(numbers(builder), *args)
            return cx.get_dummy_value()

        return types.void(INT, INT, INT, INT), generate

    return run_chain


def _write_chain(v: Arithmetic, links: Any, end: Any, slots: Any, count: Any) -> None:
    builder, vectors = v.builder, _BYTES // (WIDTH * v.item)
    step = vectors * WIDTH
    trips = builder.sdiv(count, I64(step))

    def many(i: Any) -> Sequence[Any]:
        _Links(v, slots, builder.mul(i, I64(v.item * step)), vectors, None).run(links, end)
        return ()

    loop(builder, trips, (), many)
    done = builder.mul(trips, I64(step))

    def single(i: Any) -> Sequence[Any]:
        start = builder.add(done, builder.mul(i, I64(WIDTH)))
        mask = v.first_lanes(builder.sub(count, start))
        _Links(v, slots, builder.mul(start, I64(v.item)), 1, mask).run(links, end)
        return ()

    loop(builder, vectors_in(builder, builder.sub(count, done)), (), single)


class _Links:
    """The code that runs a chain on the vectors at one distance from the begin of the block.

    Args:
        width: how many vectors; mask: of their lanes, None for all.
    """

    def __init__(self, v: Arithmetic, slots: Any, offset: Any, width: int, mask: Any) -> None:
        self.v, self.slots, self.offset, self.width, self.mask = v, slots, offset, width, mask
        self.builder = v.builder

    def run(self, links: Any, end: Any) -> None:
        bytes_of_link = I64(8 * LINK_WORDS)
        count = self.builder.udiv(self.builder.sub(end, links), bytes_of_link)
        undefined = [ir.Constant(self.v.kind, ir.Undefined)] * self.width
        loop(
            self.builder, count, undefined,
            lambda i, *held: self._link(self.builder.add(links, self.builder.mul(i, bytes_of_link)), held),
        )  # fmt: skip

    def _link(self, at: Any, held: Sequence[Any]) -> Sequence[Any]:
        """One link; the accumulator after it."""
        builder = self.builder
        behind, impossible = builder.append_basic_block("behind"), builder.append_basic_block("impossible")
        switch = builder.switch(self._word(at, 0), impossible)
        ends: list[tuple[Sequence[Any], Any]] = []
        for number, body in self._bodies(at, held):
            block = builder.append_basic_block()
            switch.add_case(I64(number), block)
            builder.position_at_end(block)
            ends.append((body(), builder.block))
            builder.branch(behind)
        builder.position_at_end(impossible)
        builder.unreachable()
        builder.position_at_end(behind)
        after = [builder.phi(self.v.kind) for _ in held]
        for values, block in ends:
            for phi, x in zip(after, values, strict=True):
                phi.add_incoming(x, block)
        return after

    def _bodies(self, at: Any, held: Sequence[Any]) -> list[tuple[int, Callable[[], Sequence[Any]]]]:
        bodies: list[tuple[int, Callable[[], Sequence[Any]]]] = [
            (LOAD, lambda: self._loaded(at, 1)),
            (STORE, lambda: self._store(at, held)),
        ]
        for number, (name, place) in enumerate(CASES):
            if OF_ONE_KIND.get(name, self.v.item) != self.v.item:
                continue
            bodies.append((number, lambda name=name, place=place: self._applied(name, place, at, held)))  # type: ignore[misc]
        return bodies

    def _applied(self, name: str, place: int, at: Any, held: Sequence[Any]) -> Sequence[Any]:
        others = [self._loaded(at, n) for n in range(1, SHORT[name])]
        results = []
        for k, x in enumerate(held):
            operands = [o[k] for o in others]
            operands.insert(place, x)
            results.append(BODIES[name](self.v, *operands))
        return results

    def _word(self, at: Any, number: int) -> Any:
        builder = self.builder
        return builder.load(builder.inttoptr(builder.add(at, I64(8 * number)), I64.as_pointer()))

    def _place(self, at: Any, number: int) -> Any:
        """Where the vectors of the slot in a word are."""
        slot = self.builder.add(self.slots, self.builder.mul(self._word(at, number), I64(8)))
        return BlockOperand(self._word(slot, 0), self._word(slot, 1)).at(self.builder, self.offset)

    def _loaded(self, at: Any, number: int) -> list[Any]:
        start = self._place(at, number)
        return [
            self.v.load(self.builder.add(start, I64(self.v.item * WIDTH * n)), self.mask) for n in range(self.width)
        ]

    def _store(self, at: Any, held: Sequence[Any]) -> Sequence[Any]:
        start = self._place(at, 1)
        for n, x in enumerate(held):
            self.v.store(x, self.builder.add(start, I64(self.v.item * WIDTH * n)), self.mask)
        return held
