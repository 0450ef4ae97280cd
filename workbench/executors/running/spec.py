"""What an engine runs, and how: two engines of one spec compute the same."""

from __future__ import annotations

from dataclasses import dataclass, replace

from workbench.errors import InvalidArgument
from workbench.executors.execution_strategy import ExecutionStrategy
from workbench.framework.program.program import Program
from workbench.framework.program.remote import runnable
from workbench.framework.values.place import Place
from workbench.graph.loss import has_backward, loss_gradients
from workbench.graph.passes.sync_batch_norm import joins_devices
from workbench.graph.rings import rings_of
from workbench.graph.strategy import BuildStrategy
from workbench.runtime.comm.mpi.rings import RINGS


@dataclass(frozen=True)
class EngineSpec:
    """A program on devices.

    Attributes:
        program: a snapshot of the user's (X-3), which nobody changes any more.
        places: the devices.
        loss_name: of the loss that is trained; None for programs without a backward pass (X-4).
        build, execution: settled when the engine starts.
        data_parallel: the devices train together.
        begins_replicated: trainers have seen to it that they hold the same values; else those of trainer 0 are taken.
    """

    program: Program
    places: tuple[Place, ...]
    loss_name: str | None
    build: BuildStrategy
    execution: ExecutionStrategy
    data_parallel: bool = True
    begins_replicated: bool = False

    def is_separable(self, sync_batch_norm: bool) -> bool:
        """Whether the devices have nothing to do with each other, so that some may stay without a feed (X-30)."""
        if has_backward(self.program) or loss_gradients(self.program) or rings_of(self.program):
            return False
        return not (sync_batch_norm and joins_devices(self.program))

    def require_as_many_devices(self, shared: EngineSpec) -> None:
        """X-5: as the executor has whose variables are shared."""
        mine, theirs = len(self.places), len(shared.places)
        if mine != theirs:
            raise InvalidArgument(
                f"share_vars_from runs on {theirs} devices, this executor on {mine}; each device uses the "
                "variables of one"
            )


def between_trainers(spec: EngineSpec) -> EngineSpec:
    """What runs a program that exchanges values by operators of its own: its rings say who the trainers are (T-30).

    Raises:
        PreconditionNotMet: a ring is not there. InvalidArgument: several devices in one of several processes.
    """
    numbers = rings_of(spec.program)
    if not numbers:
        return spec
    *_, ring = (RINGS.ring(number) for number in numbers)
    if ring.size > 1 and len(spec.places) > 1:
        raise InvalidArgument(
            f"the program was transpiled for {ring.size} processes with a device each, and is run on "
            f"{len(spec.places)} devices of one of them; use one place"
        )
    if ring.size > 1 and not spec.build.is_set("num_trainers"):
        spec.build.num_trainers, spec.build.trainer_id = ring.size, ring.rank
    return replace(spec, data_parallel=False)


def snapshot(program: Program) -> Program:
    """A copy of a program that later changes do not reach, but for learning rates, which the user steps (X-3)."""
    copied = runnable(program).clone()
    copied.lr_schedulers, copied.copied = program.lr_schedulers, program.uid
    return copied
