"""Steps that others steer: held at a boundary between two of them, gone on with, ended."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from numbers import Real
from typing import Any

from workbench import between
from workbench.errors import InvalidArgument, described

POLL_S = 0.02  # seconds between looks at a flag


class Steered(ABC):
    """Steps on a thread, steered from others.

    The threads talk through plain flags that are polled, not through locks and events: a Ctrl-C may land in the
    middle of a lock's own code and leave it held for ever.

    Attributes:
        step: steps completed.
    """

    def __init__(self) -> None:
        self.step = 0
        self._started = False
        self._held = False
        self._until = 0  # held steps go on to this one
        self._holding = False
        self._savers: list[object] = []  # who wait for a boundary, or write what stands there
        self._stopping = False

    @property
    @abstractmethod
    def finished(self) -> bool:
        """Whether no further step will come."""

    @property
    def _holds(self) -> bool:
        return self._held and self.step >= self._until

    def may_begin(self, step: int) -> bool:
        """Whether a step may be begun behind so many, before these are known: nobody wants the run to hold there."""
        return not (self._stopping or self._savers or (self._held and step >= self._until))

    def pause(self, timeout: float = 0.0) -> bool:
        """Hold at the next step boundary; nothing happens to a finished run.

        Args:
            timeout: seconds to wait for that boundary; without waiting, a step in flight is still completed.

        Returns:
            whether no step is in flight, so that nothing changes until `resume()`.
        """
        seconds = seconds_of("timeout", timeout)
        self._until, self._held = 0, True
        return self._comes_to_rest(0, seconds) or not self._started

    def _comes_to_rest(self, until: int, timeout: float) -> bool:
        """Wait for the boundary behind a step where a held run waits; whether it is there, or has ended."""
        deadline = time.monotonic() + timeout
        while not (rests := self.finished or (self._holding and self.step >= until)) and time.monotonic() < deadline:
            between.rest(POLL_S)
        return rests

    def resume(self) -> None:
        """Go on after a pause."""
        self._held = False

    def advance(self, steps: int = 1, timeout: float = 0.0) -> bool:
        """Run so many steps more and hold there; what was paused is paused again then.

        Args:
            timeout: seconds to wait until they have been made.

        Returns:
            whether they have, or the run has ended before.

        Raises:
            InvalidArgument: steps below 1.
        """
        if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
            raise InvalidArgument(f"advance takes a number of steps of at least 1, got {described(steps)}")
        seconds = seconds_of("timeout", timeout)
        until = max(self.step, self._until if self._held else 0) + steps
        self._until, self._held = until, True
        return self._comes_to_rest(until, seconds)

    def stop(self) -> None:
        """End at the next step boundary; the step in flight is completed."""
        self._stopping = True

    @property
    def is_stopping(self) -> bool:
        """Whether it was asked to end at the next step boundary."""
        return self._stopping

    def _is_let_in(self, saver: object, deadline: float) -> bool:
        """Have the run held at a step boundary; but first it goes on from the one where others had it held."""
        while self._holding and not (self._holds or self.finished) and time.monotonic() < deadline:
            between.rest(POLL_S)
        self._savers.append(saver)
        return self._comes_to_rest(0, deadline - time.monotonic())

    def _may_go_on(self) -> bool:
        while self._is_to_hold():
            self._holding = True
            while self._is_to_hold():
                time.sleep(POLL_S)
            self._holding = False  # and look again: somebody may have taken it to hold in between
        return not self._stopping

    def _is_to_hold(self) -> bool:
        return bool(self._holds or self._savers) and not self._stopping


def seconds_of(what: str, given: Any) -> float:
    """A number of seconds.

    Raises:
        InvalidArgument: it is none.
    """
    if isinstance(given, bool) or not isinstance(given, Real) or math.isnan(given):
        raise InvalidArgument(f"{what} is a number of seconds, got {described(given)}")
    return float(given)
