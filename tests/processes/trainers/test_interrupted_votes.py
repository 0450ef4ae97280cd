"""Interrupts between a trainer's vote and its outcome, one or several: all trainers apply a step, or none."""

from __future__ import annotations

import pytest

from tests.processes.ranks import run_ranks
from tests.processes.trainer_steps import STEPS

pytestmark = pytest.mark.processes

_ROUNDS = """
    import itertools, random, zlib
    from tests.processes.injected import Injected

    fetches, interrupted = [loss] if sys.argv[1] == "one call" else [loss, *weights], int(sys.argv[2])
    executor.inspection.execution.num_iteration_per_drop_scope = 3  # what is not applied yet is in what is dropped
    step = lambda: executor.run(fetches, feed=feed())
    for _ in range(3):
        step()
    draw, came, answered = random.Random(5), [0, 0, 0, 0], 0
    for number in range(int(sys.argv[3])):
        moments = number % 60, draw.randrange(25), draw.randrange(25)
        call = Injected(*moments[: 1 + number % 3]) if rank == interrupted else lambda function: function()
        try:
            call(step)
        except (KeyboardInterrupt, Aborted):
            answered += 1
        came[getattr(call, "came", 0)] += 1
        try:
            step()
        except Aborted:  # who wanted to leave a vote that went on makes all leave the next step
            pass
        told = [executor.inspection.steps, zlib.crc32(held())]
        rows = world().all_gather(np.array(told)).wait()
        assert (rows == rows[0]).all(), (number, moments, rows.tolist())
    if rank == interrupted:
        assert answered and all(came[1:]), came
    print(executor.inspection.steps, held().hex())
    print(came, answered, file=sys.stderr)
"""


@pytest.mark.parametrize("interrupted", [0, 1])
@pytest.mark.parametrize("way", ["one call", "in parts"])
def test_whatever_interrupts_a_vote_the_step_is_applied_by_all_or_by_none(way: str, interrupted: int) -> None:
    job = run_ranks(STEPS + _ROUNDS, 2, timeout=120, args=(way, str(interrupted), "180"))
    assert job.code == 0 and len(set(job.outputs)) == 1, str(job)


def test_a_step_that_is_left_between_its_vote_and_the_outcome_is_applied_before_the_next_one() -> None:
    """Also where temporaries are dropped in between: what is to be applied lies there."""
    job = run_ranks(
        STEPS
        + """
    import zlib
    from workbench.executors.running.step import open_step
    from workbench.executors.running.trainers import Trainers

    agree, undisturbed, interrupts = Trainers.agree, open_step.undisturbed, 0

    def interrupted(function, *args):
        global interrupts
        if interrupts:
            interrupts -= 1
            raise KeyboardInterrupt
        return function(*args)

    Trainers.agree = lambda self: (agree(self), interrupted(lambda: None))
    open_step.undisturbed = lambda function: interrupted(undisturbed, function)
    executor.inspection.execution.num_iteration_per_drop_scope = 3
    for number in range(12):
        interrupts, applied = 3 * rank, executor.inspection.steps
        try:
            executor.run([loss, *weights], feed=feed())
        except KeyboardInterrupt:
            assert executor.inspection.steps == applied
        executor.run([loss], feed=feed())
        told = [executor.inspection.steps, zlib.crc32(held())]
        rows = world().all_gather(np.array(told)).wait()
        assert (rows == [applied + 2, told[1]]).all(), (number, rows.tolist())
    print("done")
    """,
        2,
    )
    assert job.code == 0 and job.outputs == ["done\n"] * 2, str(job)
