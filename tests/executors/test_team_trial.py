"""When a step is run by a team of threads and when by one alone: what is chosen, for given times."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby

import pytest

from workbench.executors.running.team_trial import TeamTrial

Times = Callable[[int, bool], int]  # of the step of this number, run together or not
TURNS, TRIAL = 6, 12


def ways(steps: int, times: Times) -> list[bool]:
    """Whether each step was run by a team."""
    trial, found = TeamTrial(), []
    for number in range(steps):
        found.append(trial.together)
        trial.begin(1000)
        trial.end(1000 + times(number, trial.together))
    return found


def chosen(times: Times) -> bool:
    """What is chosen by the first trial."""
    return ways(TRIAL + 1, times)[-1]


def lasting(alone: int, together: int) -> Times:
    return lambda number, is_team: together if is_team else alone


def test_the_two_ways_take_turns() -> None:
    assert ways(TRIAL, lasting(100, 50)) == [False, True] * TURNS


@pytest.mark.parametrize(
    ("together", "wins"), [(50, True), (94, True), (95, False), (99, False), (100, False), (110, False)]
)
def test_one_thread_is_kept_unless_a_team_is_clearly_quicker(together: int, wins: bool) -> None:
    assert chosen(lasting(100, together)) is wins


@pytest.mark.parametrize(("together", "turns"), [(50, 3), (74, 3), (76, 6), (100, 6), (124, 6), (126, 3), (300, 3)])
def test_of_long_steps_a_few_turns_are_enough_where_the_ways_are_far_apart(together: int, turns: int) -> None:
    trial = ways(TRIAL, lasting(100_000_000, together * 1_000_000))
    assert trial == [False, True] * turns + [together < 95] * (TRIAL - 2 * turns)
    short = ways(TRIAL, lasting(100_000, together * 1_000))
    assert short == [False, True] * TURNS


@pytest.mark.parametrize("cold", [0, 1])
def test_the_first_turn_of_each_way_does_not_count(cold: int) -> None:
    """Neither a slow one, which finds memory cold, nor one that seems quick, for it did nothing."""
    for first in (1, 10_000):
        assert chosen(lambda n, is_team, t=first: t if n == cold else 70 if is_team else 100)
        assert not chosen(lambda n, is_team, t=first: t if n == cold else 110 if is_team else 100)


def test_one_quiet_moment_of_each_way_is_enough() -> None:
    """Whatever else the machine does makes steps longer, and never shorter."""
    for quiet in range(1, TURNS):

        def times(number: int, is_team: bool, turn: int = quiet) -> int:
            return (100 if is_team else 80) if number // 2 == turn else 10_000 if number % 3 else 5_000

        assert not chosen(times)
        assert chosen(lambda n, is_team, turn=quiet: times(n, not is_team, turn))


def test_trials_are_made_more_and_more_seldom() -> None:
    found = ways(2500, lasting(100, 200))
    tried = [sum(1 for _ in same) for is_trial, same in groupby(_trials(found)) if not is_trial]
    assert tried[:-1] == [32, 64, 128, 256, 512, 512, 512]


def test_a_choice_that_changes_is_soon_looked_at_again() -> None:
    found = ways(200, lambda number, is_team: 50 if is_team == (number < 60) else 100)
    tried = [sum(1 for _ in same) for is_trial, same in groupby(_trials(found)) if not is_trial]
    assert tried[:2] == [17, 33] and found[TRIAL] and not found[-1]


def _trials(found: list[bool]) -> list[bool]:
    """Whether each step was one of a trial: those in which the ways alternate, but the last of a quick team."""
    return [a != b for a, b in zip(found, [*found[1:], found[-1]])]


def test_steps_that_somebody_watches_do_not_count() -> None:
    """They end without having begun."""
    trial = TeamTrial()
    trial.end(100)
    assert not trial.together
    trial.begin(200)
    trial.end(300)
    assert trial.together
    trial.end(400)
    assert trial.together


def test_a_step_that_fails_does_not_count() -> None:
    trial = TeamTrial()
    for turn in range(TRIAL):
        if trial.together:
            trial.begin(0)  # and it does not end
        trial.begin(1000)
        trial.end(1000 + (50 if trial.together else 100))
        assert turn < TRIAL - 1 or trial.together
