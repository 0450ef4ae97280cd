"""What an engine runs, and how: two engines of one spec compute the same."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.executors.execution_strategy import ExecutionStrategy
from workbench.framework.program.program import Program
from workbench.framework.program.remote import runnable
from workbench.framework.values.place import Place
from workbench.graph.strategy import BuildStrategy


@dataclass(frozen=True)
class EngineSpec:
    """A program on devices.

    Attributes:
        program: a snapshot of the user's (X-3), which nobody changes any more.
        places: the devices.
        loss_name: of the loss that is trained; None for programs without a backward pass (X-4).
        build, execution: settled when the engine starts.
        data_parallel: the devices train together.
    """

    program: Program
    places: tuple[Place, ...]
    loss_name: str | None
    build: BuildStrategy
    execution: ExecutionStrategy
    data_parallel: bool = True


def snapshot(program: Program) -> Program:
    """A copy of a program that later changes do not reach, but for learning rates, which the user steps (X-3)."""
    copied = runnable(program).clone()
    copied.lr_schedulers, copied.copied = program.lr_schedulers, program.uid
    return copied
