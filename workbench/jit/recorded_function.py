"""RecordedFunction: a function whose calls run what was recorded of it; `capture` and `to_static` make such."""

from __future__ import annotations

import copy
import functools
import inspect
import random
import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from contextlib import nullcontext
from itertools import chain
from operator import is_
from typing import Any, Self
from weakref import WeakSet

import numpy as np

from workbench.errors import PreconditionNotMet
from workbench.framework import names
from workbench.framework.gradmode import recording_gradients
from workbench.framework.notice import tell
from workbench.framework.op.recorder import current_recorder, recording
from workbench.framework.program.guard import in_static_mode
from workbench.framework.program.program import Program
from workbench.framework.site import Site, caller
from workbench.framework.values.random import count_steps_of, first_step
from workbench.framework.values.spec import Spec
from workbench.jit.branches.printing import printed_never
from workbench.jit.recorded_step import RecordedStep
from workbench.jit.recorder import CaptureRecorder
from workbench.jit.recordings import Recordings
from workbench.jit.sameness import Recorded
from workbench.jit.surroundings import Surroundings
from workbench.jit.values.arguments import Arguments, containers, entries
from workbench.jit.values.captured_tensor import NeedsValue
from workbench.precision.auto_cast import AutoCastRecorder
from workbench.precision.policy import Policy
from workbench.runtime.storage.tensor import LoDTensor

_functions: WeakSet[RecordedFunction] = WeakSet()


