"""Who can reach what `workbench` puts up: its server listens on this machine alone, its files are their owner's."""

from __future__ import annotations

import os
import stat
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

import workbench as wb
from tests.browser.lab_server import LabServer
from workbench.parallel.launch.room import Room

pytestmark = pytest.mark.processes
LOOPBACK = {"0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}  # as the kernel says it
LISTENS = "0A"


def processes_of(group: int) -> list[int]:
    """The processes of a group."""
    numbers = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in numbers if _group_of(pid) == group]


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None


def listening(pid: int) -> Iterator[str]:
    """The addresses a process takes connections at."""
    own = {os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink()}
    for table in ("tcp", "tcp6"):
        path = Path(f"/proc/{pid}/net/{table}")
        rows = [line.split() for line in path.read_text().splitlines()[1:]] if path.exists() else []
        yield from (row[1].partition(":")[0] for row in rows if row[3] == LISTENS and f"socket:[{row[9]}]" in own)


def refused(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return int(error.code)


@pytest.mark.slow
def test_the_server_listens_on_this_machine_and_asks_for_its_token(tmp_path: Path) -> None:
    notebook = Path(__file__).resolve().parent.parent.parent / "notebooks" / "01_quickstart.ipynb"
    with LabServer(notebook, tmp_path) as server:
        served = processes_of(os.getpgid(server._process.pid))
        addresses = [address for pid in served for address in listening(pid)]
        assert addresses and set(addresses) <= LOOPBACK
        assert refused(f"{server.url}api/contents") == refused(f"{server.url}api/kernels") == 403
        files = list((tmp_path / "runtime").rglob("jpserver-*.json"))
        assert files and all(stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 for path in files)


def test_folders_of_jobs_are_their_owners() -> None:
    before = os.umask(0)  # whatever a user's settings let others do
    try:
        room = Room(2, tasks=True)
    finally:
        os.umask(before)
    try:
        folders = [room.path, *([] if room.memory.path is None else [room.memory.path])]
        for folder in folders:
            assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        pipes = [entry for entry in room.path.iterdir() if stat.S_ISFIFO(entry.stat().st_mode)]
        assert len(pipes) == 7 and all(stat.S_IMODE(pipe.stat().st_mode) == 0o600 for pipe in pipes)
    finally:
        room.close()


def test_a_file_that_was_private_stays_private(tmp_path: Path) -> None:
    path = tmp_path / "state"
    wb.save({"step": 1}, str(path))
    path.chmod(0o600)
    before = os.umask(0)
    try:
        wb.save({"step": 2}, str(path))
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and wb.load(str(path)) == {"step": 2}
