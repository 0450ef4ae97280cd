"""Whether a step is quicker with a team of threads or on one alone, as it turns out while it runs.

Both do the same, bit by bit. What a plan expects, that a team is quicker, is right on processors that have nothing else
to do; where other programs need them, or two of them are one core's, a team waits for threads that do not get one. A
trial lets the two ways take turns, so that both meet the same neighbours, and of each the quickest turn counts: others
make steps longer, never shorter. One thread is chosen unless a team is clearly quicker, and what has been chosen is
kept unless the other way is clearly quicker.

Neighbours that stay do not make both ways longer alike: a team then gets its processors in a few turns, and waits for
them in most. So the usual turn counts, too: a team is not chosen if that is slower than the usual turn of one thread,
and not kept if it is slower by far.

An engine tries one of its plans at a time. What came of that holds for the others, too, until it is their turn: where
shapes change from step to step, few steps are run the slower way to find out.

Short steps take many turns, the first of which only warms caches up. Of a long step no turn is to be in vain: one of
each way is enough where the chosen one is by far the quicker, and two where it is by far the slower, for then a
neighbour may have been at work.
"""

from __future__ import annotations

from statistics import median_low

_TURNS = 6  # of each way in a trial, the first of which does not count if steps are short
_FIRST, _LONGEST = 16, 512  # steps between trials; twice as many each time the outcome is the same
_CLEARLY = 0.95  # of the time of the other way: a team that is chosen first
_MORE_CLEARLY = 0.9  # a way that takes the place of the chosen one
_BY_FAR = 0.75
_LONG, _LONGEST_OF_LONG = 50_000_000, 128  # nanoseconds of a step; steps between trials of such
_PATIENCE = 512  # steps of others, after which a trial is over whose plan is not run any more


class TeamTrials:
    """Of the plans of one engine, of which one is tried at a time.

    Attributes:
        outcome: of the last trial, whether a team runs the steps of plans that have not been tried; None before it.
    """

    def __init__(self) -> None:
        self.outcome: bool | None = None
        self._under_way: TeamTrial | None = None
        self._waited = 0  # steps since the trial under way went on

    def admit(self, trial: TeamTrial) -> bool:
        """Whether a trial that is due goes on, or may begin."""
        is_new = self._under_way is not trial
        if is_new and self._under_way is not None and self._waited < _PATIENCE:
            self._waited += 1
            return False
        self._under_way, self._waited = trial, 0
        return True

    def end(self, outcome: bool) -> None:
        """The trial under way has come to an end."""
        self.outcome, self._under_way = outcome, None


class TeamTrial:
    """Of the steps of one binding. The first step warms memory up; the first trial comes behind it.

    Args:
        trials: of all bindings of its engine.

    Attributes:
        together: which way the next step is to be run.
    """

    def __init__(self, trials: TeamTrials) -> None:
        self._trials = trials
        self.together = self._is_chosen = True
        self._is_settled = self._is_tried = False  # by another's trial or its own; by its own
        self._adopt()
        self._begun: int | None = None
        self._took: tuple[list[int], list[int]] = [], []  # in the trial under way, alone and together
        self._until, self._steps = _FIRST, 1  # between trials, until the next one

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
        if not self._trials.admit(self):
            self._adopt()
            return
        self._took[self.together].append(now - begun)
        self.together = not self.together
        if self.together is self._is_chosen:  # each way has had as many turns
            self._judge()

    def _adopt(self) -> None:
        """Another one is tried: go by what came of the last trial, unless this one has had its own."""
        if not self._is_tried and self._trials.outcome is not None:
            self._is_chosen, self._is_settled = self._trials.outcome, True
        self._took, self.together = ([], []), self._is_chosen

    def _judge(self) -> None:
        """Choose a way, if the turns so far are enough."""
        turns = len(self._took[self._is_chosen])
        is_long = min(map(min, self._took)) > _LONG
        if turns == _TURNS:
            self._choose(is_long)
        elif is_long:
            chosen, other = self._quickest(is_long)
            if chosen < _BY_FAR * other or (turns > 1 and other < _BY_FAR * chosen):
                self._choose(is_long)

    def _quickest(self, is_long: bool) -> tuple[int, int]:
        """The quickest turns that count, of the way that is chosen so far and of the other one."""
        alone, together = map(min, self._counted(is_long))
        return (together, alone) if self._is_chosen else (alone, together)

    def _counted(self, is_long: bool) -> tuple[list[int], list[int]]:
        """The turns that count, alone and together."""
        first = 0 if is_long else 1
        return self._took[False][first:], self._took[True][first:]

    def _choose(self, is_long: bool) -> None:
        before, longest = self._is_chosen, _LONGEST_OF_LONG if is_long else _LONGEST
        self._is_chosen = self._is_team_better(is_long)
        self._until = min(2 * self._until, longest) if self._is_settled and self._is_chosen is before else _FIRST
        self._is_settled = self._is_tried = True
        self._took, self._steps, self.together = ([], []), self._until, self._is_chosen
        self._trials.end(self._is_chosen)

    def _is_team_better(self, is_long: bool) -> bool:
        """Whether a team is chosen, or kept, by the quickest turn of each way and by its usual one."""
        turns = self._counted(is_long)
        alone, together = map(min, turns)
        usually_alone, usually_together = map(median_low, turns)
        if self._is_settled and self._is_chosen:
            return alone >= _MORE_CLEARLY * together and usually_alone >= _BY_FAR * usually_together
        clearly = _MORE_CLEARLY if self._is_settled else _CLEARLY  # a team has to earn it
        return together < clearly * alone and usually_together <= usually_alone
