"""When `workbench launch --elastic` starts a script again, what it goes on from, and whom signals reach."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import workbench as wb
from workbench import static
from workbench.errors import PeerFailed, Unavailable
from workbench.executors.running.trainers import Trainers
from workbench.experiments.training.saving.model_checkpoint import left_by_the_start_before
from workbench.parallel.launch import main as launch
from workbench.parallel.launch.job import Job
from workbench.parallel.launch.output import JobOutput
from workbench.parallel.launch.rank import _told
from workbench.parallel.launch.room import Doorway, Failure, Room
from workbench.runtime.standing import LAUNCHED, STARTS

pytest.importorskip("mpi4py")
pytestmark = pytest.mark.processes


@pytest.fixture
def static_mode() -> Iterator[None]:
    wb.enable_static()
    yield
    wb.disable_static()


class Started:
    """Stands for a job that has lost a process, or was asked to end."""

    def __init__(self, at_start: Callable[[], None], variables: dict[str, str]) -> None:
        self.variables = variables
        self.asked: int | None = None
        self.failure: Failure | None = None
        self.lost: dict[int, Failure] = {}
        self.has_lost_one, self.status = True, 1
        at_start()

    def ask(self, number: int) -> None:
        self.asked = number

    def wait(self) -> None:
        """Its processes end at once."""


def elastic(starts: list[Callable[[], None]], folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[int, Any]:
    """A job that loses a process in each of its starts; its exit status, and its starts."""
    jobs: list[Any] = []

    def start(options: Any, launcher: Any, output: JobOutput, room: Room, more: dict[str, str]) -> Any:
        output.close()
        room.close()
        jobs.append(Started(starts[len(jobs)], more))
        return jobs[-1]

    monkeypatch.setattr(launch, "start", start)
    monkeypatch.setattr(launch, "find_launcher", lambda: SimpleNamespace())
    line = ["-n", str(len(starts)), "--elastic", "--log_dir", str(folder / "log"), __file__]
    return launch.main(line), jobs


def test_a_job_goes_on_from_its_own_checkpoints_and_not_from_those_of_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, static_mode: None
) -> None:
    """Which are its own and which is the newest is told by what is in them, not by when files were written."""
    program, startup = static.Program(), static.Program()
    with static.program_guard(program, startup):
        loss = wb.mean(static.nn.fc(static.data("x", [None, 2]), 1))
        wb.optimizer.SGD(0.1).minimize(loss)

    def written(name: str, steps: int, seconds: float) -> str:
        """A checkpoint after so many steps, as old as a file of that time."""
        how = {"startup": startup, "scope": static.Scope(), "progress": False, "record": False}
        path = wb.train(program, [{"x": np.ones((2, 2), np.float32)}], steps, **how).wait(60).save(tmp_path / name)
        os.utime(path, (seconds, seconds))
        return path

    monkeypatch.delenv(LAUNCHED, raising=False)
    written("last.checkpoint", 9, 4e9)
    monkeypatch.setenv(LAUNCHED, "another")
    written("last-v1.checkpoint", 8, 4e9)
    (tmp_path / "last-v2.checkpoint").write_text("of something else")
    _, (first, second) = elastic([lambda: None, lambda: None], tmp_path, monkeypatch)
    left = []
    for job in (first, second):
        for name, value in job.variables.items():
            monkeypatch.setenv(name, value)
        left.append(left_by_the_start_before(tmp_path))
    assert left == [None, None]
    for number, starts, steps, seconds in ((3, "0", 7, 3e9), (4, "1", 4, 1e9), (5, "1", 3, 2e9)):
        monkeypatch.setenv(STARTS, starts)
        written(f"last-v{number}.checkpoint", steps, seconds)
    assert left_by_the_start_before(tmp_path) == str(tmp_path / "last-v4.checkpoint")


def test_a_signal_between_two_starts_ends_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def told() -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    status, jobs = elastic([lambda: None, told, lambda: None], tmp_path, monkeypatch)
    assert status == 128 + signal.SIGTERM and [job.asked for job in jobs] == [None, signal.SIGTERM]
    assert "ended by SIGTERM" in capsys.readouterr().err


def test_a_job_that_is_over_notes_that_it_was_asked_to_end_and_signals_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    signalled: list[tuple[int, int]] = []
    job = Job([sys.executable, "-c", ""], Room(1), JobOutput(1, None), {})
    assert job.wait(60)
    monkeypatch.setattr(os, "kill", lambda *told: signalled.append(told))
    job.ask(signal.SIGUSR1)
    assert job.asked is None
    job.ask(signal.SIGTERM)
    assert job.asked == signal.SIGTERM and not signalled


def test_an_mpiexec_that_fails_by_itself_is_no_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mpiexec = tmp_path / "mpiexec"
    mpiexec.write_text('#!/bin/bash\n[ "$1" = --version ] && { echo HYDRA; exit; }\nexit 7\n')
    mpiexec.chmod(0o755)
    monkeypatch.setenv("WORKBENCH_MPIEXEC", str(mpiexec))
    assert launch.main(["-n", "2", "--elastic", "--log_dir", str(tmp_path / "log"), __file__]) == 7
    assert "starting again" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "is_of_a_loss"),
    [
        (PeerFailed("the step was given up: trainer 1: the process is gone", [1]), True),
        (ValueError("the file of batch 7 is gone"), False),
    ],
    ids=["loss", "own"],
)
def test_what_is_said_of_a_loss_is_told_from_an_error_of_the_program(error: Exception, is_of_a_loss: bool) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    room = Room(2)
    _told(Doorway(room.path, 0), error)
    (room.path / "started.1").write_text(str(gone.pid))
    job = Job([sys.executable, "-c", "raise SystemExit(1)"], room, JobOutput(2, None), {})
    assert job.wait(60) and job.has_lost_one == is_of_a_loss


@pytest.mark.parametrize("state", ["gone", ""])
def test_the_others_are_told_that_the_one_which_counts_votes_is_gone(state: str) -> None:
    window = SimpleNamespace(state_of=lambda rank: state)
    channel = SimpleNamespace(window=window, forget_cause=lambda: None)
    group: Any = SimpleNamespace(channel=channel, member=lambda rank: f"rank {rank}")
    ballot: Any = SimpleNamespace(settle=lambda error: None, is_open=True)
    trainers: Any = SimpleNamespace(_group=group, _ballot=ballot)
    with pytest.raises(Unavailable) as caught:
        Trainers.settle(trainers, PeerFailed("the vote was given up"))
    assert ("rank 0 is gone" in str(caught.value)) == (state == "gone")
