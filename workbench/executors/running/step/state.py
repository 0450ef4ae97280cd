"""Where the step of an engine is, in one place: idle, begun, loaded, speculated, committing, applied; or broken.

    IDLE -> BEGUN -> LOADED -> SPECULATED -> COMMITTING -> APPLIED -> IDLE
                 (a failure here: nothing has changed)  (here: taken to its end, or BROKEN)

A step that is one call of compiled code goes from BEGUN to APPLIED; its counter tells which of the two.

`REACTIONS` says what becomes of a call that comes in the middle. Several trainers vote between SPECULATED and
COMMITTING; what was applied anywhere is applied by all.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from operator import setitem
from typing import Any

import numpy as np

from workbench.errors import PreconditionNotMet
from workbench.executors.running.step.bound_step import BoundStep
from workbench.executors.running.transaction import Broken
from workbench.runtime.storage.scope import Scope


class Phase(Enum):
    """Of the step under way; IDLE between two."""

    IDLE = "no step is under way"
    BEGUN = "the feed is divided over the devices, a plan is found or made"
    LOADED = "what the step reads is in place, its ops run on values held aside"
    SPECULATED = "all that can fail has been done, and nothing has changed"
    COMMITTING = "parameters change; no signal handler runs"
    APPLIED = "the step has been applied; it is told of"
    BROKEN = "a commit could be neither finished nor undone"


class Reaction(Enum):
    """To what comes while the step is in some phase."""

    DONE = "it is done at once"
    REFUSED = "it raises, and changes nothing"
    DEFERRED = "it is done at the end of the step"
    DISCARDED = "nothing of the step is kept"
    COMPLETED = "the step, or its commit, is taken to its end first"
    KEPT = "the step stays applied"
    BROKEN = "the executor makes no further step"
    NEVER = "it cannot be: no thread is at work then"


class Trigger(Enum):
    """What may come in the middle of a step: by its own thread, by another one, or by the end of one."""

    RUN = "run() of the same executor, or one that changes its values, from a signal handler, a finaliser, an observer"
    DROP = "drop_local_exe_scopes() from there"
    FAILURE = "an op, a guard or an observer raises, or a handler of any signal"
    FORK = "another thread forks the process; the child gets the values of a whole step, and no thread of this one"
    EXIT = "the interpreter ends while the step is another thread's, for which it waits some seconds"
    LOST = "a worker does not come to rest in time"


_BEGUN = {
    Trigger.RUN: Reaction.REFUSED,
    Trigger.DROP: Reaction.DEFERRED,
    Trigger.FAILURE: Reaction.DISCARDED,
    Trigger.FORK: Reaction.DEFERRED,
    Trigger.EXIT: Reaction.DISCARDED,
    Trigger.LOST: Reaction.NEVER,
}
_BETWEEN = {**dict.fromkeys(Trigger, Reaction.DONE), Trigger.LOST: Reaction.NEVER}
REACTIONS: dict[Phase, dict[Trigger, Reaction]] = {
    Phase.IDLE: _BETWEEN,
    Phase.BEGUN: _BEGUN,
    Phase.LOADED: {**_BEGUN, Trigger.LOST: Reaction.DISCARDED},
    Phase.SPECULATED: {**_BEGUN, Trigger.EXIT: Reaction.COMPLETED},
    Phase.COMMITTING: {
        **_BEGUN,
        Trigger.FAILURE: Reaction.COMPLETED,
        Trigger.EXIT: Reaction.COMPLETED,
        Trigger.LOST: Reaction.BROKEN,
    },
    Phase.APPLIED: {
        **_BETWEEN,
        Trigger.FAILURE: Reaction.KEPT,
        Trigger.FORK: Reaction.DEFERRED,
        Trigger.EXIT: Reaction.KEPT,
    },
    Phase.BROKEN: {**_BETWEEN, Trigger.RUN: Reaction.REFUSED, Trigger.FAILURE: Reaction.KEPT},
}
"""A thread of another step waits. A fork that has waited for seconds goes on, and the child refuses to run in the scope
(`runtime.storage.scope`). A process that ends (`runtime.ending`) stops a step in front of its next row, or refuses to
begin."""

_MIDDLE = frozenset(phase for phase, to in REACTIONS.items() if to[Trigger.DROP] is Reaction.DEFERRED)


def is_mid_step(root: Scope) -> bool:
    """Whether this thread is in the middle of a step on values of a scope, in a handler, a finaliser or an observer.

    Args:
        root: whose `step` is the state of the innermost step on it.
    """
    state: StepState | None = root.step
    return state is not None and root.is_held_here() and state.is_in_the_middle


UnderWay = tuple[int, int, Phase]  # when a step began in ns, how many had been applied before it, where it is
_NEVER: UnderWay = (0, 0, Phase.BEGUN)


class StepState:
    """Of an engine and those that run its program pruned on the same values.

    An observer of a step may make another one, when the first has been applied: who begins a step keeps `at`, and gives
    it to `end`.

    Attributes:
        counter: how many steps have been applied, one int64; compiled steps count themselves.
        at: the step that has begun and has not ended, or that a signal has left to look so; None if there is none.
        last: what the last step that was applied ran; None before the first and after a drop.
        broken: why no step can be made any more.
        drop_for: why temporaries are to be dropped at the end of the step under way, "" if they are not.
    """

    def __init__(self) -> None:
        self.counter: np.ndarray = np.zeros(1, np.int64)
        self._counted = self.counter.data
        self.at: UnderWay | None = None
        self._ended = _NEVER
        self.last: BoundStep | None = None
        self.broken: Broken | None = None
        self.drop_for = ""

    @property
    def steps(self) -> int:
        """How many steps have been applied."""
        return self._counted[0]

    @property
    def begun(self) -> int:
        """When the step under way, or the last one, began, in ns."""
        return (self.at or self._ended)[0]

    @property
    def is_applied(self) -> bool:
        """Whether the step under way, or the last one, has been applied."""
        return self._counted[0] != (self.at or self._ended)[1]

    @property
    def phase(self) -> Phase:
        """Where the step is."""
        if self.broken is not None:
            return Phase.BROKEN
        if self.at is None:
            return Phase.IDLE
        return Phase.APPLIED if self.is_applied else self.at[2]

    @property
    def is_in_the_middle(self) -> bool:
        """Whether a step is under way and has not been applied."""
        return self.phase in _MIDDLE

    def begin(self, now: int) -> None:
        """A step begins, or the next one of the same call.

        Args:
            now: in ns.
        """
        self.at = now, self._counted[0], Phase.BEGUN

    def load(self) -> None:
        """What it reads is in place; it has not been applied."""
        self.at = (self.at or self._ended)[0], self._counted[0], Phase.LOADED

    def speculate(self) -> None:
        """All that can fail has been done."""
        self.at = (*(self.at or self._ended)[:2], Phase.SPECULATED)

    def commit(self) -> None:
        """The commit begins."""
        self.at = (*(self.at or self._ended)[:2], Phase.COMMITTING)

    def applying(self, step: BoundStep) -> list[Callable[[], Any]]:
        """The end of a commit, as C functions: whatever is raised from now on, the step has been applied."""
        return [partial(setitem, self.counter, 0, self._counted[0] + 1), partial(setattr, self, "last", step)]

    def apply(self, step: BoundStep) -> None:
        """A compiled step has counted itself."""
        self.last = step

    def breaks(self, error: Broken) -> None:
        """The commit could be neither finished nor undone."""
        self.broken = error

    def end(self, outer: UnderWay | None) -> None:
        """The step is over, applied or not.

        Args:
            outer: what `at` was before it began.
        """
        self._ended, self.at = self.at or self._ended, outer

    def require_unbroken(self) -> None:
        """Raises: PreconditionNotMet: BROKEN."""
        if self.broken is not None:
            raise PreconditionNotMet(f"the executor cannot run: {self.broken}")

    def drop_at_the_end(self, cause: str) -> None:
        """Temporaries are to be dropped when the step under way has ended."""
        self.drop_for = cause

    def dropped(self) -> str:
        """Why temporaries are to be dropped now, "" if they are not."""
        cause, self.drop_for = self.drop_for, ""
        return cause

    def forget(self) -> None:
        """The last step's temporaries are gone."""
        self.last = None
