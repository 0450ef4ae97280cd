"""Memory that MPI shares among processes by files in `/dev/shm`, and leaves there when all of them are killed at once.

`workbench launch` gives its jobs a folder of their own (`parallel.launch.memory`). Jobs that mpiexec started by itself
have their files side by side; whoever starts next removes those of this user that no process has in its memory.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path

SHARED = Path("/dev/shm")  # memory as files
_NAMES = re.compile(r"(sm_segment|osc_sm|vader_segment)\.\S+\.[0-9a-f]+\.\d+(\.\d+)?|mpich_shm_[0-9a-f]+_\d+")
_YOUNG = 300.0  # seconds in which a job that begins may not have come to its files yet


def remove_leftovers(folder: Path = SHARED) -> list[Path]:
    """Remove the files of MPI jobs of this user that are gone.

    Returns:
        what was removed.
    """
    old = {str(path): path for path in _files_of_mpi(folder)}
    used = _mapped(folder) if old else set()
    removed = [path for name, path in old.items() if name not in used]
    for path in removed:
        path.unlink(missing_ok=True)
    return removed


def _files_of_mpi(folder: Path) -> list[Path]:
    """Those of this user that have been there for a while."""
    kept = []
    for path in folder.glob("*") if os.access(folder, os.W_OK | os.X_OK) else ():
        with contextlib.suppress(OSError):  # gone by now
            status = path.stat(follow_symlinks=False)
            is_old = time.time() - max(status.st_mtime, status.st_ctime) > _YOUNG
            if is_old and status.st_uid == os.getuid() and _NAMES.fullmatch(path.name):
                kept.append(path)
    return kept


def _mapped(folder: Path) -> set[str]:
    """The files of a folder that processes of this user have in their memory.

    Where one does not let itself be seen no harm is done: what a process has in its memory it keeps, and by now it has
    come to all its files.
    """
    mapped: set[str] = set()
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or does not let itself be seen
            if process.stat().st_uid == os.getuid():
                lines = (process / "maps").read_text(errors="replace").splitlines()
                mapped.update(line.split(maxsplit=5)[-1] for line in lines if f" {folder}/" in line)
    return mapped