class RecordedFunction:
    """A function that is recorded when it is called, and again when something it was recorded with has changed.

    Attributes:
        captures: how often it was recorded so far.
    """

    _advice = "give it tensors of one shape and dtype where you can: pad the last batch, or leave it out"

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function, updated=())
        self._function = function
        self._parameters = _positional(function)
        self._name = getattr(function, "__name__", "the step")
        self._steps = Recordings(self._advice)
        self._bound_name = f"_recorded_{id(self)}"
        self._newest: RecordedStep | None = None
        self._draws = LoDTensor(np.zeros(1, np.int64))
        self._has_series = False
        self.captures = 0
        _functions.add(self)
        count_steps_of(self)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        step = self._newest
        if step is not None and not kwargs:
            fed = step.feed_if_unchanged(args)
            if fed is not None:
                return step.run_fed(fed, args)
        if not current_recorder().is_eager and not in_static_mode():
            return self._function(*args, **kwargs)  # part of what is recorded around it
        return self._call(self._arguments(args, kwargs))

    # What `capture` and `to_static` do in their own ways

    def _arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        return Arguments(args, kwargs, self._parameters)

    def _spec(self, spec: Spec, number: int) -> Spec:
        """What the program takes in the place of a tensor."""
        return spec

    def _check(self, given: Arguments) -> None:
        """Refuse arguments a recording cannot take."""

    def _made(
        self, recorder: CaptureRecorder, feeds: Sequence[str], outputs: Any, surroundings: Surroundings
    ) -> RecordedStep:
        """What was recorded, ready to be run."""
        raise NotImplementedError

    # Recording

    def prepare(self, *args: Any, **kwargs: Any) -> RecordedStep:
        """What a call with such arguments runs, recorded if it has to be; nothing is run.

        Raises:
            NeedsValue: it cannot be recorded, naming the line. EnforceNotMet: as the function itself.
        """
        return self._step(self._arguments(args, kwargs))

    def _call(self, given: Arguments) -> Any:
        step = self._step(given)
        if step.is_due:
            step = self._checked(step, given)
        results = step.run(given.tensors)
        if given.is_plain:
            step.settle(given.args)
        return results

    def _step(self, given: Arguments) -> RecordedStep:
        """What is run for such arguments, recorded if it has to be."""
        known = self._steps.of(self._kind(given))
        step = next((each for each in known if each.fits() and each.computes_same(given.tensors)), None)
        if step is None:
            self._tell(given, known)
            step = self._record(given)
        if step.program.rng_step and not self._has_series:
            self.draw_from(first_step())
        if step is not self._newest:
            step.follow_draws()  # others have drawn since it ran
        self._newest = step
        return step

    def _kind(self, given: Arguments) -> Hashable:
        """Equal for calls that can use one recording."""
        return recording_gradients.get(), _precision(), given.key

    def _record(self, given: Arguments) -> RecordedStep:
        if in_static_mode():
            raise PreconditionNotMet(
                f"what is recorded is a function of dynamic mode; call disable_static() first\n  at {caller()}"
            )
        self._check(given)
        surroundings = Surroundings(self._function, given.others())
        randoms = _random_states()
        recorder, feeds, outputs = self._attempt(given, surroundings)
        try:
            self._require_pure(surroundings, randoms)
            step = self._fitting(recorder, feeds, outputs, surroundings)
        except BaseException:
            deque(recorder.reads.putting_back, 0)
            raise
        self._steps.keep(self._name, self._kind(given), step, given)
        return step

    def _fitting(
        self, recorder: CaptureRecorder, feeds: list[str], outputs: Any, surroundings: Surroundings
    ) -> RecordedStep:
        """The step that was recorded.

        Raises:
            NeedsValue: what it was recorded with is another thing behind the function.
        """
        surroundings.note_clocks(recorder.sources.clocks)
        surroundings.note_caches()
        surroundings.note_grads(recorder.reads.grads_seen.values(), recorder.leaf_gradients.by_tensor)
        self.captures += 1
        step = self._made(recorder, feeds, outputs, surroundings)
        if not step.fits():
            raise NeedsValue(f"the function changes what it was recorded with: {step.reason()}")
        return step

    def _checked(self, step: RecordedStep, given: Arguments) -> RecordedStep:
        """What is run for such arguments, after a look at whether the function still does what was recorded of it.

        Raises:
            NeedsValue: it does something else whenever it is called.
        """
        unchecked = step.note_check()
        now = self._said_now(step, given)
        difference = step.said.difference(now)
        if difference is None:
            return step
        self._steps.drop(step)
        self._newest = None
        if now.difference(self._said_now(step, given)) is not None:
            raise NeedsValue(
                f"the function does something else whenever it is recorded: {difference}\n  every run of what is "
                "recorded would go on with what Python had computed then; pass that as an argument"
            )
        tell(
            f"{self._name} is recorded again ({self.captures + 1} times so far): something has changed that it reads "
            f"and that cannot be watched: {difference}\n  the {unchecked} runs before this one may still have been "
            "those of before; pass it as an argument, or read it by name"
        )
        self._record(given)
        return self._step(given)

    def _said_now(self, step: RecordedStep, given: Arguments) -> Recorded:
        """What would be recorded of the function now; nothing is made of it."""
        with names.guard(), printed_never():
            recorder, feeds, outputs = self._attempt(given, step.surroundings)
        deque(recorder.reads.putting_back, 0)
        return recorder.said(feeds, outputs)

    def _attempt(self, given: Arguments, surroundings: Surroundings) -> tuple[CaptureRecorder, list[str], Any]:
        """What was recorded, the names of its arguments and what the function returns."""
        leaves = {id(leaf): leaf for step in self._steps for leaf in step.leaves}
        recorder = CaptureRecorder(getattr(self._function, "__name__", "step"), list(leaves.values()))
        try:
            feeds, outputs = self._followed(recorder, given)
        except BaseException:  # one call each, so that no Ctrl-C leaves placeholders in `grad`
            deque(chain(recorder.bindings.putting_back, recorder.reads.putting_back), 0)
            raise
        deque(recorder.leaf_gradients.putting_back, 0)
        return recorder, feeds, outputs

    def _followed(self, recorder: CaptureRecorder, given: Arguments) -> tuple[list[str], Any]:
        """Run the function while it is recorded; the names of its arguments and what it returns."""
        policy = _precision()
        with recorder.running(), recording(AutoCastRecorder(recorder, policy)) if policy else nullcontext():
            arguments = [
                recorder.argument(name, self._spec(t.kind.spec, number), t)
                for number, (name, t) in enumerate(zip(given.names, given.tensors, strict=True))
            ]
            args, kwargs = given.replaced(arguments)
            before = list(containers([*args, *kwargs.values()]))
            outputs = self._function(*args, **kwargs)
            self._require_kept(before)
            if recorder.refused:  # and the function has gone on without it
                raise recorder.refused[0]
            recorder.restore_own()
            recorder.leaf_gradients.keep()
        return [argument.name for argument in arguments], outputs

    def _tell(self, given: Arguments, others: Sequence[RecordedStep]) -> None:
        """A notice that something is recorded once more, and why."""
        if not self.captures:
            return
        reason = others[0].reason(given.tensors) if others else self._steps.reason(given)
        if reason is not None:
            tell(f"{self._name} is recorded again ({self.captures + 1} times so far): {reason}")

    def _require_kept(self, before: Sequence[tuple[Any, Sequence[Any]]]) -> None:
        """The function leaves the lists and dicts it is called with as they are.

        Raises:
            NeedsValue: it does not.
        """
        for container, inside in before:
            now = entries(container)
            if len(now) != len(inside) or not all(map(is_, now, inside)):
                raise NeedsValue(
                    f"the function changes a {type(container).__name__} that it is called with, which only Python "
                    "does: a run of what is recorded would not\n"
                    f"  return what it puts there, or do it outside of the function\n  at {_site_of(self._function)}"
                )

    def _require_pure(self, surroundings: Surroundings, randoms: Any) -> None:
        """The function does nothing that a run of what was recorded would not do.

        Raises:
            NeedsValue: it changed something outside, or drew random numbers outside of tensors.
        """
        for change in [*surroundings.changes(), *surroundings.progress.changes()]:
            site = surroundings.site_of_change(change.name) or _site_of(self._function)
            raise NeedsValue(
                f"the function changes {change.name}, which only Python does: a run of what is recorded would not\n"
                f"  keep it in a tensor, return what it follows from, or change it outside of the function\n  at {site}"
            )
        drawn = _random_states() != randoms
        if drawn and (threading.active_count() == 1 or surroundings.may_draw):  # threads that load data draw, too
            raise NeedsValue(
                "the function draws random numbers outside of tensors (random, numpy.random), which would be the same "
                "in every run of what is recorded\n  draw them with paddle.rand and the like, or pass them as arguments"
                f"\n  at {_site_of(self._function)}"
            )

    # Random numbers

    def steps_drawn(self) -> int | None:
        """How many of its steps have drawn random numbers, from the first of its series on; None if it has none yet."""
        return int(self._draws.array[0]) if self._has_series else None

    def draw_from(self, step: int | None) -> None:
        """Have the next step draw what it does after so many; None: as the first one of a series."""
        self._has_series = step is not None
        self._draws.set(np.array([step or 0], np.int64))
        for each in self._steps:
            each.follow_draws()

    # Looking in

    @property
    def main_program(self) -> Program:
        """The program that ran last.

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
    def has_run(self) -> bool:
        """Whether something was recorded."""
        return self._newest is not None

    # Methods

    @property
    def _options(self) -> tuple[Any, ...]:
        """What it is made with, beside the function."""
        return ()

    def _of(self, function: Callable[..., Any]) -> Self:
        """The same for another function, of which nothing is recorded yet."""
        return type(self)(function, *self._options)

    def __get__(self, instance: Any, owner: type) -> Any:
        if instance is None:
            return self
        known = vars(instance)
        bound = known.get(self._bound_name)
        if bound is None or not bound._is_of(instance, self._function):
            bound = known[self._bound_name] = self._of(self._function.__get__(instance, owner))
        return bound

    def _is_of(self, instance: Any, function: Any) -> bool:
        """Whether it is a method of this very object: a copy has the attributes of what it was copied from."""
        method = self._function
        return getattr(method, "__self__", None) is instance and getattr(method, "__func__", None) is function

    def for_copy(self, original: Any, copied: Any) -> Self:
        """What is recorded of a method of one object, for a copy of it, of which nothing is recorded yet."""
        function = self._function
        if getattr(function, "__self__", None) is not original:
            return self
        return self._of(function.__func__.__get__(copied))  # type: ignore[attr-defined]

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Copied with the object whose method it is; nothing is recorded of the copy yet."""
        function = copy.deepcopy(self._function, memo)
        return self if function is self._function else self._of(function)

    def __reduce__(self) -> Any:
        if hasattr(self._function, "__self__"):
            return type(self), (self._function, *self._options)
        return self._function.__qualname__


def recording_of(target: Any) -> RecordedStep:
    """What ran last of a recorded function; of a layer, what was recorded of it, or last trained its parameters.

    Where nothing trained them, what last worked on them.

    Raises:
        PreconditionNotMet: nothing was recorded yet.
    """
    if isinstance(target, RecordedFunction):
        return target.recorded
    forward = target.forward
    if isinstance(forward, RecordedFunction) and forward.has_run:
        return forward.recorded
    parameters = set(map(id, target.parameters()))
    ran = [each.recorded for each in _functions if each.has_run]
    own = [step for step in ran if any(id(bound.tensor) in parameters for bound in step.bindings)]
    if not own:
        raise PreconditionNotMet(
            f"nothing was recorded of this {type(target).__name__} yet: call it once in a function of jit.capture, or "
            "after jit.to_static, or train it with workbench.train or %train"
        )
    return max(own, key=lambda step: (step.trains, step.program.uid))


def _precision() -> Policy | None:
    """What `auto_cast` around the call asks for."""
    recorder = current_recorder()
    return recorder.policy if isinstance(recorder, AutoCastRecorder) else None


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
