"""A private folder in which a job's processes and whoever started it meet, on one machine.

    alive            a pipe nobody writes to: it ends when whoever started the job does, and the processes with it
    out.N, err.N     pipes: what process N prints
    task.N           a pipe: the function process N is to call, where it was started by `spawn`
    started.N        its process id
    ready.N          it has met the others, and begins its script
    failed.N         how it failed, in JSON
    ended.N          it has come to its end, well or not
    ending           all processes were asked to end

The folder belongs to the user alone (mode 0700). On other machines there is none: what processes print there goes
through mpiexec. Whoever opens the next one on this machine removes those that all have left without a word.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import shutil
import signal
import socket
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, NamedTuple

from workbench.parallel.launch.memory import JobMemory
from workbench.runtime.comm.mpi.memory.peers import state_of

LENGTH_BYTES = 8  # of the length of a task

SETTING = "WORKBENCH_JOB"
"""The variable by which processes learn of their job: what `Room.setting` says, in JSON."""


ENDING = "ending"
_PREFIX = f"workbench-job-{socket.gethostname()}-"  # others may see the folder, but not who has its pipes open
_BEGINNING = 60.0  # seconds a folder may be there before somebody has its pipes open


class Failure(NamedTuple):
    """How a process failed.

    Attributes:
        when: seconds since the epoch. traceback: of its exception, if that was it.
        is_of_a_loss: another process is gone; there is nothing wrong with what the program of this one did.
    """

    rank: int
    what: str
    traceback: str
    when: float
    is_of_a_loss: bool = False


class Room:
    """The folder, as whoever starts a job sees it.

    Args:
        processes: how many there will be. tasks: there is a pipe for the function each of them is to call.

    Attributes:
        memory: where they put the files of what they share.
    """

    def __init__(self, processes: int, tasks: bool = False) -> None:
        remove_deserted()
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self.memory = JobMemory()
        self.processes = processes
        names = ["out", "err", *(["task"] if tasks else [])]
        for name in ["alive", *(f"{name}.{rank}" for rank in range(processes) for name in names)]:
            os.mkfifo(self.path / name, 0o600)
        self._alive = os.open(self.path / "alive", os.O_RDWR)

    def setting(self, **more: Any) -> dict[str, str]:
        """The variable that tells processes of this job, and `more` of it."""
        return {SETTING: json.dumps({"room": str(self.path), "host": socket.gethostname(), **more})}

    def open_output(self, rank: int, stream: str) -> int:
        """The end of a process's output, `"out"` or `"err"`, that is read; reading never waits."""
        return os.open(self.path / f"{stream}.{rank}", os.O_RDWR | os.O_NONBLOCK)

    def open_task(self, rank: int) -> int:
        """The end of the pipe into which the function of a process is written; writing never waits."""
        return os.open(self.path / f"task.{rank}", os.O_RDWR | os.O_NONBLOCK)

    def pids(self) -> dict[int, int]:
        """The processes that have begun, and are on this machine: rank -> process id."""
        pids = {}
        for rank in range(self.processes):
            text = _read(self.path / f"started.{rank}")
            if text:
                pids[rank] = int(text)
        return pids

    def failures(self) -> list[Failure]:
        """Those that told of their failure, the first one first."""
        texts = [_read(self.path / f"failed.{rank}") for rank in range(self.processes)]
        return sorted((Failure(**json.loads(text)) for text in texts if text), key=lambda failure: failure.when)

    def tell_ending(self) -> None:
        """Leave word that all processes are being asked to end."""
        (self.path / ENDING).touch()

    def lost(self) -> set[int]:
        """The processes that are gone without a word."""
        said = self.ended()
        return {rank for rank, pid in self.pids().items() if state_of(pid) == "gone" and rank not in said}

    def ready(self) -> set[int]:
        """The processes that have met the others, and begun their script."""
        return self._having("ready")

    def ended(self) -> set[int]:
        """The processes that have come to their end, well or not."""
        return self._having("ended")

    def _having(self, name: str) -> set[int]:
        return {rank for rank in range(self.processes) if (self.path / f"{name}.{rank}").exists()}

    def close(self) -> None:
        """Let the processes that are left end, and remove the folders."""
        self.memory.close()
        if self._alive >= 0:
            os.close(self._alive)
            self._alive = -1
        shutil.rmtree(self.path, ignore_errors=True)


def remove_deserted() -> None:
    """Remove this user's folders that nobody is in: whoever started the job was killed before a process had come."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # somebody else was quicker
            if path.stat(follow_symlinks=False).st_uid == os.getuid() and _is_deserted(path):
                shutil.rmtree(path, ignore_errors=True)


def _is_deserted(path: Path) -> bool:
    if time.time() - path.stat().st_mtime < _BEGINNING:
        return False
    try:
        os.close(os.open(path / "alive", os.O_WRONLY | os.O_NONBLOCK | os.O_NOFOLLOW))
    except OSError as error:
        return error.errno in (errno.ENXIO, errno.ENOENT)  # nobody has the other end, or there is none
    return False


class Doorway:
    """The folder, as one process of the job sees it."""

    def __init__(self, path: Path, rank: int) -> None:
        self.path, self.rank = path, rank

    def enter(self) -> None:
        """Print into the pipes, tell the process id, and end when whoever started the job has ended."""
        alive = os.open(self.path / "alive", os.O_RDONLY | os.O_NONBLOCK)
        os.set_blocking(alive, True)
        threading.Thread(target=self._end_with, args=(alive,), name="workbench-end-with-launcher", daemon=True).start()
        for number, stream in ((1, "out"), (2, "err")):
            file = os.open(self.path / f"{stream}.{self.rank}", os.O_WRONLY)  # waits for ever where nobody reads
            os.dup2(file, number)
            os.close(file)
        self._write("started", str(os.getpid()))

    def tell_ready(self) -> None:
        """Leave word that the script begins."""
        self._write("ready", "")

    def tell_failure(self, what: str, traceback: str, is_of_a_loss: bool = False) -> None:
        """Leave word of a failure, see `Failure`."""
        failure = Failure(self.rank, what, traceback, time.time(), is_of_a_loss)
        self._write("failed", json.dumps(failure._asdict()))

    def tell_end(self) -> None:
        """Leave word that the process has not been killed."""
        with contextlib.suppress(OSError):  # whoever started the job has gone
            self._write("ended", "")

    def task(self) -> bytes:
        """What whoever started the job has for this process to do: its length comes first."""
        with (self.path / f"task.{self.rank}").open("rb") as pipe:
            return pipe.read(int.from_bytes(pipe.read(LENGTH_BYTES), "little"))

    def _end_with(self, alive: int) -> None:
        os.read(alive, 1)  # returns when nobody has the other end
        shutil.rmtree(self.path, ignore_errors=True)
        os.kill(os.getpid(), signal.SIGKILL)

    def _write(self, name: str, text: str) -> None:
        """As a whole or not at all."""
        part = self.path / f"{name}.{self.rank}.part"
        part.write_text(text)
        part.rename(part.with_suffix(""))


def doorway(job: dict[str, Any], rank: int) -> Doorway | None:
    """The way to the job's folder; None on another machine."""
    path = Path(job["room"])
    return Doorway(path, rank) if job["host"] == socket.gethostname() and path.is_dir() else None


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""
