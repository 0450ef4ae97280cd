"""What the tests start ends with them."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.processes.ranks import ROOT, environment, require_mpi

pytestmark = pytest.mark.processes

_LIMIT = 100.0  # seconds, however busy the machine is

_STARTS = """
import sys
from tests.processes.ranks import run_ranks

run_ranks('''
    import os, sys, time
    from pathlib import Path
    from workbench.runtime.comm.mpi.world import world
    told = Path(sys.argv[1], f"rank {world().rank}")
    told.with_suffix(".part").write_text(f"{os.getpid()} {os.getppid()}")
    told.with_suffix(".part").rename(told)
    time.sleep(600)
''', 2, timeout=600, args=(sys.argv[1],))
"""


def test_a_job_does_not_outlive_tests_that_are_killed(tmp_path: Path) -> None:
    require_mpi()
    command = [sys.executable, "-c", _STARTS, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, env=environment()) as tests:
        try:
            told = [tmp_path / f"rank {rank}" for rank in range(2)]
            _await(lambda: all(path.exists() for path in told) or tests.poll() is not None)
            pids = {int(number) for path in told for number in path.read_text().split()}
        finally:
            tests.send_signal(signal.SIGKILL)
    _await(lambda: not any(map(_is_running, pids)))
    assert not any(map(_is_running, pids))


def _await(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + _LIMIT
    while not is_so() and time.monotonic() < until:
        time.sleep(0.05)


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False
