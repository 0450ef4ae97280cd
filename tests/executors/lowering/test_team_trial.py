"""When a step is run by a team of threads and when by one alone: what is chosen, for given times."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest

from workbench.executors.running.team_trial import TeamTrial, TeamTrials

Times = Callable[[int, bool], int]  # of the step of this number, run together or not
TURNS, TRIAL = 6, 12
SECOND = 1_000_000_000


def ways(steps: int, times: Times) -> list[bool]:
    """Whether each step was run by a team."""
    trial, run = TeamTrial(TeamTrials()), []
    for number in range(steps):
        run.append(trial.together)
        trial.begin(1000)
        trial.end(1000 + times(number, trial.together))
    return run


def chosen(times: Times) -> bool:
    """What is chosen by the first trial."""
    return ways(1 + TRIAL + 1, times)[-1]


def lasting(alone: int, together: int) -> Times:
    return lambda number, is_team: together if is_team else alone


def but(number: int, other: int, times: Times) -> Times:
    """The same, except that the step of this number takes so long."""
    return lambda n, is_team: other if n == number else times(n, is_team)


def stretches(run: list[bool]) -> list[tuple[bool, int]]:
    """Steps in a row that were run the same way: which one, and how many."""
    ends = [at for at in range(1, len(run)) if run[at] is not run[at - 1]]
    return [(run[a], b - a) for a, b in zip([0, *ends], [*ends, len(run)], strict=True)]


def test_the_two_ways_take_turns_behind_the_first_step() -> None:
    assert ways(1 + TRIAL, lasting(100, 50)) == [True, *[True, False] * TURNS]


@pytest.mark.parametrize(
    ("together", "wins"), [(50, True), (94, True), (95, False), (99, False), (100, False), (110, False)]
)
def test_one_thread_is_chosen_unless_a_team_is_clearly_quicker(together: int, wins: bool) -> None:
    assert chosen(lasting(100, together)) is wins


@pytest.mark.parametrize("together", [20, 50, 74])
def test_of_steps_of_seconds_one_is_slow_where_a_team_is_by_far_the_quicker(together: int) -> None:
    run = ways(17, lasting(SECOND, together * SECOND // 100))
    assert [number for number, is_team in enumerate(run) if not is_team] == [2]


@pytest.mark.parametrize("together", [134, 200, 900])
def test_of_steps_of_seconds_few_are_slow_where_a_team_is_by_far_the_slower(together: int) -> None:
    run = ways(17, lasting(SECOND, together * SECOND // 100))
    assert [number for number, is_team in enumerate(run) if is_team] == [0, 1, 3]


@pytest.mark.parametrize("together", [76, 100, 130])
def test_long_steps_take_all_turns_where_the_ways_are_near(together: int) -> None:
    run = ways(1 + TRIAL, lasting(SECOND, together * SECOND // 100))
    assert run == [True, *[True, False] * TURNS]


def test_short_steps_take_all_turns() -> None:
    assert ways(1 + TRIAL, lasting(50_000_000, 1_000_000)) == [True, *[True, False] * TURNS]


@pytest.mark.parametrize("cold", [1, 2])
def test_of_short_steps_the_first_turn_of_each_way_does_not_count(cold: int) -> None:
    """Neither a slow one, which finds caches cold, nor one that seems quick, for it did nothing."""
    for first in (1, 10_000):
        assert chosen(but(cold, first, lasting(100, 70)))
        assert not chosen(but(cold, first, lasting(100, 110)))


def test_the_first_step_does_not_count() -> None:
    """It finds memory cold, however long steps are."""
    for first in (1, 100 * SECOND):
        run = ways(4, but(0, first, lasting(2 * SECOND, SECOND)))
        assert run == [True, True, False, True]


def test_one_quiet_moment_of_each_way_is_enough() -> None:
    """Whatever else the machine does makes steps longer, and never shorter; here it does it to both ways alike."""
    for quiet in range(1, TURNS):

        def times(number: int, is_team: bool, turn: int = quiet) -> int:
            now = (number - 1) // 2
            return (100 if is_team else 80) if now == turn else 10_000 if now % 3 else 5_000

        assert not chosen(times)
        assert chosen(partial(lambda turn, n, is_team: times(n, not is_team, turn), quiet))


def seldom(quick: int, alone: int, waits: int) -> Times:
    """One thread takes as long in all turns; a team is quick in one of three, and waits long in the others."""
    return lambda number, is_team: alone if not is_team else quick if (number - 1) // 2 % 3 == 2 else waits


@pytest.mark.parametrize("waits", [110, 300])
def test_a_team_that_seldom_gets_its_processors_is_not_chosen(waits: int) -> None:
    run = ways(2000, seldom(50, 100, waits))
    assert not run[1 + TRIAL] and sum(run) < 100


@pytest.mark.parametrize(("waits", "is_kept"), [(130, True), (140, False)])
def test_a_team_is_given_up_only_where_it_waits_long(waits: int, is_kept: bool) -> None:
    """It was chosen while the machine was quiet."""
    quiet, busy = 100, seldom(50, 100, waits)
    run = ways(1000, lambda n, is_team: 50 if n < quiet and is_team else busy(n, is_team))
    assert run[quiet - 40] and run[-1] is is_kept


@pytest.mark.parametrize("busy", range(1, 8))
def test_a_neighbour_during_a_long_step_does_not_choose_one_thread(busy: int) -> None:
    """It takes a processor for a step: a team is then no quicker than one thread is, or slower still."""
    for held_up in (2, 3, 10):
        run = ways(60, but(busy, held_up * SECOND, lasting(2 * SECOND, SECOND)))
        assert sum(run) >= 56 and run[-1]


@pytest.mark.parametrize("scale", [100, SECOND])
def test_what_was_chosen_while_the_machine_was_busy_is_not_kept(scale: int) -> None:
    """A team that has been slower by far for many trials is chosen soon after it is the quicker."""
    quiet = 1000
    run = ways(quiet + 600, lambda n, is_team: scale * (2 if not is_team else 6 if n < quiet else 1))
    assert sum(run[:quiet]) < 100 and all(run[quiet + 550 :])
    back = ways(quiet + 600, lambda n, is_team: scale * (2 if not is_team else 1 if n < quiet else 6))
    assert sum(back[:quiet]) > 900 and not any(back[quiet + 550 :])


@pytest.mark.parametrize("together", [93, 95, 97, 99])
@pytest.mark.parametrize("seed", range(4))
def test_ways_that_are_about_as_quick_do_not_take_turns_for_ever(together: int, seed: int) -> None:
    """Whichever was chosen is kept, with times that scatter by some parts of a hundred."""
    rng = np.random.default_rng(seed)
    run = ways(6000, lambda n, is_team: int((together if is_team else 100) * rng.uniform(1000, 1040)))
    kept = [way for way, steps in stretches(run) if steps > TURNS]
    assert len(kept) >= 6 and len(set(kept)) == 1


def test_trials_are_made_more_and_more_seldom() -> None:
    between = [steps for _, steps in stretches(ways(2500, lasting(100, 200))) if steps > 2]
    assert between[:-1] == [18, 33, 65, 129, 257, 513, 513, 513]  # with turns of trials at their ends


def test_of_steps_of_seconds_one_in_a_hundred_is_a_trial() -> None:
    run = ways(1200, lasting(2 * SECOND, SECOND))
    assert [steps for _, steps in stretches(run) if steps > 1][1:5] == [17, 33, 65, 129]
    assert sum(run[400:]) > 0.99 * 800


def test_steps_that_somebody_watches_do_not_count() -> None:
    """They end without having begun."""
    trial = TeamTrial(TeamTrials())
    for _ in range(3):
        trial.end(100)
    assert trial.together
    for _ in range(2):
        trial.begin(200)
        trial.end(300)
    assert not trial.together
    trial.end(400)
    assert not trial.together


def test_a_step_that_fails_does_not_count() -> None:
    trial = TeamTrial(TeamTrials())
    for turn in range(1 + TRIAL):
        if trial.together:
            trial.begin(0)  # and it does not end
        trial.begin(1000)
        trial.end(1000 + (50 if trial.together else 100))
        assert turn < TRIAL or trial.together


class Shapes:
    """Plans of one engine that take turns; a step of each takes so long alone and with a team."""

    def __init__(self, *times: tuple[int, int]) -> None:
        self.trials, self.times = TeamTrials(), times
        self.each = [TeamTrial(self.trials) for _ in times]

    def round(self, *numbers: int) -> list[bool]:
        """A step of each, or of those that are named: whether a team has run it."""
        run = []
        for number in numbers or range(len(self.each)):
            trial = self.each[number]
            run.append(trial.together)
            trial.begin(0)
            trial.end(self.times[number][trial.together])
        return run


def test_of_many_plans_one_is_tried_at_a_time() -> None:
    shapes = Shapes(*[(100 + n, 50 + n) for n in range(20)])
    rounds = [shapes.round() for _ in range(1 + TRIAL)]
    assert all(sum(not way for way in ways) <= 1 for ways in rounds)
    assert sum(not way for ways in rounds for way in ways) == TURNS


def test_plans_that_were_not_tried_go_by_what_came_of_the_last_trial() -> None:
    shapes = Shapes((50, 100), (500, 1000), (1000, 500))
    for _ in range(1 + TRIAL):
        first = shapes.round()
    assert first[1:] == [True, True] and shapes.round() == [False, False, False]
    assert not TeamTrial(shapes.trials).together
    for _ in range(5 * TRIAL):
        last = shapes.round()
    assert last == [False, False, True]  # each as it turned out, once it had its own


def test_a_trial_whose_plan_is_not_run_any_more_does_not_keep_others_waiting() -> None:
    shapes = Shapes((50, 100), (50, 100))
    shapes.round()
    assert shapes.round() == [True, True] and shapes.round(0) == [False]
    run = [way for _ in range(600) for way in shapes.round(1)]
    assert all(run[:500]) and sum(run[500:540]) < 20
