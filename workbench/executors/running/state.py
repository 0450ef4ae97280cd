"""Where the step of an engine is, in one place: idle, begun, loaded, speculated, committing, applied; or broken.

    IDLE -> BEGUN -> LOADED -> SPECULATED -> COMMITTING -> APPLIED -> IDLE
                 (a failure here: nothing has changed)  (here: taken to its end, or BROKEN)

A step that is one call of compiled code goes from BEGUN to APPLIED; its counter tells which of the two.

`REACTIONS` says what becomes of a call that comes in the middle. What a process group has to agree on, it will vote on
between SPECULATED and COMMITTING.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from functools import partial
from operator import setitem
from typing import Any

import numpy as np

from workbench.errors import PreconditionNotMet
from workbench.executors.lowering.binding import Binding
from workbench.executors.running.transaction import Broken
from workbench.runtime.scope import Scope


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
    """To a call, by the thread of the step or of a child process, while the step is in some phase."""

    DONE = "it is done at once"
    REFUSED = "it raises, and changes nothing"
    DEFERRED = "it is done at the end of the step"
    DISCARDED = "nothing of the step is kept"
    COMPLETED = "the commit is taken to its end first"
    KEPT = "the step stays applied"


class Trigger(Enum):
    """What may come in the middle of a step."""

    RUN = "run() of the same executor, or one that changes its values, from a signal handler, a finaliser, an observer"
    DROP = "drop_local_exe_scopes() from there"
    FAILURE = "an op, a guard or an observer raises, or a handler of any signal"


_BEFORE = {Trigger.RUN: Reaction.REFUSED, Trigger.DROP: Reaction.DEFERRED, Trigger.FAILURE: Reaction.DISCARDED}
REACTIONS: dict[Phase, dict[Trigger, Reaction]] = {
    Phase.IDLE: {Trigger.RUN: Reaction.DONE, Trigger.DROP: Reaction.DONE, Trigger.FAILURE: Reaction.DONE},
    Phase.BEGUN: _BEFORE,
    Phase.LOADED: _BEFORE,
    Phase.SPECULATED: _BEFORE,
    Phase.COMMITTING: {**_BEFORE, Trigger.FAILURE: Reaction.COMPLETED},
    Phase.APPLIED: {Trigger.RUN: Reaction.DONE, Trigger.DROP: Reaction.DONE, Trigger.FAILURE: Reaction.KEPT},
    Phase.BROKEN: {Trigger.RUN: Reaction.REFUSED, Trigger.DROP: Reaction.DONE, Trigger.FAILURE: Reaction.KEPT},
}
"""A thread of another step waits; a child that was forked in mid-step refuses to run (`runtime.scope`); at the end of
the process a step of another thread is stopped before its commit, or waited for (`runtime.ending`)."""

_MIDDLE = frozenset(phase for phase, to in REACTIONS.items() if to[Trigger.DROP] is Reaction.DEFERRED)


def is_mid_step(root: Scope) -> bool:
    """Whether this thread is in the middle of a step on values of a scope, in a handler, a finaliser or an observer.

    Args:
        root: whose `step` is the state of the innermost step on it.
    """
    state: StepState | None = root.step
    return state is not None and root.lock._is_owned() and state.phase in _MIDDLE


Position = tuple[Phase, bool, int, int]


class StepState:
    """Of an engine and those that run its program pruned on the same values.

    Attributes:
        counter: how many steps have been applied, one int64; compiled steps count themselves.
        is_under_way: whether a step has begun and has not ended, or a signal has left it to look so.
        begun: when the step under way, or the last one, began, in ns.
        last: the binding of the last step that was applied; None before the first and after a drop.
        broken: why no step can be made any more.
        drop_for: why temporaries are to be dropped at the end of the step under way, "" if they are not.
    """

    def __init__(self) -> None:
        self.counter: np.ndarray = np.zeros(1, np.int64)
        self._counted = self.counter.data
        self._before = self.begun = 0
        self._phase, self.is_under_way = Phase.IDLE, False
        self.last: Binding | None = None
        self.broken: Broken | None = None
        self.drop_for = ""

    @property
    def steps(self) -> int:
        """How many steps have been applied."""
        return self._counted[0]

    @property
    def is_applied(self) -> bool:
        """Whether the step under way, or the last one, has been applied."""
        return self._counted[0] != self._before

    @property
    def phase(self) -> Phase:
        """Where the step is."""
        if self.broken is not None:
            return Phase.BROKEN
        if not self.is_under_way:
            return Phase.IDLE
        return Phase.APPLIED if self.is_applied else self._phase

    def begin(self, now: int) -> None:
        """A step begins."""
        self.begun, self._before, self._phase, self.is_under_way = now, self._counted[0], Phase.BEGUN, True

    @property
    def position(self) -> Position:
        """Where the step is, for one that begins and ends within it: `return_to` it then."""
        return self._phase, self.is_under_way, self._before, self.begun

    def return_to(self, position: Position) -> None:
        """A step within the one under way is over."""
        self._phase, self.is_under_way, self._before, self.begun = position

    def load(self) -> None:
        """What it reads is in place; it has not been applied."""
        self._before, self._phase = self._counted[0], Phase.LOADED

    def speculate(self) -> None:
        """All that can fail has been done."""
        self._phase = Phase.SPECULATED

    def commit(self) -> None:
        """The commit begins."""
        self._phase = Phase.COMMITTING

    def applying(self, binding: Binding) -> list[Callable[[], Any]]:
        """The end of a commit, as C functions: whatever is raised from now on, the step has been applied."""
        return [partial(setitem, self.counter, 0, self.steps + 1), partial(setattr, self, "last", binding)]

    def apply(self, binding: Binding) -> None:
        """A compiled step has counted itself."""
        self.last = binding

    def breaks(self, error: Broken) -> None:
        """The commit could be neither finished nor undone."""
        self.broken = error

    def end(self) -> None:
        """The step is over, applied or not."""
        self.is_under_way = False

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
