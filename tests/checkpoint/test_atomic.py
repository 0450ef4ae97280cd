"""Files are replaced whole or not at all: faults at every system call, kills, full disks, odd targets."""

import errno
import os
import random
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from workbench.checkpoint import atomic
from workbench.checkpoint.atomic import file_inside, read_file, replace_file
from workbench.checkpoint.files import read_json, read_tensors
from workbench.errors import InvalidArgument

ROOT = Path(__file__).resolve().parent.parent.parent


def leftovers(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{atomic.PREFIX}*"))


def test_a_file_is_made_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "new folder" / "x"
    replace_file(path, [b"a", bytearray(b"b"), memoryview(b"c")])
    assert read_file(path) == b"abc"
    path.chmod(0o640)
    replace_file(str(path), [b"second"])
    assert path.read_bytes() == b"second"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert sorted(path.parent.iterdir()) == [path]


# Faults


class Faulty:
    """`os`, with a fault instead of call number `at`."""

    def __init__(self, at: int, fault: BaseException) -> None:
        self.at, self.fault, self.calls = at, fault, 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(os, name)
        if not callable(real) or isinstance(real, type) or name in ("fspath", "readlink"):
            return real

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            if self.calls == self.at:
                raise self.fault
            return real(*args, **kwargs)

        return call


def test_all_bytes_are_handed_to_the_disk_before_the_name_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes, sync, replace = [], os.fsync, os.replace

    def noted_sync(handle: int) -> None:
        sizes.append(os.fstat(handle).st_size)
        sync(handle)

    def noted_replace(*paths: str) -> None:
        assert sizes == [5], "the new file is on the disk, whole, before it takes the old one's name"
        replace(*paths)

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(os, "replace", noted_replace)
    replace_file(tmp_path / "x", [b"he", b"llo"])
    assert (tmp_path / "x").read_bytes() == b"hello"


@pytest.mark.parametrize("fault", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_a_fault_at_any_system_call_leaves_the_old_file_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: BaseException
) -> None:
    path = tmp_path / "x"
    outcomes = []
    for at in range(1, 100):
        path.write_bytes(b"old")
        faulty = Faulty(at, fault)
        monkeypatch.setattr(atomic, "os", faulty)
        said = "fine"
        try:
            replace_file(path, [b"new"])
        except (OSError, KeyboardInterrupt) as exc:
            said = str(exc)
        monkeypatch.undo()
        content = path.read_bytes()
        assert content in (b"old", b"new")
        if said != "fine" and isinstance(fault, OSError):
            assert str(path) in said and "No space left" in said
        if "unchanged" in said:
            assert content == b"old"
        if "was replaced" in said or said == "fine":
            assert content == b"new"
        outcomes.append((content, said == "fine"))
        replace_file(path, [b"again"])
        assert leftovers(tmp_path) == []
        if faulty.calls < at:
            break
    assert faulty.calls < at, "the last round should have run without a fault"
    assert (b"old", False) in outcomes and (b"new", False) in outcomes and outcomes[-1] == (b"new", True)


def test_a_fault_leaves_no_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "x"
    monkeypatch.setattr(atomic.os, "fsync", full)
    with pytest.raises(OSError, match=r"cannot save .*x: No space left on device; nothing was written") as caught:
        replace_file(path, [b"new"])
    assert caught.value.errno == errno.ENOSPC
    assert list(tmp_path.iterdir()) == []


IN_CHILD = """
import os, resource, sys
from workbench.checkpoint.atomic import replace_file
path, what = sys.argv[1:]
if what == "limit":
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
elif os.geteuid() == 0:
    os.setuid(65534)
try:
    replace_file(path, [bytes(1_000_000)])
except OSError as exc:
    print(type(exc).__name__, exc)
"""


def in_child(path: Path, what: str) -> str:
    command = [sys.executable, "-c", IN_CHILD, str(path), what]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True).stdout


def test_a_disk_that_takes_no_more(tmp_path: Path) -> None:
    """A real short write: the process may not write more than 100,000 bytes to a file."""
    path = tmp_path / "x"
    path.write_bytes(b"old")
    assert "File too large; the file there is unchanged" in in_child(path, "limit")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users may pass through (pytest's own may not be)."""
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def test_a_read_only_folder(open_folder: Path) -> None:
    path = open_folder / "x"
    path.write_bytes(b"old")
    open_folder.chmod(0o555)
    said = in_child(path, "unprivileged")
    open_folder.chmod(0o755)
    assert said.startswith("PermissionError")
    assert f"cannot save {path}: Permission denied; the file there is unchanged" in said
    assert path.read_bytes() == b"old"


# Odd targets


def test_links_folders_and_pipes_are_no_targets(tmp_path: Path) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.write_bytes(b"old")
    link.symlink_to(real)
    with pytest.raises(InvalidArgument, match=r"is a symbolic link to .*real"):
        replace_file(link, [b"new"])
    assert real.read_bytes() == b"old" and link.is_symlink()
    assert read_file(link) == b"old"
    with pytest.raises(InvalidArgument, match="it is a folder"):
        replace_file(tmp_path, [b"new"])
    with pytest.raises(InvalidArgument, match="is a folder, not a file"):
        read_file(tmp_path)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(InvalidArgument, match="not a regular file"):
        replace_file(pipe, [b"new"])
    with pytest.raises(InvalidArgument, match="not a regular file"):
        read_file(pipe)
    with pytest.raises(FileNotFoundError, match=r"cannot read .*missing: No such file"):
        read_file(tmp_path / "missing")
    with pytest.raises(NotADirectoryError, match="cannot save"):
        replace_file(real / "x", [b"new"])


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "/etc/passwd", "a\\b", "a\0b", "..\\x", 5])
def test_names_that_lead_elsewhere_are_refused(name: Any) -> None:
    with pytest.raises(InvalidArgument, match="is not the name of a file in"):
        file_inside("folder", name)


