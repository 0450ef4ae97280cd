"""`workbench launch` ends a job with servers when its trainers have ended, however they did."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers.job import launched, results_in
from workbench.parallel.launch import job as jobs
from workbench.parallel.launch.job import Job
from workbench.parallel.launch.output import JobOutput
from workbench.parallel.launch.room import Room
from workbench.parallel.launch.variables import ServerRoles

pytestmark = pytest.mark.processes

_LEFT = """
    if role == "server":
        main, startup = server_programs(endpoints[0], trainers, mode=0, shape=(3,))
        executor.run(startup)
        executor.run(main)
        results["w"] = static.global_scope().find_var("w").get_tensor().array.tolist()
    else:
        main, startup = trainer_programs(endpoints[0], index, trainers, sync=True, shape=(3,))
        executor.run(startup)
        executor.run(main, feed={"x": np.full(3, 2.0, np.float32)}, fetch_list=["w"])
"""


def test_trainers_that_end_well_without_a_farewell_end_the_job(tmp_path: Path) -> None:
    with launched(tmp_path, _LEFT) as job:
        said = job.communicate(timeout=80)[0]
    assert job.returncode == 0 and "server0" in results_in(tmp_path), said


_STANDS_IN = """
import os, subprocess, sys, time

def begun(rank, seconds):
    command = [sys.executable, "-c", f"import time; time.sleep({seconds})"]
    return subprocess.Popen(command, env=os.environ | {"PMIX_RANK": rank})

other, first = begun("1", 60), begun("0", 2)
first.wait()
time.sleep(60)
"""


def test_a_process_that_ends_before_it_has_come_ends_the_job_instead_of_leaving_the_others_waiting() -> None:
    job = Job([sys.executable, "-c", _STANDS_IN], Room(2), JobOutput(2, None), {}, ServerRoles(1, 1))
    try:
        assert job.wait(25)
        assert job.failure is not None and job.failure.what == "trainer 0 ended before its script began"
    finally:
        job.end()


def test_servers_to_which_killed_trainers_never_came_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "LAST_WORK", 0.0)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    room = Room(2)
    (room.path / "started.0").write_text(str(gone.pid))
    (room.path / "ready.0").touch()
    job = Job([sys.executable, "-c", "import time; time.sleep(60)"], room, JobOutput(2, None), {}, ServerRoles(1, 1))
    try:
        assert job.wait(30)
        assert job.failure is not None and job.failure.what == "trainer 0 was killed"
    finally:
        job.end()
