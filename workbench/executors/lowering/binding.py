"""A plan bound to memory: every operand an array, every row a few calls (design: plan, binding, storage)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from workbench.executors.lowering.bound_values import BoundValues
from workbench.executors.lowering.draws import Draws
from workbench.executors.lowering.fed_places import FedPlaces
from workbench.executors.lowering.numpy.fused_all_reduce_update import FusedReductions, fused_reductions
from workbench.executors.lowering.operands import Cell, Context, MakesStretches, Scratch
from workbench.executors.lowering.programs import RowLowering
from workbench.executors.lowering.scope_values import ScopeReads, ScopeStorage, ScopeWrites
from workbench.executors.lowering.target import CALLS, Target
from workbench.executors.lowering.thread_program import ThreadProgram, in_python
from workbench.executors.planning.plan import Plan
from workbench.executors.replicas.one_memory import arrange_replicas
from workbench.executors.replicas.replicas import Replicas
from workbench.executors.replicas.replicated_values import ReplicatedValues
from workbench.executors.workers.pool import WorkerPool
from workbench.framework.op.record import find_op
from workbench.framework.values.spec import Spec
from workbench.graph.ssa import Node, Value
from workbench.runtime.comm.base import Communicator
from workbench.runtime.device import DeviceMemory


@dataclass(frozen=True, eq=False, repr=False)
class Binding:
    """A plan on the arenas and the scopes of one executor; made by `bind`, and never changed after that.

    Attributes:
        plan: what it runs. replicas, arenas, pool: what it runs on.
        values: where every value is. storage: whether the scopes still hold what it is bound to.
        fed_places: where feeds go. draws: the random numbers of a step.
        reductions: the sums over devices that updates take themselves; replicated: the replicas that hold the same.
        lowering: what its programs were made by.
        speculative, commit: one `ThreadProgram` per thread.
        writes: what the commit changes in the scopes.
        is_native: whether nothing of the step runs in Python.
        schedules: how many learning rates come from schedules.
    """

    plan: Plan
    replicas: Replicas
    arenas: Mapping[int, DeviceMemory]
    pool: WorkerPool
    values: BoundValues
    storage: ScopeStorage
    fed_places: FedPlaces
    draws: Draws
    reductions: FusedReductions
    replicated: ReplicatedValues
    lowering: RowLowering
    speculative: Sequence[ThreadProgram]
    commit: Sequence[ThreadProgram]
    writes: ScopeWrites
    is_native: bool
    schedules: int

    @property
    def calls_blas(self) -> bool:
        """Whether kernels call the BLAS."""
        return self.lowering.calls_blas

    @property
    def has_team(self) -> bool:
        """Whether threads share nodes: then the first one's programs are all of the step, and the others help it."""
        return self.plan.shares.threads > 1 and len(self.speculative) + len(self.commit) > 2

    @property
    def holds_memory(self) -> bool:
        """Whether it has memory of its own, for loops and branches in kernels."""
        return self.lowering.holds_memory

    @property
    def held_bytes(self) -> int:
        """Of that memory, just now."""
        return self.lowering.held_bytes

    @property
    def in_python(self) -> set[Node]:
        """The nodes that no kernels run."""
        return in_python((*self.speculative, *self.commit))

    def led(self, programs: Sequence[ThreadProgram]) -> Sequence[ThreadProgram]:
        """Those of the programs of a phase that do all of it without help."""
        return programs[:1] if self.has_team else programs

    def array(self, value: Value) -> np.ndarray:
        """The array of a value that has memory."""
        return self.values.array(value)

    def current(self, value: Value) -> Any:
        """What a value holds now: an array, an object, or None."""
        return self.values.current(value)

    def spec_of(self, value: Value) -> Spec:
        """What a value is like in the step under way; of one that is known only when it runs, what it holds now."""
        return self.values.spec_of(value)

    def looked_between(self) -> Sequence[ThreadProgram]:
        """The speculation with every row a call of its own, so that one can look between them."""
        if self.lowering.is_apart or not self.plan.memory_options.reuse:
            return self.speculative
        return self.lowering.anew().programs(self.plan.rows, with_waits=True, apart=True)

    def release(self, freed: dict[int, int]) -> None:
        """Between two steps: keep no object, and give back what is in no arena; adds the bytes, by device."""
        self.values.forget()
        self.lowering.release(freed)

    def reset(self) -> None:
        """After a step that failed: no thread is at it, no flag up, no object kept."""
        if self.pool.is_unsettled and not self.pool.lost:
            self.pool.begin()
        for flag in self.lowering.flags:
            flag.lower()
        for program in self.speculative:
            program.rewind()
        self.values.forget()


