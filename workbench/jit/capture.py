"""`jit.capture`: a step written for dynamic mode, recorded once and run by the engine from then on."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from workbench.errors import InvalidType, Unimplemented
from workbench.executors.execution_strategy import ExecutionStrategy
from workbench.framework.site import caller
from workbench.framework.values.spec import Spec
from workbench.graph.strategy import BuildStrategy
from workbench.jit.averaging import among_trainers
from workbench.jit.recorded_function import RecordedFunction
from workbench.jit.recorded_step import RecordedStep
from workbench.jit.recorder import CaptureRecorder
from workbench.jit.surroundings import Surroundings
from workbench.jit.values.arguments import Arguments
from workbench.jit.values.captured_tensor import NeedsValue
from workbench.jit.values.integer_reads import only_one_device
from workbench.runtime.devices import cpu_places


class CapturedStep(RecordedFunction):
    """A function whose steps are recorded, see `capture`."""

    def __init__(
        self,
        function: Callable[..., Any],
        devices: int,
        build: BuildStrategy | None,
        execution: ExecutionStrategy | None,
    ) -> None:
        super().__init__(function)
        self._places = tuple(cpu_places(devices))
        self._build, self._execution = build, execution

    def _check(self, given: Arguments) -> None:
        if any(not t.stop_gradient for t in given.tensors):
            raise Unimplemented(
                "an argument of a captured step wants a gradient (stop_gradient=False); pass a detach()ed one, or use "
                f"jit.to_static, whose calls have gradients\n  at {caller()}"
            )

    def _spec(self, spec: Spec, number: int) -> Spec:
        """What one device gets of an argument; rows that are not as many for all are known only in a run."""
        count = len(self._places)
        if count == 1 or not spec.shape:
            return spec
        rows = spec.shape[0] // count if spec.shape[0] % count == 0 else -1
        return spec._replace(shape=(rows, *spec.shape[1:]))

    def _made(
        self, recorder: CaptureRecorder, feeds: Sequence[str], outputs: Any, surroundings: Surroundings
    ) -> RecordedStep:
        if several := only_one_device(recorder.integers, len(self._places)):
            raise NeedsValue(f"{several}\n  at {caller()}")
        build, execution = self._build or BuildStrategy(), self._execution or ExecutionStrategy()
        if recorder.averaging.is_in(recorder.leaf_gradients):
            build = among_trainers(self._build)
        return RecordedStep(
            recorder, recorder.program, feeds, outputs, surroundings, self._draws, self._places, build, execution
        )

    @property
    def device_count(self) -> int:
        """How many devices it runs on."""
        return len(self._places)

    @property
    def _options(self) -> tuple[Any, ...]:
        return len(self._places), self._build, self._execution

    def __repr__(self) -> str:
        return f"CapturedStep({getattr(self, '__name__', self._function)!r}, {len(self._places)} devices)"


def capture(
    function: Callable[..., Any] | None = None,
    devices: int = 1,
    build_strategy: BuildStrategy | None = None,
    exec_strategy: ExecutionStrategy | None = None,
) -> Any:
    """Record a step of dynamic mode - forward, `backward()`, `step()`, `clear_grad()` - and run it as a program.

    The first call records what the function does to tensors; this one and all later ones run it on the engine that runs
    static programs, with the bits these have. Parameters, buffers and states of optimizers stay the tensors they are:
    they can be read and written between calls. It is recorded anew, with a notice, when shapes, dtypes, `train()` and
    `eval()`, or something else that the function reads from outside have changed.

    The function must be one that can be recorded: values it computes and looks at with Python, changes it makes outside
    of tensors, and numbers drawn by Python are refused, with the line. Values of tensors from outside that it looks at
    with Python (`if flag:`, `float(scale)`) are as what it reads else: for others it is recorded anew; those that it
    changes itself are refused. An integer that it computes and uses as a size, an axis or an index (`x.expand([n, 3])`)
    is computed in front of every run; for another one it is recorded anew. Learning-rate schedules are stepped outside.

    Not all that Python reads can be watched. So in front of calls 2, 4, 8 and so on the function is recorded anew,
    which computes nothing and prints nothing, and the two are compared: what is another thing in every call is refused,
    what has changed otherwise is followed, with a notice. What the function writes to files or logs it writes then too.

    In a step through a `DataParallel` model, which every process captures, the gradients of all processes are averaged
    within the program, and the processes vote: all of them apply the step, or none does.

    Args:
        function: takes tensors, arrays and plain values, in lists, tuples and dicts, too; returns such.
        devices: CPU devices the batch is split over, as by `ParallelExecutor`; results of all are joined on dimension
            0, a loss of `[]` becomes `[devices]`.
        build_strategy, exec_strategy: as of `ParallelExecutor`.

    Returns:
        a `CapturedStep`; without a function, a decorator.

    Raises:
        NeedsValue: something cannot be recorded; naming the line. InvalidType: no function.

    Example:
        >>> w = wb.create_parameter([2], "float32", default_initializer=wb.nn.initializer.Constant(1.0))
        >>> optimizer = wb.optimizer.SGD(0.5, parameters=[w])
        >>> @wb.jit.capture
        ... def train_step(x):
        ...     loss = (w * x).sum()
        ...     loss.backward()
        ...     optimizer.step()
        ...     optimizer.clear_grad()
        ...     return loss
        >>> float(train_step(wb.to_tensor([1.0, 2.0]))), float(train_step(wb.to_tensor([1.0, 2.0])))
        (3.0, 0.5)
        >>> train_step.captures
        1
    """
    if function is None:
        return functools.partial(capture, devices=devices, build_strategy=build_strategy, exec_strategy=exec_strategy)
    if not callable(function):
        raise InvalidType(f"jit.capture takes a function, got {function!r}")
    return CapturedStep(function, devices, build_strategy, exec_strategy)
