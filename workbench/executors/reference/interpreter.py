"""The definition of correct: a program in order, op by op, on NumPy. `FLAGS_executor=reference` runs every program so.

Nothing here knows of the compiled engine. A startup program always runs this way: what runs once is not worth a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from workbench.errors import Unavailable
from workbench.executors.reference.step import InterpretedStep, Prepared, prepare
from workbench.framework.program.program import Program
from workbench.runtime.storage.freed import give_back_freed
from workbench.runtime.storage.ownership import warn_of_overwriting
from workbench.runtime.storage.scope import Scope

_ATTEMPTS = 100
Give = Callable[[Any], Any]


def run_in_order(
    program: Program, scope: Scope, feed: dict[str, Any], fetches: Sequence[str], place: int, give: Give
) -> list[Any]:
    """One step.

    Args:
        feed: arrays by name. place: index of the device. give: makes of a fetched value what the caller gets.

    Raises:
        EnforceNotMet: an op failed, or `give`; nothing has changed. Unavailable: others keep changing the scope.
    """
    prepared = prepare(program, fetches)
    step, results = _speculate(prepared, scope, feed, fetches, place, give)
    if prepared.initialises:
        warn_of_overwriting(program, prepared.initialises, scope)
    if step.commit():
        initialised = sum(step.staged[name].nbytes for name in prepared.initialises & step.staged.keys())
        del step
        give_back_freed(initialised)  # the scope has copies
        return results
    with scope.in_use():  # another thread changed what the step had read: again, while the others wait
        for _ in range(_ATTEMPTS):
            step, results = _speculate(prepared, scope, feed, fetches, place, give)
            if step.commit():
                return results
    raise Unavailable("other threads keep setting variables of the scope while the program runs")


def _speculate(
    prepared: Prepared, scope: Scope, feed: dict[str, Any], fetches: Sequence[str], place: int, give: Give
) -> tuple[InterpretedStep, list[Any]]:
    """A step that is ready to commit, and what was fetched."""
    step = InterpretedStep(prepared, scope, feed, place)
    step.speculate()
    return step, [give(step.fetch(name)) for name in fetches]
