"""Whether a step is quicker with a team of threads or on one alone, as it turns out while it runs.

Both do the same, bit by bit. What a plan expects is right on processors that have nothing else to do; where other
programs need them, a team waits for threads that do not get one.
"""

from __future__ import annotations

_FIRST, _LONGEST = 4, 512  # steps between trials of the other way; twice as many each time this one is quicker
_WEIGHT = 0.25  # of the newest step in the mean


class TeamTrial:
    """Of the steps of one binding.

    Attributes:
        together: which way the next step is to be run.
    """

    def __init__(self) -> None:
        self.together = True
        self._mean = 0.0
        self._steps, self._until = 0, _FIRST
        self._tries = False

    def took(self, duration: float) -> None:
        """A step has been run the way it was to be; what it took."""
        if self._tries:
            self._end_trial(duration)
            return
        self._steps += 1
        self._mean = duration if self._steps == 1 else self._mean + _WEIGHT * (duration - self._mean)
        if self._steps >= self._until:
            self._tries, self.together = True, not self.together

    def _end_trial(self, duration: float) -> None:
        is_quicker = duration < self._mean
        self._until = _FIRST if is_quicker else min(2 * self._until, _LONGEST)
        self.together ^= not is_quicker
        self._tries, self._steps = False, 0
