"""`while` as a row that walks the tapes of its condition and its body, `while_grad` as one that goes back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from typing import Any

import numpy as np

from workbench.executors.lowering.tape.flow.memory import FlowMemory, of_arrays
from workbench.executors.lowering.tape.flow.sub_tape import SubTape, cleared, read_by_value, require_memory, settled
from workbench.executors.lowering.tape.registry import native
from workbench.executors.lowering.tape.rules import FLOAT, move, require
from workbench.executors.lowering.tape.vector_code import Unsuitable
from workbench.executors.lowering.tape.writer import LOOK_UP, TapeWriter
from workbench.executors.planning.plan import Row
from workbench.graph.ssa import FETCH, Value
from workbench.ops.flow.control_flow import Stack, while_grad_op, while_op
from workbench.runtime.native.control import lines
from workbench.runtime.native.tape import address
from workbench.runtime.words import loop as words

_FIRST_ROOM = 16  # passes
_MOST_PASSES = 1 << 16  # in one go
_LEAST_SECONDS = 1e-7  # of a pass


class LoopMemory:
    """What a loop in kernels keeps of every pass, for its gradient.

    Args:
        wanted: the names whose values the gradient reads; of others it sees the shape. None: of all.

    Attributes:
        words: of the loop; run: those of them that tell what its latest run, or another one, has kept.
        parts: the arrays it is made of, as they are in the pass that runs; offsets: where they are in a record.
    """

    def __init__(self, wanted: set[str] | None) -> None:
        self.words = lines(words.LOOP_WORDS)
        self.run = self.words[: words.RUN_WORDS]
        self.parts: dict[str, np.ndarray] = {}
        self.offsets: dict[str, int] = {}
        self._wanted, self._names = wanted, list[str]()
        self._inside: dict[str, FlowMemory] = {}
        self._records = np.empty(0, np.uint8)

    @property
    def number(self) -> np.ndarray:
        """Of the pass that runs."""
        return self.words[words.TRIP : words.TRIP + 1]

    def keep(self, body: SubTape, name: str, kept: Any) -> None:
        """Write the rows that keep a value, or what control flow in the body leaves for its gradient."""
        if isinstance(kept, FlowMemory):
            self._inside[name] = kept
            for part, array in kept.arrays().items():
                self._keep(body, f"{name} {part}", array)
        elif name not in self._names:
            self._names.append(name)
            self._keep(body, name, kept, self._wanted is None or name in self._wanted)

    def _keep(self, body: SubTape, name: str, array: np.ndarray, is_wanted: bool = True) -> None:
        self.parts[name] = array
        if not is_wanted or not array.nbytes:
            return
        array = self.parts[name] = body.dense(array)
        offset = self.offsets[name] = int(self.words[words.RECORD])
        self.words[words.RECORD] = offset + -(-array.nbytes // 64) * 64
        body.row("keep", array, array.nbytes, self.words, offset)

    def pause_after(self, seconds: float) -> None:
        """Look at signals every `LOOK_UP` seconds, as far as that can be told: a pass takes about so long."""
        self.words[words.PATIENCE] = min(max(int(LOOK_UP / max(seconds, _LEAST_SECONDS)), 1), _MOST_PASSES)

    def begin(self, writer: TapeWriter) -> None:
        """Write the rows that let loops inside keep their runs from here on, one behind the other."""
        for kept in self._inside.values():
            for loop in kept.loops():
                loop.words[words.IS_INSIDE] = 1
                writer.row("begin_inside", loop.words, self.words)

    def grow(self) -> None:
        """Memory for twice as many passes, if there is none left."""
        room, record = int(self.words[words.ROOM]), int(self.words[words.RECORD])
        if not record or self.words[words.BEFORE] + self.words[words.TRIP] < room:
            return
        larger = np.empty((2 * room or _FIRST_ROOM) * record, np.uint8)
        larger[: self._records.size] = self._records
        self._records = larger
        self.words[[words.ROOM, words.RECORDS]] = larger.size // record, address(larger)

    @property
    def nbytes(self) -> int:
        """Of what it keeps of passes."""
        return self._records.nbytes

    def release(self) -> int:
        """Keep nothing of the passes there were; how many bytes that frees."""
        freed, self._records = self._records.nbytes, np.empty(0, np.uint8)
        self.words[[words.ROOM, words.RECORDS, words.TRIP, words.BEFORE, words.NEXT]] = 0, 0, 0, 0, words.LOOK
        return freed

    def stack(self) -> Stack | None:
        if self.run[words.NEXT] != words.OVER:
            return None
        stack = Stack()
        for trip in range(int(self.run[words.TRIP])):
            begin = int(self.run[words.BEFORE] + trip) * int(self.words[words.RECORD])
            parts = {name: self._of_pass(begin, name) for name in self.parts}
            inside = [kept.stack() for kept in self.inside(parts).values()]
            stack.push([*self._names, *self._inside], [*(parts[name] for name in self._names), *inside])
        return stack

    def inside(self, parts: Mapping[str, np.ndarray]) -> dict[str, FlowMemory]:
        """What control flow in the body has left in a pass, by name, of the parts of that pass."""
        return {name: of_arrays(name, kept, parts) for name, kept in self._inside.items()}

    def arrays(self) -> dict[str, np.ndarray]:
        return {"run": self.run}

    def like(self, arrays: Mapping[str, np.ndarray]) -> LoopMemory:
        other = copy(self)
        other.run = arrays["run"]
        return other

    def loops(self) -> Iterator[LoopMemory]:
        yield self
        for kept in self._inside.values():
            yield from kept.loops()

    def _of_pass(self, begin: int, name: str) -> np.ndarray:
        like = self.parts[name]
        if name not in self.offsets:
            return np.zeros(like.shape, like.dtype)
        begin += self.offsets[name]
        return self._records[begin : begin + like.nbytes].view(like.dtype).reshape(like.shape).copy()


@native(while_op, objects=True)
def while_loop(writer: TapeWriter, row: Row) -> None:
    """Loop variables lie in memory of their own, where the body reads them and puts the next ones."""
    require_memory(row)
    node, attrs = row.node, row.node.attrs
    xs, captured = settled(writer, node.inputs[0]), settled(writer, node.inputs[1] or ())
    memory = LoopMemory(_wanted_of(writer, node.outputs[1]))
    condition, body = (SubTape(writer, node.place, memory.number) for _ in range(2))
    variables = [body.new(x) for x in xs]
    given = dict(zip(attrs["input_names"], captured, strict=True))
    given.update(zip(attrs["x_names"], variables, strict=True))
    goes_on = condition.block(attrs["cond_block"], given, [attrs["cond_out"]])[attrs["cond_out"]]
    require(goes_on.size == 1, goes_on.dtype == np.bool_)
    saved = attrs["body_saved"] if attrs["save"] else ()
    for name, variable in zip(attrs["x_names"], variables, strict=True):
        if attrs["save"]:
            memory.keep(body, name, variable)
    results = body.block(attrs["body_block"], given, [*attrs["body_outs"], *saved])
    for name in saved:
        memory.keep(body, name, results[name])
    body.move_all([(results[name], variable) for name, variable in zip(attrs["body_outs"], variables, strict=True)])
    memory.pause_after(condition.seconds + body.seconds)
    memory.begin(writer)
    writer.tape.growing.append(memory.grow)
    writer.context.held.append((node.place, memory))
    states = condition.close(), body.close()
    for x, variable in zip(xs, variables, strict=True):
        move(writer, x, variable)
    writer.row("begin_loop", *states, memory.words)
    writer.row("repeat", *states, goes_on, memory.words)
    for out, variable in zip(node.outputs[0], variables, strict=True):
        if out is not None:
            move(writer, variable, writer.context.array(out))
    writer.tape.kept.append(memory)
    if node.outputs[1] is not None:
        writer.context.memories[node.outputs[1]] = memory


def _wanted_of(writer: TapeWriter, saved: Value | None) -> set[str] | None:
    """Names whose values the gradient of a loop reads; None, for all, where a loop around it keeps them."""
    graph = writer.context.graph
    readers = [node for node in graph.nodes if saved in node.reads] if saved is not None and graph is not None else []
    if any(reader.type == FETCH for reader in readers):
        return None
    require(all(reader.type == while_grad_op.type for reader in readers))
    return set().union(*(read_by_value(reader.attrs["grad_block"]) for reader in readers))


@native(while_grad_op, objects=True)
def while_grad(writer: TapeWriter, row: Row) -> None:
    """Gradients of loop variables go from pass to pass, those of captured values add up where they belong."""
    require_memory(row)
    node, attrs = row.node, row.node.attrs
    captured, grads = settled(writer, node.inputs[1] or ()), settled(writer, node.inputs[4])
    memory = writer.context.memories.get(node.inputs[3])
    if not isinstance(memory, LoopMemory):
        raise Unsuitable  # it runs in Python
    back = writer.tape.keep(lines(words.LOOP_WORDS))
    body = SubTape(writer, node.place, back[words.LEFT : words.LEFT + 1])
    given: dict[str, Any] = dict(zip(attrs["input_names"], captured, strict=True))
    for name, like in memory.parts.items():
        given[name] = body.new(like)
        if name in memory.offsets:
            body.row("give_back", given[name], like.nbytes, memory.words, memory.offsets[name], back)
    carried = [body.new(grad) for grad in grads]
    given.update(zip(attrs["seeds"], carried, strict=True))
    given.update(memory.inside(given))
    results = body.block(attrs["grad_block"], given, [n for n in (*attrs["x_grads"], *attrs["input_grads"]) if n])
    totals = _add_up(writer, body, node.outputs[1], [results.get(name) for name in attrs["input_grads"]], back)
    _hand_on(body, carried, [results.get(name) for name in attrs["x_grads"]])
    state = body.close()
    for total in totals:
        cleared(writer, total)
    for grad, variable in zip(grads, carried, strict=True):
        move(writer, grad, variable)
    writer.row("begin_way_back", state, memory.run, back)
    writer.row("go_back", state, memory.words, back)
    for out, variable in zip(node.outputs[0], carried, strict=True):
        if out is not None:
            move(writer, variable, writer.context.array(out))
    writer.tape.kept.append(memory)


def _add_up(
    writer: TapeWriter, body: SubTape, outs: Sequence[Value | None] | None, parts: Sequence[Any], back: np.ndarray
) -> list[np.ndarray]:
    """Rows that add what a pass gives to the gradients of captured values; these."""
    totals = []
    for out, part in zip(outs or (), parts, strict=True):
        if out is None:
            continue
        (total,) = settled(writer, [out])
        totals.append(total)
        if part is not None:
            require(total.dtype == part.dtype, total.shape == part.shape, total.flags.c_contiguous)
            if total.dtype == FLOAT:
                body.row("add_pass", total, body.dense(part), total.size, back)
            else:
                body.ask(partial(_add_pass, total, part, back))
    return totals


def _add_pass(total: np.ndarray, part: np.ndarray, back: np.ndarray) -> None:
    """What the kernel of this name does, of numbers of other types."""
    np.copyto(total, part if back[words.IS_FIRST] else total + part)


def _hand_on(body: SubTape, carried: Sequence[np.ndarray], grads: Sequence[np.ndarray | None]) -> None:
    """The gradients of the next pass on the way back; zeros where a pass gives none."""
    body.move_all([(part, variable) for part, variable in zip(grads, carried, strict=True) if part is not None])
    for part, variable in zip(grads, carried, strict=True):
        if part is None:
            body.row("clear_bytes", variable, variable.nbytes)
