"""The folder in which the processes of a job on one machine put the files of the memory they share.

MPI removes its files when the processes end; where all of them, and whoever started them, are killed at once, nobody
is left who could, and the memory stays taken. So a job's files lie in a folder of its own, with a file that is locked
as long as its owner lives, and whoever starts the next job removes the folders of this user whose owners are gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from pathlib import Path

from workbench.runtime.comm.mpi.memory.leftovers import SHARED, remove_leftovers

_PREFIX, _LOCK = "workbench-memory-", "owner"
_BEGINNING = 60.0  # seconds a folder may be there without its lock
_SETTINGS = ("OMPI_MCA_btl_sm_backing_directory", "OMPI_MCA_osc_sm_backing_directory")


class JobMemory:
    """The folder of one job, until it is closed.

    Attributes:
        path: None where the system has no such folders.
    """

    def __init__(self) -> None:
        self.path: Path | None = None
        self._lock = -1
        if not os.access(SHARED, os.W_OK | os.X_OK):
            return
        remove_orphans()
        self.path = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=SHARED))
        part = self.path / f"{_LOCK}.part"
        self._lock = os.open(part, os.O_CREAT | os.O_RDWR, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        part.rename(self.path / _LOCK)  # nobody finds it before it is locked

    def variables(self) -> dict[str, str]:
        """By which Open MPI learns of it; MPICH has no such thing."""
        return {} if self.path is None else dict.fromkeys(_SETTINGS, str(self.path))

    def close(self) -> None:
        """Remove it. What processes have of it they keep until they end."""
        if self.path is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self.path = None


def remove_orphans() -> None:
    """Remove the folders of this user whose owners are gone, and what jobs without a folder have left."""
    remove_leftovers(SHARED)
    for folder in SHARED.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # somebody else was quicker
            if folder.stat(follow_symlinks=False).st_uid == os.getuid() and _is_deserted(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _is_deserted(folder: Path) -> bool:
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return time.time() - folder.stat().st_mtime > _BEGINNING
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(lock)