@dataclass(frozen=True, eq=False, repr=False)
class Ground:
    """What a plan is bound to, but for the memory of temporaries: the same for plans of all sizes.

    Attributes:
        reads: the storage in the scopes. given: values that come with the feed instead.
        inputs: all that are fed and read; unread: those that are fed for the scopes alone.
    """

    replicas: Replicas
    comm: Communicator
    pool: WorkerPool
    weights: Sequence[float]
    replicated: ReplicatedValues
    reductions: FusedReductions
    reads: ScopeReads
    given: Sequence[Value]
    inputs: Sequence[Value]
    unread: Sequence[Value]
    draws: Draws
    stretches: MakesStretches

    def lowering(
        self,
        plan: Plan,
        values: BoundValues,
        scratch: dict[int, Scratch],
        kind: Callable[..., RowLowering] = RowLowering,
    ) -> RowLowering:
        """What lowers the rows of a plan whose values are there."""
        reductions, draws = self.reductions, self.draws
        context = Context(
            values.array, values.cell, values.flat, self.replicas.bucket, draws.extras, self.comm, self.weights,
            lambda node: plan.flats.get(node), self.replicated.shards.get,
            lambda node: node in reductions.collectives or node in reductions.updates, draws.stream,
            plan.graph, stretches=self.stretches,
        )  # fmt: skip
        return kind(plan, self.pool, context, values, reductions, self.replicated.diverge, scratch)

    def writes(self, plan: Plan, values: BoundValues) -> ScopeWrites:
        """What the commit changes in the scopes."""
        return ScopeWrites(plan, self.replicas, [*self.given, *self.unread], self.replicated, values.place_of)

    def storage(self, writes: ScopeWrites, kind: type[ScopeStorage] = ScopeStorage) -> ScopeStorage:
        """Whether the scopes still hold all that."""
        return kind(self.replicas, self.replicated, self.reads, writes)


def ground_of(
    plan: Plan,
    replicas: Replicas,
    comm: Communicator,
    pool: WorkerPool,
    fed: frozenset[tuple[str, int]],
    weights: Sequence[float],
    stretches: MakesStretches,
    by_user: Collection[str] = (),
) -> Ground:
    """What a plan is bound to.

    Args:
        fed: persistable values that are given with the feed instead of read from the scope, as (name, device).
        weights: coefficients of the loss gradients under WeightedBySamples.
        stretches: what runs rows and blocks whose sizes are known only when the step is there.
        by_user: the names of those that are not from schedules alone.

    Raises:
        PreconditionNotMet: a variable has no value. InvalidArgument, InvalidType: it is not what the program declares.
    """
    replicated = _replicated(plan, replicas, pool.control is not None, by_user)
    reductions = fused_reductions(plan, replicated.shards if comm.computes_here else {})
    given = [v for v in plan.feeds if v.persistable and (v.name, v.place) in fed]
    reads = ScopeReads(plan, replicas, frozenset(given))
    inputs = [*(v for v in plan.feeds if not v.persistable), *given]
    unread = _unread(plan, fed, {(v.name, v.place) for v in inputs})
    draws = Draws(stretches.runners(plan.graph, comm.local[0]))
    return Ground(
        replicas, comm, pool, weights, replicated, reductions, reads, given, inputs, unread, draws, stretches
    )  # fmt: skip


