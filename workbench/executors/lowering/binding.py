"""A plan bound to memory: every operand an array, every row a few calls (design: plan, binding, storage)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from workbench.errors import EnforceNotMet, InvalidArgument, InvalidType, PreconditionNotMet
from workbench.executors.failures import Explained
from workbench.executors.feeding.split import SplitRecipe
from workbench.executors.lowering.numpy.fused_all_reduce_update import FusedReductions, fused_reductions, sum_in_order
from workbench.executors.lowering.numpy.lower import lower
from workbench.executors.lowering.operands import Call, Cell, Context, Scratch
from workbench.executors.lowering.tape.segment import NativeFlag, Segment
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.memory import Ref
from workbench.executors.planning.plan import Plan, Row
from workbench.executors.reference.calls import Call as OpCall
from workbench.executors.reference.runner import OpRunner
from workbench.executors.replicas.replicas import Replicas
from workbench.executors.replicas.replicated_values import ReplicatedValues, changed_together
from workbench.executors.workers.pool import Flag, Task, WorkerPool
from workbench.framework.op.record import find_op
from workbench.framework.program.variable import Variable
from workbench.framework.values.spec import Spec, agree, spec_of
from workbench.graph.ssa import Node, Value
from workbench.runtime.comm.base import Communicator
from workbench.runtime.device import DeviceMemory
from workbench.runtime.tensor import LoDTensor, Moves
from workbench.runtime.words.stream import STREAM_WORDS


class PythonRow(NamedTuple):
    """A row that runs in Python: flags to wait for, its calls, flags to raise."""

    row: Row
    waits: list[Call]
    calls: list[Call]
    raised: list[Call]


class ThreadProgram:
    """What one thread runs in one phase of the step: a task, and which row each of its calls belongs to."""

    def __init__(self) -> None:
        self.units: list[PythonRow | Segment] = []
        self.ends: list[int] = []
        self.task = Task([])

    def add(self, unit: PythonRow | Segment) -> None:
        self.task.calls += [unit] if isinstance(unit, Segment) else [*unit.waits, *unit.calls, *unit.raised]
        self.units.append(unit)
        self.ends.append(len(self.task.calls))
        self.task.piece = unit if isinstance(unit, Segment) and len(self.units) == 1 else None

    def rewind(self) -> None:
        """After a step that failed: pieces of tapes begin at their first row again."""
        for call in self.task.calls:
            if isinstance(call, Segment):
                call.rewind()

    def row_of(self, call: int) -> Row:
        """The row a call belongs to; of a piece of a tape the one it is at."""
        return self.units[bisect_right(self.ends, call)].row

    def current_row(self) -> Row:
        """The row that is running now."""
        return self.row_of(max(self.task.done - 1, 0))

    def failed_row(self) -> Row | None:
        """The row whose call raised in the last run."""
        return self.row_of(self.task.done - 1) if self.task.done and not self.task.complete else None


class Binding:
    """A plan on the arenas and the scopes of one executor.

    Args:
        fed: persistable values that are given with the feed instead of read from the scope, as (name, device).
        weights: coefficients of the loss gradients under WeightedBySamples.

    Attributes:
        speculative, commit: one `ThreadProgram` per thread.
        collector, infos, exchanges, watched: what its fetches, events and debugging need, made by those.
        schedules: how many learning rates come from schedules.
        inputs: the array of every feed, by (name, device).
        staged: (source, tensor) pairs the commit copies; given_aside: their values.
        updated: the tensors the commit changes in place; changed: the same, as they are counted.
        is_native: whether nothing of the step runs in Python; calls_blas: whether kernels call the BLAS.
        whole_step: the step as one call, where there is such; has_run: whether a step has been applied.
        telltales: what is looked at for NaN and Inf, made when somebody first wants it.
        in_use: whether a speculation has begun and did not come to its end: flags may be up.
    """

    def __init__(
        self,
        plan: Plan,
        replicas: Replicas,
        arenas: Mapping[int, DeviceMemory],
        comm: Communicator,
        pool: WorkerPool,
        fed: frozenset[tuple[str, int]],
        weights: Sequence[float],
        blocks: dict[int, list[OpCall]],
    ) -> None:
        self.plan, self.replicas, self.arenas, self.pool = plan, replicas, dict(arenas), pool
        program = plan.graph.program
        self.runners = [OpRunner(program, place, blocks) for place in range(plan.graph.devices)]
        self.cells: dict[Value, Cell] = {}
        self.scratch: dict[int, Scratch] = {}
        self.flags: list[Flag | NativeFlag] = []
        self._streams: dict[Node, np.ndarray] = {}
        self._arrays: dict[Value, np.ndarray] = {}
        self._fed, self.schedules = fed, len(program.lr_schedulers)
        self.collector: Any = None
        self.infos: Any = None
        self.exchanges: Any = None
        self.watched: dict[tuple[bool, bool], Any] = {}
        self.in_use = self.has_run = False
        self.whole_step: Any = None
        self.telltales: Any = None
        self._recipe: SplitRecipe | None = None
        self.kept = {v for _, values in plan.fetches for v in values}.union(plan.staged, plan.feeds)
        self._bound: list[tuple[str, int, LoDTensor, Any]] = []
        self._context = Context(
            self.array, self.cell, self.flat, replicas.bucket, self._extras, comm, weights, plan.flats.get,
            lambda node: self._replicated.shards.get(node),
            lambda node: node in self._fused_reductions.collectives or node in self._fused_reductions.updates,
            self._stream,
        )  # fmt: skip
        self._bucket_first()
        self._replicated = ReplicatedValues(plan, replicas.find, in_kernels=pool.control is not None)
        self._fused_reductions = fused_reductions(plan, self._replicated.shards if comm.computes_here else {})
        self.moves = Moves.count
        self._bind_scope()
        self.inputs = {(v.name, v.place): self.array(v) for v in plan.feeds if self._is_input(v) and v in plan.refs}
        self.loose_inputs = {
            (v.name, v.place): self.cell(v) for v in plan.feeds if self._is_input(v) and v not in plan.refs
        }
        self._unread = self._fed_beside()
        self.loose_inputs |= {(v.name, v.place): self.cell(v) for v in self._unread}
        apart, self.calls_blas = not plan.memory_options.reuse, False
        self.speculative = self._programs(plan.rows, with_waits=True, apart=apart)
        self.commit = self._programs(plan.commit, with_waits=False, apart=apart)
        programs = (*self.speculative, *self.commit)
        self.is_native = all(isinstance(unit, Segment) for program in programs for unit in program.units)
        self.updated = self._updated()
        self.changed = changed_together(self.updated, self._replicated, plan.graph.devices)
        self._copied = self._to_copy()
        self.staged = [(self._source(v), tensor) for v, tensor in self._copied]
        self.given_aside = {v for v, _ in self._copied}

    # Where values are

    def places_of(self, recipe: SplitRecipe) -> tuple[list[Any], list[Any]]:
        """Where feeds go: (device, name, rows, array), and (device, name, rows, cell) of those without memory."""
        if self._recipe is not recipe:
            self._recipe = None  # until both are there: Ctrl-C may come in between
            self._arrays_fed = self._reading(recipe, self.inputs)
            self._cells_fed = self._reading(recipe, self.loose_inputs)
            self._recipe = recipe
        return self._arrays_fed, self._cells_fed

    def _reading(self, recipe: SplitRecipe, targets: Mapping[tuple[str, int], Any]) -> list[Any]:
        return [
            (place, name, index, targets[name, place])
            for rows in (recipe.data, recipe.persistable)
            for place, row in enumerate(rows)
            for name, index in row
            if (name, place) in targets
        ]

    def array(self, value: Value) -> np.ndarray:
        """The array of a value that has memory."""
        array = self._arrays.get(value)
        if array is None:
            array = self._arrays[value] = self.flat(self.plan.refs[value])
        return array

    def cell(self, value: Value) -> Cell:
        """The cell of a value that travels as an object."""
        return self.cells.setdefault(value, Cell())

    def flat(self, ref: Ref) -> np.ndarray:
        """The array of a Ref in an arena."""
        return self.arenas[ref.root.place].array(ref.root.offset + ref.offset, ref.shape, ref.dtype, ref.strides)

    def current(self, value: Value) -> Any:
        """What a value holds now: an array, an object, or None."""
        if value in self._fused_reductions.contributions:
            return sum_in_order([self.array(one) for one in self._fused_reductions.contributions[value]])
        return self.array(value) if value in self.plan.refs else self.cell(value).value

    def spec_of(self, value: Value) -> Spec:
        """What a value is like in the step under way; of one that is known only when it runs, what it holds now."""
        held = None if value in self.plan.refs else self.cell(value).value
        return spec_of(held) if isinstance(held, np.ndarray) else self.plan.shapes.specs[value]

    def parts_of(self, value: Value) -> Sequence[Value]:
        """What a sum that updates take themselves is made of; of any other value itself."""
        return self._fused_reductions.contributions.get(value, (value,))

    def _is_fed(self, value: Value) -> bool:
        return value.persistable and (value.name, value.place) in self._fed

    def _is_input(self, value: Value) -> bool:
        return not value.persistable or self._is_fed(value)

    def _fed_beside(self) -> list[Value]:
        """What is fed for the scopes alone: variables the graph does not read, devices that take no part (X-19)."""
        program = self.plan.graph.program
        served = {*self.inputs, *self.loose_inputs}
        keys = sorted(key for key in self._fed if key not in served and key[0] not in program.lr_schedulers)
        block = program.global_block()
        return [Value(name, place, 0, block.var(name).spec, persistable=True) for name, place in keys]

    def _source(self, value: Value) -> Any:
        return self.array(value) if value in self.plan.refs else self.cell(value)

    def _bucket_first(self) -> None:
        """Put what one update changes together before anything is bound to it."""
        for node in self.plan.flats:
            for slot, values in zip(_update_slots(node), node.inputs, strict=True):
                if slot not in ("Grad", "LearningRate") and values and values[0] is not None:
                    self.replicas.bucket(node.place, [v.name for v in values])

    def _bind_scope(self) -> None:
        """Bind persistable values to their storage, each checked against what the program declares."""
        plan = self.plan
        for value in plan.feeds:
            if not value.persistable or self._is_fed(value):
                continue
            tensor = self._checked(value)
            self._bound.append((value.name, value.place, tensor, tensor.array))
            if value in plan.refs:
                self._arrays[value] = tensor.array
            else:
                self.cell(value).value = tensor.array
        for value in [v for row in plan.commit for v in row.node.writes]:
            tensor = self._checked(value)
            self._bound.append((value.name, value.place, tensor, tensor.array))
            self._arrays[value] = tensor.array

    def _checked(self, value: Value) -> LoDTensor:
        """The tensor of a persistable value, which holds what the program declares."""
        variable = self.plan.graph.program.global_block().var(value.name)
        tensor = self.replicas.find(value.name, value.place)
        if tensor is None:
            raise self._uninitialised(value, variable)
        _require_agreement(variable, tensor, self._somewhere("of", value))
        return tensor

    def give_rate(self, name: str, place: int, rate: float) -> None:
        """Set the learning rate of this step."""
        target = self.inputs.get((name, place))
        if target is not None:
            target.fill(rate)

    def _uninitialised(self, value: Value, variable: Variable) -> EnforceNotMet:
        reader = next(n for n in self.plan.graph.nodes if value in n.reads or value in n.writes)
        what = "parameter" if variable.is_parameter else "persistable variable"
        where = self._somewhere("on", value)
        return PreconditionNotMet(
            f"{what} {value.name!r} is not initialised{where}; run the startup program first\n"
            f"  needed by op {reader.type!r} at {reader.site}"
        )

    def _somewhere(self, preposition: str, value: Value) -> str:
        """` on cpu:1`, where there are several devices."""
        graph = self.plan.graph
        return f" {preposition} {graph.places[value.place]}" if graph.devices > 1 else ""

    @property
    def fused_reductions(self) -> FusedReductions:
        """The sums over devices that updates take themselves."""
        return self._fused_reductions

    def is_current(self) -> bool:
        """Whether the scopes still hold the storage this is bound to; costs one comparison while nothing moved."""
        count = Moves.count  # before looking: what moves meanwhile is seen the next time
        if not self._replicated.still_holds():
            return False
        if self.moves == count:
            return True
        if not self.replicas.is_whole():
            return False
        for name, place, tensor, array in self._bound:
            if self.replicas.find(name, place) is not tensor or tensor.array is not array:
                return False
        if any(self.replicas.find(v.name, v.place) is not t and t.initialized for v, t in self._copied):
            return False
        self.moves = count
        return True

    def tensors(self) -> list[tuple[str, int, LoDTensor]]:
        """What it reads of the scopes and what its commit copies there, as (name, device, tensor)."""
        read = [(name, place, tensor) for name, place, tensor, _ in self._bound]
        return [*read, *((v.name, v.place, tensor) for v, tensor in self._copied)]

    def _to_copy(self) -> list[tuple[Value, LoDTensor]]:
        """What the commit copies: values made aside, and what was fed for variables nothing in the step writes."""
        staged = [(v, self.replicas.make(v.name, v.place)) for v in self.plan.staged]
        written = {id(tensor) for tensor in (*self.updated, *(tensor for _, tensor in staged))}
        given = [*(v for v in self.plan.feeds if self._is_fed(v)), *self._unread]
        fed = [(v, self.replicas.make(v.name, v.place)) for v in given]
        return staged + [(v, tensor) for v, tensor in fed if id(tensor) not in written]

    def _updated(self) -> list[LoDTensor]:
        written = [self.replicas.make(v.name, v.place) for row in self.plan.commit for v in row.node.writes]
        return list({id(t): t for t in written}.values())

    # Calls

    def _programs(self, rows: Sequence[Row], with_waits: bool, apart: bool = False) -> list[ThreadProgram]:
        """One program per thread.

        Args:
            apart: every row is a call of its own, so that one can look between them.
        """
        threaded = with_waits or _independent(rows)
        count = 1 + max((row.thread for row in rows), default=0) if threaded else 1
        programs = [ThreadProgram() for _ in range(count)]
        writers = [self._writer(thread, apart) for thread in range(count)]
        waits, raised = self._signals(rows, apart) if with_waits else ({}, {})
        for row in rows:
            thread = row.thread if threaded else 0
            awaited, announced = waits.get(row.node, []), raised.get(row.node, [])
            writer, program = writers[thread], programs[thread]
            with Explained(row.node, self.plan.graph, self.plan.shapes.specs):
                if writer is not None and writer.add(row, awaited, announced):
                    if apart and (segment := writer.cut()) is not None:
                        program.add(PythonRow(row, [], [segment], []))
                    continue
                if writer is not None and (segment := writer.cut()) is not None:
                    program.add(segment)
                calls = [*lower(row, self._context, self._scratch(thread)), *self._letting_go(row)]
                program.add(PythonRow(row, [f.wait for f in awaited], calls, [f.up for f in announced]))
        for writer, program in zip(writers, programs, strict=True):
            if writer is not None and (segment := writer.cut()) is not None:
                program.add(segment)
            if writer is not None:
                writer.finish()
                self.calls_blas |= writer.calls_blas
        return programs

    def looked_between(self) -> list[ThreadProgram]:
        """The speculation with every row a call of its own, so that one can look between them."""
        if self.pool.control is None or not self.plan.memory_options.reuse:
            return self.speculative
        return self._programs(self.plan.rows, with_waits=True, apart=True)

    def _writer(self, thread: int, apart: bool) -> TapeWriter | None:
        if self.pool.control is None:
            return None
        return TapeWriter(self.pool, self._context, self._scratch(thread), self._by_numpy, joined=not apart)

    def _scratch(self, thread: int) -> Scratch:
        return self.scratch.setdefault(thread, Scratch())

    def _by_numpy(self, row: Row) -> list[Call]:
        """What runs a row a kernel has declined."""
        return [*lower(row, self._context, Scratch()), partial(self._replicated.diverge, row.node)]

    def _signals(self, rows: Sequence[Row], apart: bool) -> tuple[dict[Node, list[Any]], dict[Node, list[Any]]]:
        """Flags for every result that goes to another thread: who waits for them, and who raises them.

        Where somebody looks between the rows, those wait, too, that leave their work to updates.
        """
        run = {row.node for row in rows}
        waits: dict[Node, list[Any]] = {}
        raised: dict[Node, list[Any]] = {}
        for node, others in self.plan.waits_without(() if apart else self._fused_reductions.collectives).items():
            for other in others:
                if node in run and other in run:
                    flag = self._flag(f"op {other.type!r} on {self.plan.graph.places[other.place]}")
                    self.flags.append(flag)
                    waits.setdefault(node, []).append(flag)
                    raised.setdefault(other, []).append(flag)
        return waits, raised

    def _flag(self, what: str) -> Flag | NativeFlag:
        return Flag(self.pool, what) if self.pool.control is None else NativeFlag(self.pool, what)

    def _letting_go(self, row: Row) -> list[Call]:
        """Objects nobody reads after this row."""
        if not self.cells or not self.plan.memory_options.reuse:
            return []
        dying = [
            self.cells[v]
            for v in row.node.reads
            if v in self.cells and self.plan.last_reader.get(v) is row.node and v not in self.kept
        ]
        return [partial(_let_go, dying)] if dying else []

    def _extras(self, node: Node) -> dict[str, Any]:
        return self.runners[node.place].extras(node.origins[0])

    def _stream(self, node: Node) -> np.ndarray:
        return self._streams.setdefault(node, np.zeros(STREAM_WORDS, np.uint64))

    def draw(self) -> None:
        """Tell kernels which random streams they draw from in this step, after the runners know what step it is."""
        for node, words in self._streams.items():
            words[:] = self._extras(node)["rng"].state

    # Life

    def reset(self) -> None:
        """After a step that failed: no thread is at it, no flag up, no object kept."""
        if not self.pool.lost:
            self.pool.settle()
        for flag in self.flags:
            flag.lower()
        watched = [phases.speculative for phases in self.watched.values()]
        for programs in (self.speculative, *watched):
            for program in programs:
                program.rewind()
        self.forget()
        self.in_use = False

    def forget(self) -> None:
        """Let go of the objects of the last step."""
        scope_held = {v for v in self.plan.feeds if v.persistable and not self._is_fed(v)}
        for value, cell in self.cells.items():
            if value not in scope_held:
                cell.value = None


def _let_go(cells: list[Cell]) -> None:
    for cell in cells:
        cell.value = None


def _update_slots(node: Node) -> list[str]:
    return [slot.name for slot in find_op(node.attrs["update"]).inputs]


def _independent(rows: Sequence[Row]) -> bool:
    """Whether rows of different threads neither read nor write what another one writes."""
    owner: dict[tuple[str, int], int] = {}
    for row in rows:
        for value in row.node.writes:
            if owner.setdefault((value.name, value.place), row.thread) != row.thread:
                return False
    return all(owner.get((v.name, v.place), row.thread) == row.thread for row in rows for v in row.node.reads)


def _require_agreement(variable: Variable, tensor: LoDTensor, where: str) -> None:
    got = spec_of(tensor.array)
    if agree(variable.spec, got):
        return
    what = "parameter" if variable.is_parameter else "variable"
    kind = InvalidArgument if got.dtype == variable.dtype else InvalidType
    raise kind(
        f"{what} {variable.name!r} in the scope{where} is not what the program declares; set or load another value, or "
        f"run the startup program\n  expected: {variable.spec}\n  got:      {got}"
    )
