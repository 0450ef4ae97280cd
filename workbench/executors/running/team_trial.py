"""Whether a step is quicker with a team of threads or on one alone, as it turns out while it runs.

Both do the same, bit by bit. What a plan expects is right on processors that have nothing else to do; where other
programs need them, or two of them are one core's, a team waits for threads that do not get one. A trial lets the two
ways take turns, so that both meet the same neighbours; the first turn of each only warms memory up, and of the others
the quickest counts. One thread is kept unless a team is clearly quicker. Of long steps, which have many a quiet and
many a busy moment in them, a few turns are enough where the ways are far apart.
"""

from __future__ import annotations

_TURNS = 6  # of each way in a trial, the first of which does not count
_FIRST, _LONGEST = 16, 512  # steps between trials; twice as many each time the outcome is the same
_CLEARLY = 0.95  # of the time of one thread
_LONG, _FEW = 50_000_000, 3  # nanoseconds of a step; turns of each way
_FAR_APART = 0.75, 1.25  # times of a team, in that of one thread, between which a few turns are not enough


class TeamTrial:
    """Of the steps of one binding.

    Attributes:
        together: which way the next step is to be run.
    """

    def __init__(self) -> None:
        self.together = self._is_chosen = False
        self._begun: int | None = None
        self._took: tuple[list[float], list[float]] = [], []  # in the trial under way, alone and together
        self._until, self._steps = _FIRST, 0  # until the next trial

    def begin(self, now: int) -> None:
        """A step begins, the way it is to be run.

        Args:
            now: nanoseconds.
        """
        self._begun = now

    def end(self, now: int) -> None:
        """It has been run; one that has not begun, because somebody watches it, or that fails, does not count.

        Args:
            now: by the clock that `begin` was told.
        """
        begun, self._begun = self._begun, None
        if begun is None:
            return
        if self._steps:
            self._steps -= 1
            return
        self._took[self.together].append(now - begun)
        self.together = not self.together
        if len(self._took[True]) == _TURNS or self._is_plain():
            self._choose()

    def _is_plain(self) -> bool:
        """Whether the turns so far are enough."""
        if self.together or len(self._took[True]) < _FEW:
            return False
        alone, together = self._quickest()
        return alone > _LONG and not _FAR_APART[0] < together / alone < _FAR_APART[1]

    def _quickest(self) -> tuple[float, float]:
        """The quickest turns that count, alone and together."""
        alone, together = (min(took[1:]) for took in self._took)
        return alone, together

    def _choose(self) -> None:
        alone, together = self._quickest()
        before, self._is_chosen = self._is_chosen, together < _CLEARLY * alone
        self._until = _FIRST if self._is_chosen is not before else min(2 * self._until, _LONGEST)
        self._took, self._steps, self.together = ([], []), self._until, self._is_chosen
