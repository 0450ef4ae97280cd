"""What is refused in the middle of a step of the same thread: in a signal handler, a finaliser, an observer."""

from __future__ import annotations

from typing import Any

from workbench.errors import EnforceNotMet, PreconditionNotMet
from workbench.executors.feeding.feed import fed_names
from workbench.executors.running.step.state import StepState, is_mid_step
from workbench.framework.program.program import Program
from workbench.runtime.storage.scope import Scope


def refuse_in_mid_step(scope: Scope) -> None:
    """For what changes values of a scope and is no step of an engine, such as a startup program.

    Raises:
        PreconditionNotMet: in the middle of a step of this thread, in a signal handler or a finalizer.
    """
    if is_mid_step(scope.root):
        raise _beside()


def require_boundary(root: Scope, state: StepState) -> None:
    """What is done by hand is not done in the middle of a step, of this executor or another on its values."""
    if is_mid_step(root):
        raise _inside() if root.step is state else _beside()


def require_place_in(outer: StepState, state: StepState, program: Program, feed: Any) -> None:
    """In the middle of a step: refuse another one of this executor, and any that changes values of the scope.

    Args:
        outer: of the step under way. state: of the executor.
    """
    if outer is state:
        raise _inside()
    ops = list(program.all_ops())
    given = {*fed_names(feed), *(name for op in ops for name in op.output_arg_names)}
    kept = {variable.name for variable in program.persistables()}
    if any(op.draws for op in ops) or not given.isdisjoint(kept):
        raise _beside()


def _inside() -> EnforceNotMet:
    return PreconditionNotMet(
        "a step of this executor is under way in this thread; a signal handler or a finalizer cannot run another one "
        "in the middle of it"
    )


def _beside() -> EnforceNotMet:
    return PreconditionNotMet(
        "a step on the values of this scope is under way in this thread; a signal handler, a finalizer or a schedule "
        "cannot run a program that changes them in the middle of it"
    )
