"""`jit.capture`: a step written for dynamic mode, recorded once and run by the engine from then on."""

from __future__ import annotations

import functools
import inspect
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.dygraph.tensor.tensor import Tensor
from workbench.errors import InvalidArgument, InvalidType, PreconditionNotMet, Unimplemented
from workbench.executors.execution_strategy import ExecutionStrategy
from workbench.framework.gradmode import recording_gradients
from workbench.framework.notice import tell
from workbench.framework.op.recorder import current_recorder
from workbench.framework.program.guard import in_static_mode
from workbench.framework.program.program import Program
from workbench.framework.site import Site, caller
from workbench.framework.values.spec import Spec
from workbench.graph.strategy import BuildStrategy
from workbench.jit.arguments import Arguments
from workbench.jit.captured_tensor import NeedsValue
from workbench.jit.recorded_step import RecordedStep
from workbench.jit.recorder import CaptureRecorder
from workbench.jit.surroundings import Surroundings
from workbench.runtime.devices import cpu_places
from workbench.runtime.tensor import LoDTensor

_KEPT = 32  # recordings of one function
_MANY = 8  # recordings for one reason, beyond which somebody should know


class CapturedStep:
    """A function whose steps are recorded, see `capture`.

    Attributes:
        captures: how often it was recorded so far.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        devices: int,
        build: BuildStrategy | None,
        execution: ExecutionStrategy | None,
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self._function, self._places = function, tuple(cpu_places(devices))
        self._build, self._execution = build, execution
        self._parameters = _positional(function)
        self._steps: dict[Any, list[RecordedStep]] = {}
        self._newest: RecordedStep | None = None
        self._draws = LoDTensor(np.zeros(1, np.int64))
        self._leaves: dict[int, Tensor] = {}
        self.captures = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        step = self._newest
        if step is not None and not kwargs and step.is_alike(args):
            return step.run(args)
        if isinstance(current_recorder(), CaptureRecorder):
            return self._function(*args, **kwargs)  # part of what is recorded around it
        return self._call(Arguments(args, kwargs, self._parameters))

    def _call(self, given: Arguments) -> Any:
        known = self._steps.setdefault((recording_gradients.get(), given.key), [])
        step = next((each for each in known if each.fits()), None)
        if step is None:
            step = self._record(given, known)
            known.insert(0, step)
            del known[_KEPT:]
            if not step.fits():
                raise NeedsValue(f"the function changes what it was recorded with: {step.reason()}")
        self._newest = step
        results = step.run(given.tensors)
        if given.is_plain:
            step.settle(given.args)
        return results

    def _record(self, given: Arguments, others: list[RecordedStep]) -> RecordedStep:
        if in_static_mode():
            raise PreconditionNotMet("a captured step is one of dynamic mode; call disable_static() first")
        if any(not t.stop_gradient for t in given.tensors):
            raise Unimplemented(
                "an argument of a captured step wants a gradient (stop_gradient=False); pass a detach()ed one, or use "
                f"jit.to_static, whose calls have gradients\n  at {caller()}"
            )
        self._tell(others)
        known = dict(zip(self._parameters, given.args, strict=False))
        known.update(given.kwargs)
        surroundings = Surroundings(self._function, {n: v for n, v in known.items() if not isinstance(v, Tensor)})
        recorder = CaptureRecorder(getattr(self._function, "__name__", "step"), list(self._leaves.values()))
        randoms = _random_states()
        with recorder.running():
            made = [
                recorder.argument(name, self._part(t.kind.spec), t.stop_gradient)
                for name, t in zip(given.names, given.tensors, strict=True)
            ]
            args, kwargs = given.replaced(made)
            outputs = self._function(*args, **kwargs)
            recorder.gradients.keep()
        self._require_pure(surroundings, randoms)
        self._leaves.update((id(each.tensor), each.tensor) for each in recorder.gradients.found.values())
        self.captures += 1
        feeds = [argument.name for argument in made]
        build, execution = self._build or BuildStrategy(), self._execution or ExecutionStrategy()
        return RecordedStep(recorder, feeds, outputs, surroundings, self._places, build, execution, self._draws)

    def _part(self, spec: Spec) -> Spec:
        """What one device gets of an argument; rows that are not as many for all are known only in a run."""
        count = len(self._places)
        if count == 1 or not spec.shape:
            return spec
        rows = spec.shape[0] // count if spec.shape[0] % count == 0 else -1
        return spec._replace(shape=(rows, *spec.shape[1:]))

    def _tell(self, others: list[RecordedStep]) -> None:
        """A notice that something is recorded once more, and why."""
        if not self.captures:
            return
        reason = "it is called with other shapes, dtypes or values that are no tensors"
        if others:
            reason = others[0].reason()
        tell(f"{getattr(self, '__name__', 'the step')} is recorded again ({self.captures + 1} times so far): {reason}")

    def _require_pure(self, surroundings: Surroundings, randoms: Any) -> None:
        """The function does nothing that a run of what was recorded would not do.

        Raises:
            NeedsValue: it changed something outside, or drew random numbers outside of tensors.
        """
        for change in surroundings.changes():
            site = surroundings.site_of_change(change.name) or _site_of(self._function)
            raise NeedsValue(
                f"the function changes {change.name}, which only Python does: a run of what is recorded would not\n"
                f"  keep it in a tensor, return what it follows from, or change it outside of the function\n  at {site}"
            )
        if _random_states() != randoms:
            raise NeedsValue(
                "the function draws random numbers outside of tensors (random, numpy.random), which would be the same "
                "in every run of what is recorded\n  draw them with paddle.rand and the like, or pass them as arguments"
                f"\n  at {_site_of(self._function)}"
            )

    # Looking in

    @property
    def main_program(self) -> Program:
        """The program that was recorded last.

        Raises:
            PreconditionNotMet: nothing was recorded yet.
        """
        return self.recorded.program

    @property
    def recorded(self) -> RecordedStep:
        """What ran last: its `graph()`, `plan()`, `stepper()`.

        Raises:
            PreconditionNotMet: nothing was recorded yet.
        """
        if self._newest is None:
            raise PreconditionNotMet("nothing was recorded yet; call the function once")
        return self._newest

    @property
    def device_count(self) -> int:
        """How many devices it runs on."""
        return len(self._places)

    def __repr__(self) -> str:
        return f"CapturedStep({getattr(self, '__name__', self._function)!r}, {len(self._places)} devices)"

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        name = f"_captured_{id(self)}"
        found = vars(instance).get(name)
        if found is None:
            method = self._function.__get__(instance, owner)
            found = CapturedStep(method, len(self._places), self._build, self._execution)
            vars(instance)[name] = found
        return found


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

    The function must be one that can be recorded: values it looks at with Python, changes it makes outside of
    tensors, and numbers drawn by Python are refused, with the line. Learning-rate schedules are stepped outside.

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


def _positional(function: Callable[..., Any]) -> tuple[str, ...]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()
    return tuple(p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))


def _random_states() -> tuple[Any, Any]:
    state: Any = np.random.get_state(legacy=False)
    words = state["state"]
    return random.getstate(), (words["key"].tobytes(), words["pos"], state["has_gauss"], state["gauss"])


def _site_of(function: Callable[..., Any]) -> Site:
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    return Site(code.co_filename, code.co_firstlineno) if code is not None else caller()


__all__ = ["CapturedStep", "InvalidArgument", "capture"]
