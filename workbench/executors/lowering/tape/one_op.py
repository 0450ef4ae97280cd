"""A tape for a single op, which runs on whatever arrays it is given: its form in dynamic mode.

The rules write it, on arrays that only stand for operands; where their addresses came to be is noted, and those of the
arrays of a call are put there. Every thread has tapes of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from workbench.executors.lowering.operands import Call, Context, Scratch
from workbench.executors.lowering.tape import table  # noqa: F401 (has all rules noted)
from workbench.executors.lowering.tape.registry import rule_of
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.plan import Row
from workbench.executors.workers.pool import WorkerPool
from workbench.framework.op.compiled import CompiledCall, CompiledWrite
from workbench.framework.op.record import Cost, Op
from workbench.framework.values.spec import Spec, spec_of
from workbench.graph.ssa import Node, Value
from workbench.runtime.native.image import Kernels
from workbench.runtime.native.library import is_compiling, kernels_at_hand
from workbench.runtime.native.tape import Pointer, Tape, address, pointer
from workbench.runtime.words.codes import AT, START

_get_ident = threading.get_ident
Patch = tuple[int, int]  # a word of the tape, and how far behind the first byte of an operand it points


class _Workspace(threading.local):
    """What rows of a thread share while they run."""

    def __init__(self) -> None:
        self.scratch = Scratch()


_workspace = _Workspace()


@cache
def _pool(natives: Kernels) -> WorkerPool:
    """What tapes are run with; they never wait for other threads."""
    return WorkerPool(1.0, natives)


def compiled_op(
    op: Op, attrs: dict[str, Any], ins: Sequence[Spec | None], outs: Sequence[Spec | None]
) -> CompiledCall | None:
    """See `framework.op.compiled.OpCompiler`."""
    if is_compiling():
        return None  # ops that have begun as calls stay so: kernels may round differently
    natives = kernels_at_hand()
    if natives is None:
        return None
    compiled = OneOp(op, attrs, ins, outs, natives)
    return compiled if compiled.is_possible() else None


def compiled_write(
    op: Op, attrs: dict[str, Any], ins: Sequence[np.ndarray | None], outs: Sequence[np.ndarray | None]
) -> CompiledWrite | None:
    """See `framework.op.compiled.OpCompiler`."""
    natives = None if is_compiling() else kernels_at_hand()
    if natives is None or any(a is not None and a.dtype.kind != "f" for a in (*ins, *outs)):
        return None  # a kernel may decline integers
    reads = [None if a is None else Value(f"x{i}", 0, 0, spec_of(a)) for i, a in enumerate(ins)]
    writes = [None if a is None else Value(f"y{i}", 0, 1, spec_of(a)) for i, a in enumerate(outs)]
    node = Node(op.type, (0,), list(reads), list(writes), attrs, 0)
    if rule_of(node) is None:
        return None
    arrays = {v: a for v, a in zip((*reads, *writes), (*ins, *outs), strict=True) if v is not None and a is not None}
    pool, scratch = _pool(natives), _workspace.scratch
    scratch.restart()
    writer = TapeWriter(pool, _context(arrays), scratch, lambda row: (), tape=Tape(natives))
    if not writer.add(Row(node, list(reads), list(writes), 0, Cost(0, 0))):
        return None
    segment = writer.cut()
    writer.finish()
    if segment is None:
        return None
    assert pool.control is not None
    return _Write([segment.rewinding(), partial(pool.control.run_through, segment.address)], (segment, arrays, scratch))


class _Write(list[Call]):
    """Calls, with what has to stay while they are there."""

    def __init__(self, calls: Sequence[Call], kept: Any) -> None:
        super().__init__(calls)
        self._kept = kept


class OneOp:
    """An op on operands of given shapes and dtypes."""

    def __init__(
        self, op: Op, attrs: dict[str, Any], ins: Sequence[Spec | None], outs: Sequence[Spec | None], natives: Kernels
    ) -> None:
        self._pool = _pool(natives)
        reads = [None if s is None else Value(f"x{i}", 0, 0, s) for i, s in enumerate(ins)]
        writes = [None if s is None else Value(f"y{i}", 0, 1, s) for i, s in enumerate(outs)]
        self._node = Node(op.type, (0,), list(reads), list(writes), attrs, 0)
        self._tapes: dict[int, list[_OneOpTape]] = {}

    def is_possible(self) -> bool:
        """Whether there are kernels for it."""
        if rule_of(self._node) is None:
            return False
        tape = self._written()
        if tape is not None:
            self._tapes[_get_ident()] = [tape]
        return tape is not None

    def _written(self) -> _OneOpTape | None:
        tape = _OneOpTape(self._node, self._pool)
        return tape if tape.is_complete else None

    def __call__(self, *arrays: Any) -> Sequence[Any] | None:
        """New arrays, one per output; None if a kernel declines its data."""
        free = self._tapes.setdefault(_get_ident(), [])
        tape = free.pop() if free else self._written()
        if tape is None:
            return None
        results = tape.run(arrays)
        free.append(tape)
        return results


class _NotingTape(Tape):
    """A tape that notes where it points to operands.

    Args:
        operands: arrays that stand for them.
    """

    def __init__(self, natives: Kernels, operands: Sequence[np.ndarray | None]) -> None:
        super().__init__(natives)
        self._ranges = [
            (n, address(a), address(a) + a.nbytes) for n, a in enumerate(operands) if a is not None and a.nbytes
        ]
        self._notes: list[tuple[int, int, int]] = []
        self.numbers: Any = None

    def row(self, kernel: str, *arguments: Any) -> None:
        begin = len(self.words) + 2
        super().row(kernel, *arguments)
        for place, given in enumerate(arguments, begin):
            if isinstance(given, np.ndarray | Pointer):
                at = (pointer(given) if isinstance(given, np.ndarray) else given).address
                self._notes += [(n, place, at - first) for n, first, end in self._ranges if first <= at < end]

    def truncate(self, words: int) -> None:
        super().truncate(words)
        self._notes = [note for note in self._notes if note[1] < words]

    def table(self) -> int:
        address = super().table()
        self.numbers = self.kept[-1].data
        return address

    def patches(self, operand: int) -> list[Patch]:
        """Where it points to an operand."""
        return [(place, distance) for n, place, distance in self._notes if n == operand]


class _OneOpTape:
    """The rows of an op, for one thread."""

    def __init__(self, node: Node, pool: WorkerPool) -> None:
        assert pool.control is not None
        slots: list[Any] = [*node.inputs, *node.outputs]
        standing = {v: np.empty(v.spec.shape, v.spec.dtype.numpy) for v in slots if v is not None}
        tape = _NotingTape(pool.control.kernels, [standing.get(v) for v in slots])
        scratch = _workspace.scratch
        scratch.restart()
        writer = TapeWriter(pool, _context(standing), scratch, lambda row: (), tape=tape)
        self.is_complete = writer.add(Row(node, list(node.inputs), list(node.outputs), 0, Cost(0, 0)))
        segment = writer.cut() if self.is_complete else None
        if segment is None:
            self.is_complete = False
            return
        writer.finish()
        patches = [tape.patches(n) for n in range(len(slots))]
        count = len(node.inputs)
        self._reads = [(n, rows_here) for n, rows_here in enumerate(patches[:count]) if rows_here]
        outs = [(v.spec.shape, v.spec.dtype.numpy) if v is not None else None for v in slots[count:]]
        self._writes = list(zip(outs, patches[count:], strict=True))
        self._run, self._words, self._numbers = pool.control.run, segment._words, tape.numbers
        self._segment, self._kept = segment, (tape, scratch)

    def run(self, arrays: Sequence[Any]) -> list[Any] | None:
        numbers = self._numbers
        results: list[Any] = []
        held = []
        for n, patches in self._reads:
            array = arrays[n]
            if not array.flags.c_contiguous:
                array = array.copy("C")
                held.append(array)
            at = array.__array_interface__["data"][0]
            for place, distance in patches:
                numbers[place] = at + distance
        for wanted, patches in self._writes:
            if wanted is None:
                results.append(None)
                continue
            out = np.empty(*wanted)
            results.append(out)
            at = out.__array_interface__["data"][0]
            for place, distance in patches:
                numbers[place] = at + distance
        words = self._words
        words[AT] = words[START]
        return None if self._run(self._segment.address) else results


def _context(arrays: dict[Any, np.ndarray]) -> Context:
    nothing: Any = None  # a single op has no devices, buckets and random numbers

    return Context(
        arrays.__getitem__, nothing, nothing, nothing, nothing, nothing, (), nothing, lambda node: None,
        lambda node: False, nothing,
    )  # fmt: skip
