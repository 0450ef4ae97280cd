"""A plan bound to memory: every operand an array, every row a few calls (design: plan, binding, storage)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.executors.lowering.bound_values import BoundValues
from workbench.executors.lowering.draws import Draws
from workbench.executors.lowering.fed_places import FedPlaces
from workbench.executors.lowering.numpy.fused_all_reduce_update import FusedReductions, fused_reductions
from workbench.executors.lowering.operands import Cell, Context, Scratch
from workbench.executors.lowering.programs import RowLowering
from workbench.executors.lowering.scope_values import ScopeReads, ScopeWrites, Storage
from workbench.executors.lowering.thread_program import ThreadProgram
from workbench.executors.planning.plan import Plan
from workbench.executors.reference.calls import Call as OpCall
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
    storage: Storage
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
        if self.pool.control is None or not self.plan.memory_options.reuse:
            return self.speculative
        return self.lowering.programs(self.plan.rows, with_waits=True, apart=True)

    def reset(self) -> None:
        """After a step that failed: no thread is at it, no flag up, no object kept."""
        if not self.pool.lost:
            self.pool.settle()
        for flag in self.lowering.flags:
            flag.lower()
        for program in self.speculative:
            program.rewind()
        self.values.forget()


def bind(
    plan: Plan,
    replicas: Replicas,
    arenas: Mapping[int, DeviceMemory],
    comm: Communicator,
    pool: WorkerPool,
    fed: frozenset[tuple[str, int]],
    weights: Sequence[float],
    blocks: dict[int, list[OpCall]],
    scratch: dict[int, Scratch],
) -> Binding:
    """The binding of a plan.

    Args:
        fed: persistable values that are given with the feed instead of read from the scope, as (name, device).
        weights: coefficients of the loss gradients under WeightedBySamples.
        scratch: memory for the temporaries of rows, by thread; bindings that never run at the same time may share it.

    Raises:
        PreconditionNotMet: a variable has no value. InvalidArgument, InvalidType: it is not what the program declares.
        EnforceNotMet: an op cannot be prepared for its operands.
    """
    _bucket_first(plan, replicas)
    replicated = ReplicatedValues(plan, replicas.find, in_kernels=pool.control is not None)
    reductions = fused_reductions(plan, replicated.shards if comm.computes_here else {})
    given = [v for v in plan.feeds if v.persistable and (v.name, v.place) in fed]
    reads = ScopeReads(plan, replicas, frozenset(given))
    values = BoundValues(plan, arenas, reductions, reads.arrays, reads.objects)
    inputs = [*(v for v in plan.feeds if not v.persistable), *given]
    unread = _unread(plan, fed, {(v.name, v.place) for v in inputs})
    draws = Draws(plan.graph.program, plan.graph.devices, blocks)
    context = Context(
        values.array, values.cell, values.flat, replicas.bucket, draws.extras, comm, weights, plan.flats.get,
        replicated.shards.get, lambda node: node in reductions.collectives or node in reductions.updates, draws.stream,
    )  # fmt: skip
    lowering = RowLowering(plan, pool, context, values, reductions, replicated.diverge, scratch)
    apart = not plan.memory_options.reuse
    fed_places = _fed_places(plan, values, inputs, unread)
    speculative = lowering.programs(plan.rows, with_waits=True, apart=apart)
    commit = lowering.programs(plan.commit, with_waits=False, apart=apart)
    writes = ScopeWrites(plan, replicas, [*given, *unread], replicated, values.place_of)
    storage = Storage(replicas, replicated, reads, writes)
    is_native = all(program.is_native for program in (*speculative, *commit))
    return Binding(
        plan, replicas, dict(arenas), pool, values, storage, fed_places, draws, reductions, replicated, lowering,
        speculative, commit, writes, is_native, len(plan.graph.program.lr_schedulers),
    )  # fmt: skip


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
