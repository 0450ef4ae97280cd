"""Starts the processes of a job one by one, and a trainer that was killed again: it stands where mpiexec stands else.

Servers and trainers talk by gRPC then. To them a trainer that comes again is one that comes late; MPI, which knows how
many processes a job has from its beginning, has no place for it.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

from workbench.errors import Unavailable
from workbench.parallel.launch.job import GRACE
from workbench.parallel.launch.room import ENDING, SETTING, Doorway
from workbench.parallel.launch.variables import ServerRoles
from workbench.runtime.standing import STARTS
from workbench.version import installing

RANK = "WORKBENCH_RANK"
"""The variable by which a process that no MPI has started learns which one of its job it is."""


def require_grpc() -> None:
    """Raise Unavailable if processes could not talk, or scripts not be run."""
    missing = [name for name in ("grpc", "mpi4py") if find_spec(name) is None]
    if missing:
        raise Unavailable(
            "processes of which one may be started again talk by gRPC, and mpi4py runs their scripts; "
            f"{' and '.join(missing)} is missing: {installing('processes', 'ps')}"
        )


class Starter:
    """Of one job.

    Args:
        room: its folder. command: what every process runs. roles: how many trainers and servers there are.
        restarts: how often, in all, a trainer is started again.
    """

    def __init__(self, room: Path, command: Sequence[str], roles: ServerRoles, restarts: int) -> None:
        self._room, self._command, self._roles, self._restarts = room, list(command), roles, restarts
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._starts = [0] * (roles.trainers + roles.servers)
        self._is_ending, self._launcher = False, os.getppid()

    def is_left(self, patience: float = 0.0) -> bool:
        """Whether whoever started the job has gone, killed.

        Args:
            patience: seconds in which that may show, for all are asked to end a moment before.
        """
        end = time.monotonic() + patience
        while os.getppid() == self._launcher and self._is_ending and time.monotonic() < end:
            time.sleep(0.01)
        return os.getppid() != self._launcher

    def run(self) -> int:
        """Return when all processes have ended: the exit status of the first that failed, else 0.

        It is that of SIGTERM where this came before all were started.
        """
        signal.signal(signal.SIGTERM, self._end)
        status = 0
        for number in range(len(self._starts)):
            if self._is_ending:
                status = 128 + signal.SIGTERM
                break
            self._start(number)
        while self._processes:
            pid, ended = os.wait()
            rank = next((number for number, process in self._processes.items() if process.pid == pid), None)
            if rank is None:
                continue
            code = self._processes.pop(rank).returncode = os.waitstatus_to_exitcode(ended)
            if not code or (code < 0 and self._comes_again(rank)):
                continue
            status = status or (code if code > 0 else 128 - code)
            if not (self._room / ENDING).exists():  # else whoever asked has asked all of them
                self._end()
        return status

    def _start(self, rank: int) -> None:
        told = {RANK: str(rank), STARTS: str(self._starts[rank])}
        process = self._processes[rank] = subprocess.Popen(self._command, env=os.environ | told)
        self._starts[rank] += 1
        if self._is_ending:  # asked while it was being started, which had not been noted yet
            _signal(process, signal.SIGTERM)

    def _comes_again(self, rank: int) -> bool:
        """Start a process that was killed again, if it is to be; tell of it."""
        if self._is_ending or self.is_left() or (self._room / ENDING).exists() or not self._room.is_dir():
            return False
        if (self._room / f"ended.{rank}").exists():  # only its interpreter broke down: what it trained is applied
            return False
        name = self._roles.name(rank)
        is_server, what = rank >= self._roles.trainers, "the job ends"
        if not is_server and self._restarts:
            self._restarts -= 1
            what = f"it is started again ({self._restarts} restarts left)"
        with suppress(OSError):  # whoever reads it may be going just now
            print(f"process {rank}, {name}, was killed: {what}", file=sys.stderr, flush=True)
            if what == "the job ends":
                Doorway(self._room, rank).tell_failure(f"{name} was killed", "")
        if what == "the job ends":
            return False
        self._start(rank)
        return True

    def _end(self, number: int = 0, frame: FrameType | None = None) -> None:
        """Ask all to end; those that have not after a while are killed."""
        if not self._is_ending:
            signal.signal(signal.SIGALRM, self._kill)
            signal.setitimer(signal.ITIMER_REAL, GRACE)
        self._is_ending = True
        for process in [*self._processes.values()]:
            _signal(process, signal.SIGTERM)

    def _kill(self, number: int, frame: FrameType | None) -> None:
        for process in [*self._processes.values()]:
            _signal(process, signal.SIGKILL)


def _signal(process: subprocess.Popen[bytes], number: int) -> None:
    """Unlike `send_signal`, which would take note of ends that `run` waits for."""
    with suppress(ProcessLookupError):
        os.kill(process.pid, number)


def main() -> int:
    """Start what the command line says, for the job in the environment."""
    job = json.loads(os.environ[SETTING])
    roles = ServerRoles(job["processes"] - job["server_count"], job["server_count"])
    starter = Starter(Path(job["room"]), sys.argv[1:], roles, job["restarts"])
    status = starter.run()
    if starter.is_left(patience=0.5):  # processes may have ended before they could remove the folder
        shutil.rmtree(job["room"], ignore_errors=True)
    return status


if __name__ == "__main__":
    raise SystemExit(main())
