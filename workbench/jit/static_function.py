"""`jit.to_static`: functions and layers of dynamic mode that run as programs, with gradients."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.builders.input_spec import InputSpec
from workbench.dygraph.tensor.tensor import Tensor
from workbench.errors import InvalidArgument, InvalidType, PreconditionNotMet, Unimplemented
from workbench.framework.gradmode import recording_gradients
from workbench.framework.notice import tell
from workbench.framework.site import caller
from workbench.framework.values.spec import Spec
from workbench.jit.branches.printing import printed_once
from workbench.jit.branches.rewriting import Unfit
from workbench.jit.branches.translation import Translation
from workbench.jit.recorded_forward import ConcreteProgram, RecordedForward
from workbench.jit.recorded_function import RecordedFunction
from workbench.jit.recorded_step import RecordedStep
from workbench.jit.recorder import CaptureRecorder
from workbench.jit.surroundings import Surroundings
from workbench.jit.values.arguments import Arguments, leaves, mapped
from workbench.jit.values.captured_tensor import BranchOnValue, CapturedTensor, NeedsValue
from workbench.jit.values.objects import is_layer

_switch = {"is_on": True}


class StaticFunction(RecordedFunction):
    """A function that runs as a program, see `to_static`.

    Attributes:
        dygraph_function: the function as it was written.
    """

    _advice = "give to_static an input_spec with None for the dimensions that differ"

    def __init__(self, function: Callable[..., Any], input_spec: Any = None) -> None:
        super().__init__(function)
        self.dygraph_function = function
        self._translation = Translation()
        self._specs = None if input_spec is None else list(leaves(input_spec))
        for spec in self._specs or ():
            if not isinstance(spec, InputSpec | Tensor | int | float | str | bool | None):
                raise InvalidType(f"input_spec holds InputSpecs, got {spec!r}")
        self._last: tuple[Any, ...] | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not _switch["is_on"]:
            return self._function(*args, **kwargs)
        return super().__call__(*args, **kwargs)

    @property
    def has_specification(self) -> bool:
        """Whether an input_spec was given."""
        return self._specs is not None

    @property
    def last_arguments(self) -> tuple[Any, ...]:
        """What stands for the arguments of the latest call.

        Raises:
            PreconditionNotMet: there was none.
        """
        if self._last is None:
            raise PreconditionNotMet("what inputs are like is not known: pass input_spec, or call it once before")
        return self._last

    def _tensor_specs(self) -> list[InputSpec]:
        return [
            InputSpec.from_tensor(s) if isinstance(s, Tensor) else s
            for s in self._specs or ()
            if isinstance(s, InputSpec | Tensor)
        ]

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        given = super()._arguments(args, kwargs)
        self._last = tuple(mapped(given.args, _specification))
        specs = self._tensor_specs()
        if not specs:
            return given
        if len(given.tensors) != len(specs):
            raise InvalidArgument(
                f"{self._function.__name__} takes {len(specs)} tensors by its input_spec, got {len(given.tensors)}"
            )
        for number, (tensor, spec) in enumerate(zip(given.tensors, specs, strict=True)):
            if not spec.takes(tensor.kind.spec):
                raise InvalidArgument(
                    f"argument {given.names[number]!r} of {self._function.__name__} is not what its input_spec says\n"
                    f"  expected: {spec.text}\n  got:      {tensor.kind.spec}"
                )
            given.names[number] = spec.name or given.names[number]
        given.key = (given.structure, tuple(t.stop_gradient for t in given.tensors))
        return given

    def _spec(self, spec: Spec, number: int) -> Spec:
        specs = self._tensor_specs()
        return specs[number].spec if specs else spec

    def _attempt(self, given: Arguments, surroundings: Surroundings) -> tuple[CaptureRecorder, list[str], Any]:
        """As it is written; where a branch asks for the value of a tensor, once more with that branch rewritten."""
        while True:
            try:
                with self._translation.in_effect(), printed_once():
                    return super()._attempt(given, surroundings)
            except BranchOnValue as refused:
                self._extend(refused, surroundings)
            except UnboundLocalError as error:
                self._tell_unassigned(error)
                raise

    def _extend(self, refused: BranchOnValue, surroundings: Surroundings) -> None:
        try:
            self._translation.extend(refused, surroundings.functions)
        except Unfit as reason:
            raise NeedsValue(f"{refused}\n  it is not turned into one of them by itself: {reason}") from None

    def _tell_unassigned(self, error: UnboundLocalError) -> None:
        if self._translation.is_used:
            error.add_note(
                "What is assigned on one side alone of a branch that follows values of tensors, or first in such a "
                "loop, is not there behind it; assign it before."
            )

    def _made(
        self, recorder: CaptureRecorder, feeds: Sequence[str], outputs: Any, surroundings: Surroundings
    ) -> RecordedForward:
        if recorder.averaging:
            raise Unimplemented(
                "a DataParallel model of several processes cannot be part of what jit.to_static runs: its gradients "
                "would stay in this process\n  call to_static on the model within (DataParallel(to_static(model))), or "
                f"capture the whole step with jit.capture\n  at {caller()}"
            )
        block = recorder.program.global_block()
        inputs = [block.var(name) for name in feeds]
        results = [leaf.variable for leaf in leaves(outputs) if isinstance(leaf, CapturedTensor)]
        program = recorder.program.clone()
        own = program.global_block()
        concrete = ConcreteProgram(
            [own.var(v.name) for v in inputs], [own.var(v.name) for v in results], program, recorder.startup,
            own.all_parameters(), self._function, {each.variable.name: each.tensor for each in recorder.bindings},
        )  # fmt: skip
        wants = recording_gradients.get()
        return RecordedForward(recorder, inputs, outputs, surroundings, self._draws, wants, concrete)

    def _tell(self, given: Arguments, others: Sequence[RecordedStep]) -> None:
        """Only of values that were read: one recording per signature and mode is expected; `captures` counts them."""
        if others and (others[0].reads_others() or others[0].follows_values):
            super()._tell(given, others)

    # Looking in

    @property
    def concrete_program(self) -> ConcreteProgram:
        """What ran last; without a call, what the input_spec says.

        Raises:
            PreconditionNotMet: there was neither.
        """
        if self._newest is None:
            return self.get_concrete_program()[0]
        step: Any = self.recorded
        return step.concrete

    def get_concrete_program(self, *args: Any, **kwargs: Any) -> tuple[ConcreteProgram, RecordedForward]:
        """What is run for these arguments (tensors, or InputSpecs), recorded now if it was not yet.

        Raises:
            PreconditionNotMet: no arguments, and no input_spec.
        """
        if not args and not kwargs:
            if self._specs is None:
                raise PreconditionNotMet(
                    "what arguments are like is not known yet: give to_static an input_spec, or call the function once"
                )
            args = tuple(self._specs)
        step: Any = self._step(self._arguments(tuple(map(_stand_in, args)), kwargs))
        return step.concrete, step

    @property
    def program_cache(self) -> dict[int, ConcreteProgram]:
        """All that was recorded, and is kept."""
        return {id(step): step.concrete for step in self._steps if isinstance(step, RecordedForward)}

    @property
    def code(self) -> str:
        """The function as it was written."""
        return inspect.getsource(self._function)

    def rollback(self) -> Callable[..., Any]:
        """The function as it was written; where it is `forward` of a layer, the layer has it back."""
        owner = getattr(self._function, "__self__", None)
        if is_layer(owner) and vars(owner).get("forward") is self:
            del vars(owner)["forward"]
        return self._function

    @property
    def _options(self) -> tuple[Any, ...]:
        return (self._specs,)

    def __repr__(self) -> str:
        return f"StaticFunction({getattr(self, '__name__', self._function)!r})"


def _specification(value: Any) -> Any:
    """What a tensor is like, without its value."""
    return InputSpec(value.shape, value.dtype) if isinstance(value, Tensor) else value


def _stand_in(value: Any) -> Any:
    """A tensor like a specification, with dimensions of 1 where they are not known."""
    if not isinstance(value, InputSpec):
        return value
    return Tensor(np.zeros([max(d, 1) for d in value.shape], value.dtype.numpy), stop_gradient=True)


def to_static(
    function: Any = None,
    input_spec: Any = None,
    build_strategy: Any = None,
    backend: str | None = None,
    **kwargs: Any,
) -> Any:
    """Run a function or a layer as a program: recorded when it is called, and for every other signature once more.

    Gradients pass through its calls. An `if`, a `while` or an `a if b else c` that follows the value of a tensor is
    recorded as `static.nn.cond` or `static.nn.while_loop`, where the source is at hand and both sides only assign
    variables, or return; behind it a variable has tensors and numbers of one dtype and rank from either side. What
    else follows values is refused, with its line and the reason. Values of tensors from outside that Python looks at
    are part of what is recorded: for others it is recorded once more.

    When such a branch is first met, what the function has done so far is done once more, with the branch rewritten.
    What it prints appears once, unless it is flushed; what Python does besides, to files or logs, happens again, so
    keep it outside.

    Args:
        function: a function, method, or layer (whose `forward` it is then); None gives a decorator.
        input_spec: an `InputSpec` per tensor, where one recording serves for several sizes.
        build_strategy, backend: of Paddle's, without effect here; a notice says so.
        kwargs: `full_graph` and `property` of Paddle's, the same.

    Returns:
        a `StaticFunction`; of a layer, the layer.

    Raises:
        InvalidType: nothing that can be called. NeedsValue: something cannot be recorded. TypeError: other keywords.

    Example:
        >>> @wb.jit.to_static
        ... def squared(x):
        ...     return (x * x).sum()
        >>> x = wb.to_tensor([1.0, 3.0], stop_gradient=False)
        >>> squared(x).backward()
        >>> x.grad.tolist()
        [2.0, 6.0]
    """
    _tell_of(kwargs, build_strategy=build_strategy, backend=backend)
    if function is None:
        return lambda function: to_static(function, input_spec)
    if isinstance(function, StaticFunction):
        return function
    if is_layer(function):
        function.forward = StaticFunction(_written(function.forward), input_spec)
        return function
    if not callable(function):
        raise InvalidType(f"jit.to_static takes a function or a layer, got {function!r}")
    return StaticFunction(function, input_spec)


def _tell_of(others: dict[str, Any], **given: Any) -> None:
    """Say what has no effect.

    Raises:
        TypeError: a keyword that Paddle does not know either.
    """
    unknown = sorted(others.keys() - {"full_graph", "property"})
    if unknown:
        raise TypeError(f"jit.to_static() got an unexpected keyword argument {unknown[0]!r}")
    idle = [name for name, value in {**given, **others}.items() if value not in (None, False)]
    if idle:
        tell(f"jit.to_static: {', '.join(idle)} without effect here; jit.capture takes a build_strategy")


def _written(forward: Any) -> Any:
    return forward.dygraph_function if isinstance(forward, StaticFunction) else forward


def not_to_static(func: Any = None) -> Any:
    """Mark a function that is called by others as it is written; all are, but for branches on values of tensors.

    Example:
        >>> @wb.jit.not_to_static
        ... def double(x):
        ...     return x * 2
    """
    return (lambda func: func) if func is None else func


def ignore_module(modules: Sequence[Any]) -> None:
    """Name modules whose code is not to be translated; that of installed ones never is, so nothing changes.

    Raises:
        InvalidType: no list of modules.

    Example:
        >>> import math
        >>> wb.jit.ignore_module([math])
    """
    if not isinstance(modules, list | tuple):
        raise InvalidType(f"ignore_module takes a list of modules, got {modules!r}")


def set_code_level(level: int = 100, also_to_stdout: bool = False) -> None:
    """Paddle's choice of which transformed code to log; a notice says that none is logged here.

    Raises:
        InvalidType: no int.

    Example:
        >>> wb.jit.set_code_level(2)
    """
    _require_int("set_code_level", level)
    tell("jit.set_code_level is without effect: functions are recorded while they run")


def set_verbosity(level: int = 0, also_to_stdout: bool = False) -> None:
    """Paddle's choice of how much to log of transforming code; a notice says that nothing is logged here.

    Raises:
        InvalidType: no int.

    Example:
        >>> wb.jit.set_verbosity(1)
    """
    _require_int("set_verbosity", level)
    tell("jit.set_verbosity is without effect: functions are recorded while they run")


def _require_int(what: str, level: Any) -> None:
    if not isinstance(level, int) or isinstance(level, bool):
        raise InvalidType(f"{what} takes an int as level, got {level!r}")


def enable_to_static(enable_to_static_bool: bool) -> None:
    """Have functions of `to_static` run as programs (True, as they do at first), or as they are written.

    Raises:
        InvalidType: no bool.

    Example:
        >>> wb.jit.enable_to_static(False)
        >>> wb.jit.enable_to_static(True)
    """
    if not isinstance(enable_to_static_bool, bool):
        raise InvalidType(f"enable_to_static takes a bool, got {enable_to_static_bool!r}")
    _switch["is_on"] = enable_to_static_bool
