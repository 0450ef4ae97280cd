"""Files of shared memory that killed MPI jobs have left: removed if nobody uses them, and nothing else is."""

from __future__ import annotations

import mmap
import os
import time
from pathlib import Path

import pytest

from workbench.runtime.comm.mpi.memory import leftovers
from workbench.runtime.comm.mpi.memory.leftovers import remove_leftovers

NAMES = [
    "sm_segment.vm.0.ef9d0001.1",
    "osc_sm.vm.ef9d0001.0.5",
    "mpich_shm_aa091649_0",
    "vader_segment.vm.0.7b1c0000.0",
]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "_YOUNG", -1.0)


def fill(folder: Path) -> None:
    for name in NAMES:
        (folder / name).write_bytes(b"\0" * 4096)


def test_what_nobody_has_in_memory_is_removed(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "somebody's sm_segment").touch()
    (tmp_path / "mpich_shm_of_mine").touch()
    with (tmp_path / NAMES[0]).open("r+b") as file, mmap.mmap(file.fileno(), 4096):
        assert sorted(path.name for path in remove_leftovers(tmp_path)) == sorted(NAMES[1:])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mpich_shm_of_mine", NAMES[0], "somebody's sm_segment"]


def test_what_has_just_come_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "_YOUNG", 300.0)
    fill(tmp_path)
    os.utime(tmp_path / NAMES[0], (time.time() - 1e6,) * 2)  # what says so is when it came, too
    assert remove_leftovers(tmp_path) == [] and len(list(tmp_path.iterdir())) == len(NAMES)
