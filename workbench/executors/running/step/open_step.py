"""A step of several trainers, from its first word to the others until all of them know what has become of it.

A signal may come at any moment, and another one while the first is answered. So what the others count on is kept here
and not in a frame that an exception leaves: what would apply the step, and that it has not been told of. Whoever comes
by next closes it, in one piece that nothing tears: the way out of the step, or the beginning of what follows.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from workbench.errors import Aborted, PeerFailed, PeerTimeout, add_line
from workbench.executors.replicas.replicas import Replicas
from workbench.executors.running.step.state import StepState
from workbench.executors.running.trainers import Trainers
from workbench.runtime.undisturbed import undisturbed

Apply = Callable[[], None]


class OpenStep:
    """The step under way of an engine and those that run its program pruned; the next one is another, in its place.

    Args:
        trainers: who makes it together.
    """

    def __init__(self, trainers: Trainers, state: StepState) -> None:
        self._trainers, self._state = trainers, state
        self._before, self._until = 0, 0  # steps applied before this one, and when it is over
        self._apply: Apply | None = None

    @property
    def is_open(self) -> bool:
        """Whether others may wait for what becomes of it."""
        return self._state.steps < self._until

    def begin(self, replicas: Replicas, steps: int) -> None:
        """From now on the others are told if it fails; see `Trainers.begin` and `compare`.

        Args:
            steps: how many follow each other before it is over.
        """
        applied = self._state.steps
        self._apply, self._until = None, applied + steps
        self._trainers.begin(replicas)
        self._trainers.compare(replicas, applied)

    @property
    def ballot(self) -> np.ndarray:
        """What kernels vote by, see `words.window`."""
        return self._trainers.ballot

    def prepare_vote(self, apply: Apply | None = None) -> None:
        """What follows is voted on.

        Args:
            apply: see `agree`, where kernels may vote before that.
        """
        self._apply, self._before = None, self._state.steps
        self._trainers.prepare_vote()
        self._apply = apply  # last: before that, the vote may be the one before

    def agree(self, apply: Apply) -> None:
        """Return when all are ready to apply the step; whatever is raised, `close` is to be called then.

        Args:
            apply: applies the step, once all have agreed; called again after an error it takes that to its end.
        """
        self._apply = apply
        self._trainers.agree()

    def applied(self) -> None:
        """Nothing is to be kept of it any more."""
        self._apply = None

    def end(self) -> None:
        """It is over, applied or not, and all trainers know."""
        self._apply, self._until = None, 0

    def close(self, error: BaseException | None = None) -> None:
        """See to it that all trainers apply it or none, whatever came in between; nothing if that has been done.

        Who has given up while the others went on has told them so: the next step is given up on all.

        Args:
            error: why it ends here; None if a step that was interrupted has been left without that.

        Raises:
            Unavailable: trainer 0 does not tell what was decided.
        """
        if self.is_open:
            undisturbed(partial(self._close, error or Aborted("the step was interrupted")))

    def _close(self, error: BaseException) -> None:
        number = self._state.steps + 1  # of the step it came in
        try:
            if self._apply is not None and self._state.steps == self._before:
                self._trainers.settle(error)
                if self._trainers.is_agreed and self._state.broken is None:
                    self._apply()
        finally:
            if self.is_open:
                self._tell_which(error, number)
                self._trainers.fail(error)
            self.end()

    def _tell_which(self, error: BaseException, number: int) -> None:
        """Whoever waited for others reads in which step; those who are told of it do not read it twice."""
        applied = self._state.steps
        line = f"in step {number}, after {applied} that {'was' if applied == 1 else 'were'} applied"
        if applied == number:
            line = f"in step {number}, which was applied; of those that were to follow none was"
        if isinstance(error, PeerTimeout | PeerFailed) and line not in str(error):
            add_line(error, line)
