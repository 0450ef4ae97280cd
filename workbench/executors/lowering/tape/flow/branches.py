"""`cond` as a row that walks the tape of one of its blocks, `cond_grad` as one that walks that of its gradient."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.executors.lowering.tape.flow.memory import FlowMemory, arrays_of, of_arrays
from workbench.executors.lowering.tape.flow.sub_tape import SubTape, require_memory, settled
from workbench.executors.lowering.tape.registry import native
from workbench.executors.lowering.tape.rules import require
from workbench.executors.lowering.tape.vector_code import Unsuitable
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.plan import Row
from workbench.graph.ssa import Value
from workbench.ops.flow.control_flow import Stack, cond_grad_op, cond_op
from workbench.runtime.native.control import lines

SIDES = ("true", "false")


class BranchMemory:
    """What the blocks of a `cond` in kernels leave for its gradient, where they have made it.

    Args:
        predicate: which of them ran.

    Attributes:
        is_made: a word, 1 once one has run. parts: by side and name.
    """

    def __init__(self, predicate: np.ndarray) -> None:
        self.is_made = lines(1)
        self.parts: dict[str, dict[str, Any]] = {}
        self._predicate = predicate

    def arrays(self) -> dict[str, np.ndarray]:
        arrays = {"predicate": self._predicate}
        for side in SIDES:
            for name, part in self.parts[side].items():
                arrays.update(arrays_of(f"{side} {name}", part))
        return arrays

    def like(self, arrays: Mapping[str, np.ndarray]) -> BranchMemory:
        other = BranchMemory(arrays["predicate"])
        other.is_made[0] = 1
        other.parts = {
            side: {name: of_arrays(f"{side} {name}", part, arrays) for name, part in self.parts[side].items()}
            for side in SIDES
        }
        return other

    def stack(self) -> Stack | None:
        if not self.is_made[0]:
            return None
        parts = self.parts[SIDES[0] if self._predicate.all() else SIDES[1]]
        stack = Stack()
        stack.push(
            list(parts), [part.stack() if isinstance(part, FlowMemory) else part.copy() for part in parts.values()]
        )
        return stack

    def loops(self) -> Iterator[Any]:
        for side in SIDES:
            for part in self.parts[side].values():
                if isinstance(part, FlowMemory):
                    yield from part.loops()


@native(cond_op, objects=True)
def cond(writer: TapeWriter, row: Row) -> None:
    """Both blocks put their results where those of the op are."""
    require_memory(row)
    node, attrs = row.node, row.node.attrs
    (predicate,), captured = settled(writer, [node.inputs[0]]), settled(writer, node.inputs[1] or ())
    require(predicate.dtype == np.bool_, predicate.size == 1)
    memory = BranchMemory(predicate)
    given = dict(zip(attrs["input_names"], captured, strict=True))
    tapes = []
    for side in SIDES:
        tape, outs, saved = SubTape(writer, node.place), attrs[f"{side}_outs"], attrs[f"{side}_saved"]
        results = tape.block(attrs[f"{side}_block"], given, [*outs, *saved])
        _put(writer, tape, node.outputs[0], [results[name] for name in outs])
        memory.parts[side] = {name: results[name] for name in saved}
        tapes.append(tape.close())
    writer.row("begin_choice", *tapes, memory.is_made)
    writer.row("choose", predicate, *tapes, memory.is_made)
    writer.tape.kept.append(memory)
    if node.outputs[1] is not None:
        writer.context.memories[node.outputs[1]] = memory


@native(cond_grad_op, objects=True)
def cond_grad(writer: TapeWriter, row: Row) -> None:
    """The gradient of the block that ran reads what that has left."""
    require_memory(row)
    node, attrs = row.node, row.node.attrs
    (predicate,), captured = settled(writer, [node.inputs[0]]), settled(writer, node.inputs[1])
    grads = settled(writer, node.inputs[3])
    memory = writer.context.memories.get(node.inputs[2])
    if not isinstance(memory, BranchMemory):
        raise Unsuitable  # it runs in Python
    tapes = []
    for side in SIDES:
        tape, names = SubTape(writer, node.place), attrs[f"{side}_grads"]
        given = dict(zip(attrs["input_names"], captured, strict=True)) | memory.parts[side]
        given.update(zip(attrs[f"{side}_seeds"], grads, strict=True))
        results = tape.block(attrs[f"{side}_block"], given, [name for name in names if name])
        _put(writer, tape, node.outputs[0], [results.get(name) for name in names])
        tapes.append(tape.close())
    is_made = lines(1)
    writer.row("require_made", memory.is_made)
    writer.row("begin_choice", *tapes, writer.tape.keep(is_made))
    writer.row("choose", predicate, *tapes, is_made)
    writer.tape.kept.append(memory)


def _put(
    writer: TapeWriter, tape: SubTape, outs: Sequence[Value | None] | None, parts: Sequence[Any]
) -> None:  # fmt: skip
    """Rows that copy what a block has made to the results of the op; zeros where it has made nothing."""
    for out, part in zip(outs or (), parts, strict=True):
        if out is None:
            continue
        (target,) = settled(writer, [out])
        if part is None:
            require(target.flags.c_contiguous, target.nbytes > 0)
            tape.row("clear_bytes", target, target.nbytes)
        else:
            tape.move(part, target)
