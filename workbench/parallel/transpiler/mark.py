"""A program is transpiled once: what marks it."""

from __future__ import annotations

from workbench.errors import PreconditionNotMet
from workbench.framework.program.program import Program

MARK = "transpiled"


def require_unmarked(program: Program) -> None:
    """It was not transpiled before.

    Raises:
        PreconditionNotMet: it was; Paddle 1.8.5 makes a program of it that cannot run.
    """
    if MARK in program.attributes:
        raise PreconditionNotMet(f"{program!r} was transpiled before ({program.attributes[MARK]}); build it again")
