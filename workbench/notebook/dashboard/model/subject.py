"""What a dashboard is about: an executor, a program or a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench.errors import InvalidArgument, InvalidType, described
from workbench.executors.api.compiled import CompiledProgram
from workbench.executors.api.executor import Executor
from workbench.executors.api.parallel import ParallelExecutor
from workbench.experiments.run import Run
from workbench.experiments.runners import Inspectable, executor_of
from workbench.framework.program.program import Program
from workbench.jit.recorded_function import RecordedFunction, recording_of
from workbench.jit.recorded_step import RecordedStep
from workbench.jit.values.objects import is_layer
from workbench.layers.layer import Layer

Target = ParallelExecutor | CompiledProgram | Program | Run | RecordedFunction | Layer


@dataclass(frozen=True)
class Subject:
    """A target, taken apart.

    Attributes:
        kind: "executor", "program", "run", "layer" or "recorded"; name: what it is called.
        executor: that runs it, None where there is none yet.
        trained: what `train` is given to train it: a program or a layer; None if that is not known.
    """

    kind: str
    name: str
    program: Program | None
    executor: Inspectable | None = None
    run: Run | None = None
    trained: Any = None

    @property
    def is_recorded(self) -> bool:
        """Whether its steps were recorded of functions in Python, so that it takes these to make others."""
        return isinstance(self.executor, RecordedStep)

    @staticmethod
    def of(target: Any, names: Mapping[str, Any]) -> Subject:
        """Of a ParallelExecutor, a CompiledProgram, a Program, a Run, a recorded function, or a layer that one used.

        Args:
            names: what the user's names stand for.

        Raises:
            InvalidType: something else.
        """
        own = next((name for name, value in names.items() if value is target), None)
        if isinstance(target, Run):
            executor = executor_of(target.executor)
            program = target.program if executor is None else executor.inspection.program
            if program is None:
                raise InvalidArgument(
                    f"there is no program to show of run {target.name!r}: it was not started by train, or its steps "
                    "could not be recorded"
                )
            return Subject("run", target.name, program, executor, target)
        if isinstance(target, Program):
            return Subject("program", target.name or own or "program", target, trained=target)
        if isinstance(target, ParallelExecutor | CompiledProgram):
            ran = target.inspection.program
            return Subject("executor", own or ran.name or "program", ran, target)
        if isinstance(target, RecordedFunction) or is_layer(target):
            step = recording_of(target)
            trained = target if is_layer(target) else None
            kind = "recorded" if trained is None else "layer"
            return Subject(kind, own or step.program.name, step.inspection.program, step, trained=trained)
        hint = f"; it runs many programs: {own or 'executor'}.compiled(program)" if isinstance(target, Executor) else ""
        raise InvalidType(
            "dashboard takes a ParallelExecutor, a CompiledProgram, a Program or a Run, "
            f"got {'an Executor' if hint else described(target)}{hint}"
        )