def _replicated(plan: Plan, replicas: Replicas, in_kernels: bool, by_user: Collection[str]) -> ReplicatedValues:
    """Which replicas are equal, now that they lie where they should; looked up anew if one was written meanwhile."""
    while True:
        _bucket_first(plan, replicas)
        replicated = ReplicatedValues(plan, replicas.find, in_kernels)
        if arrange_replicas(plan, replicas, replicated, by_user) and replicated.still_holds():
            return replicated


Programs = Callable[[RowLowering], tuple[Sequence[ThreadProgram], Sequence[ThreadProgram]]]


def bind(
    plan: Plan,
    ground: Ground,
    arenas: Mapping[int, DeviceMemory],
    scratch: dict[int, Scratch],
    programs: Programs | None = None,
    written: ScopeWrites | None = None,
    target: Target = CALLS,
) -> Binding:
    """The binding of a plan.

    Args:
        scratch: memory for the temporaries of rows, by thread; bindings that never run at the same time may share it.
        programs: makes speculation and commit; if not given, rows are lowered one after the other.
        written: of the plan that this one is filled in from, bound to the same storage.
        target: what rows are lowered to.

    Raises:
        EnforceNotMet: an op cannot be prepared for its operands.
    """
    values = BoundValues(plan, arenas, ground.reductions, ground.reads.arrays, ground.reads.objects)
    lowering = ground.lowering(plan, values, scratch, partial(target.lowering, held=ground.reads.held))
    fed_places = _fed_places(plan, values, ground.inputs, ground.unread)
    speculative, commit = (programs or _lowered)(lowering)
    writes = ground.writes(plan, values) if written is None else written.of_other_places(values.place_of)
    is_native = all(program.is_native for program in (*speculative, *commit))
    return Binding(
        plan, ground.replicas, dict(arenas), ground.pool, values, ground.storage(writes, target.storage), fed_places,
        ground.draws, ground.reductions, ground.replicated, lowering, speculative, commit, writes, is_native,
        len(plan.graph.program.lr_schedulers),
    )  # fmt: skip


def _lowered(lowering: RowLowering) -> tuple[Sequence[ThreadProgram], Sequence[ThreadProgram]]:
    plan = lowering.plan
    apart = not plan.memory_options.reuse
    speculative = lowering.programs(plan.rows, with_waits=True, apart=apart)
    return speculative, lowering.programs(plan.commit, with_waits=False, apart=apart)


def _bucket_first(plan: Plan, replicas: Replicas) -> None:
    """Put what one update changes together before anything is bound to it."""
    for node in plan.flats:
        for slot, values in zip(_update_slots(node), node.inputs, strict=True):
            if slot not in ("Grad", "LearningRate") and values and values[0] is not None:
                replicas.bucket(node.place, [v.name for v in values])


def _update_slots(node: Node) -> list[str]:
    return [slot.name for slot in find_op(node.attrs["update"]).inputs]


def _unread(plan: Plan, fed: Collection[tuple[str, int]], served: Collection[tuple[str, int]]) -> list[Value]:
    """What is fed for the scopes alone: variables the graph does not read, devices that take no part (X-19)."""
    program = plan.graph.program
    keys = sorted(key for key in fed if key not in served and key[0] not in program.lr_schedulers)
    block = program.global_block()
    return [Value(name, place, 0, block.var(name).spec, persistable=True) for name, place in keys]


def _fed_places(plan: Plan, values: BoundValues, inputs: Sequence[Value], unread: Sequence[Value]) -> FedPlaces:
    cells = [*(v for v in inputs if v not in plan.refs), *unread]
    loose: dict[tuple[str, int], Cell] = {(v.name, v.place): values.cell(v) for v in cells}
    return FedPlaces({(v.name, v.place): values.array(v) for v in inputs if v in plan.refs}, loose)
