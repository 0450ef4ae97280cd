"""When a step is run the other way, with a team of threads or without, to see which is quicker."""

from itertools import pairwise

from workbench.executors.running.team_trial import TeamTrial


def ways(steps: int, together: float, alone: float) -> list[bool]:
    """Whether each step was run by a team, where the two ways take so long."""
    trial, found = TeamTrial(), []
    for _ in range(steps):
        found.append(trial.together)
        trial.took(together if trial.together else alone)
    return found


def test_the_slower_way_is_tried_more_and_more_seldom() -> None:
    tried = [number for number, together in enumerate(ways(2500, 1.0, 2.0)) if not together]
    assert tried[0] == 4
    assert [later - earlier for earlier, later in pairwise(tried)] == [9, 17, 33, 65, 129, 257, 513, 513, 513]


def test_the_quicker_way_is_kept_and_the_other_one_soon_tried_again() -> None:
    assert ways(20, 2.0, 1.0) == [True] * 4 + [False] * 5 + [True] + [False] * 8 + [True] + [False]
