"""Locks on folders: of processes and threads of a machine, each ends with the process that holds it.

Where the file system, or the operating system, knows none, nobody waits for anybody.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

_PATIENCE = 60.0  # seconds; what is done under a lock takes milliseconds
_PAUSE = 0.005  # seconds between two looks


@contextlib.contextmanager
def locked(folder: Path, patience: float = _PATIENCE) -> Iterator[None]:
    """Hold the lock of a folder.

    Raises:
        OSError: another one has held it for `patience` seconds, or there is no such folder.
    """
    if fcntl is None:
        yield
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        end = time.monotonic() + patience
        while not _taken(handle):
            if time.monotonic() >= end:
                raise TimeoutError(f"another process has been writing into {folder} for {patience} s")
            time.sleep(_PAUSE)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_UN)  # also of a process that was forked meanwhile
    finally:
        os.close(handle)


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # a file system without locks
    return True