def test_plain_names_are_files_of_the_folder() -> None:
    assert file_inside("folder", "fc_0.w_0") == Path("folder/fc_0.w_0")
    assert file_inside("folder", "..x") == Path("folder/..x")


# Dead and living writers


def test_temporary_files_of_dead_writers_are_removed_and_those_of_living_ones_kept(tmp_path: Path) -> None:
    dead = tmp_path / f"{atomic.PREFIX}0123456789abcdef{atomic.SUFFIX}"
    dead.write_bytes(b"half")
    handle, living = atomic._open_temporary(tmp_path)
    replace_file(tmp_path / "x", [b"new"])
    assert leftovers(tmp_path) == [Path(living)]
    os.close(handle)
    replace_file(tmp_path / "x", [b"new"])
    assert leftovers(tmp_path) == []


def test_writers_at_once_do_not_remove_each_others_files(tmp_path: Path) -> None:
    errors: list[BaseException] = []

    def write(number: int) -> None:
        try:
            for _ in range(60):
                replace_file(tmp_path / f"file{number % 2}", [bytes([number]) * 5000])
        except BaseException as exc:
            errors.append(exc)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert errors == []
    assert leftovers(tmp_path) == []
    for name in ("file0", "file1"):
        assert len(set((tmp_path / name).read_bytes())) == 1


# Kills

SAVER = """
import os, sys
import numpy as np
from workbench.checkpoint.files import write_json, write_tensors
folder = sys.argv[1]

def save(version):
    tensors = {f"t{i}": np.full((300, 200), version, np.float32) for i in range(3)}
    write_tensors(os.path.join(folder, "weights"), tensors, {"version": version})
    write_json(os.path.join(folder, "program"), {"version": version, "ops": [version] * 2000}, "program")

for line in sys.stdin:
    version, pid = int(line), os.fork()
    while pid == 0:
        save(version)
        os.write(1, b"saved %d\\n" % version)
        version += 1
    os.write(1, b"child %d\\n" % pid)
    os.waitpid(pid, 0)
    os.write(1, b"reaped 0\\n")
"""


def versions(folder: Path) -> tuple[int, int]:
    """The versions of the two files, each found whole."""
    tensors, metadata = read_tensors(folder / "weights")
    assert sorted(tensors) == ["t0", "t1", "t2"]
    for array in tensors.values():
        assert array.shape == (300, 200) and np.all(array == metadata["version"])
    document = read_json(folder / "program", "program")
    assert document["ops"] == [document["version"]] * 2000
    return metadata["version"], document["version"]


def kill_once(saver: subprocess.Popen[str], start: int, delay: float) -> int:
    """Let a process save version after version from `start`, kill it, return the last one it reported."""
    assert saver.stdin and saver.stdout
    saver.stdin.write(f"{start}\n")
    saver.stdin.flush()
    saved, pid = start - 1, 0
    while True:
        word, number = saver.stdout.readline().split()
        if word == "saved":
            saved = int(number)
        if word == "child":
            pid = int(number)
            time.sleep(delay)
            os.kill(pid, signal.SIGKILL)
        if word == "reaped":
            return saved


def first_version(saver: subprocess.Popen[str]) -> int:
    """The first version there is to go back to; a busy machine gets more time for it."""
    for delay in (0.3, 1.0, 3.0, 10.0):
        version = kill_once(saver, 1, delay)
        if version > 0:
            return version
    raise AssertionError("not one version was saved")


def test_kill_at_random_moments_leaves_the_old_version_or_the_new(tmp_path: Path) -> None:
    """100 kills; a process is forked from one that has done its imports, so that only saving is hit."""
    generator = random.Random()
    midway = 0
    saver = subprocess.Popen(
        [sys.executable, "-c", SAVER, str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with saver:
        weights = program = first_version(saver)
        for _ in range(100):
            reported = kill_once(saver, weights + 1, generator.uniform(0, 0.03))
            before = program
            weights, program = versions(tmp_path)
            assert weights in (reported, reported + 1)
            assert program in (reported, reported + 1, before) and before <= program <= weights
            midway += bool(leftovers(tmp_path))
        assert saver.stdin
        saver.stdin.close()
    assert midway >= 3, f"only {midway} of 100 kills hit a save in the middle"
    replace_file(tmp_path / "other", [b""])
    assert leftovers(tmp_path) == []
