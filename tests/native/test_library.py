"""Where compiled kernels come from: a folder of the user's own, filled by one compilation; NumPy calls without them."""

from __future__ import annotations

import gc
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from workbench.config import override
from workbench.errors import Unavailable
from workbench.runtime.native import library

ROOT = Path(__file__).resolve().parents[2]

STEP = """
import sys
import workbench as wb
from tests.parallel.models import batch, classifier
from workbench.runtime.native import library

wb.enable_static()
model = classifier(wb.optimizer.Adam(0.1)).start()
exe = model.parallel(2)
for step in range(3):
    (loss,) = exe.run([model.loss], feed=batch(8, step))
print(library.kernels() is not None, "numba" in sys.modules, *loss)
"""


@pytest.fixture(autouse=True)
def switched_on() -> Iterator[None]:
    with override(cpu_tape=True):
        yield


def in_a_process(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program that may import tests and workbench."""
    given = {**os.environ, "FLAGS_cpu_tape": "1", "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        [sys.orig_argv[0], "-c", code], capture_output=True, text=True, timeout=240, cwd=ROOT, env=given
    )


def results(done: subprocess.CompletedProcess[str]) -> tuple[bool, bool, list[float]]:
    """Whether a step ran in kernels, whether numba was imported, and the losses."""
    assert done.returncode == 0, done.stderr
    native, imported, *losses = done.stdout.split()
    return native == "True", imported == "True", [float(loss) for loss in losses]


# Whose files are run


def test_the_folder_is_made_for_its_owner_only(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = os.umask(0)
    try:
        assert library.image_path().parent == cache
    finally:
        os.umask(old)
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777])
def test_a_folder_others_may_write_to_is_refused(filled: Path, mode: int, capsys: pytest.CaptureFixture[str]) -> None:
    filled.parent.chmod(mode)
    assert library.kernels() is None
    told = capsys.readouterr().err
    assert told.count("\n") == 2 and told.startswith("workbench: steps run as NumPy calls:")
    assert f"{filled.parent} is to hold code that is run" in told
    assert f"got: owner {os.getuid()}, mode {stat.filemode(stat.S_IFDIR | mode)}" in told
    assert library.kernels() is None and not capsys.readouterr().err  # told once


@pytest.mark.parametrize("mode", [0o620, 0o602])
def test_a_file_others_may_write_to_is_refused(filled: Path, mode: int) -> None:
    filled.chmod(mode)
    assert library.kernels() is None
    assert str(library.why_not()).startswith(f"{filled} is to hold code that is run")


def test_a_link_is_refused(image: Path, cache: Path) -> None:
    cache.mkdir(mode=0o700)
    (cache / image.name).symlink_to(image)
    assert library.kernels() is None
    assert "be no link" in str(library.why_not())


def test_a_folder_that_is_a_link_is_refused(image: Path, cache: Path) -> None:
    cache.symlink_to(image.parent)
    assert library.kernels() is None
    assert "be no link" in str(library.why_not())


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("what", ["folder", "file"])
def test_what_belongs_to_somebody_else_is_refused(filled: Path, what: str) -> None:
    os.chown(filled.parent if what == "folder" else filled, 65534, -1)
    assert library.kernels() is None
    assert "owner 65534" in str(library.why_not())


def test_a_good_file_is_taken_as_it_is(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "_compile", lambda path: pytest.fail("compiled again"))
    loaded = library.kernels()
    assert loaded is not None and "gemm_batch" in loaded.addresses
    assert library.kernels() is loaded


@pytest.mark.parametrize("why", ["a file is in the way", "a folder nobody may write to"])
def test_a_home_that_cannot_be_written_gives_way_to_a_temporary_folder(
    why: str, image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    if why.startswith("a file"):
        cache.write_text("")
        monkeypatch.setenv("WORKBENCH_CACHE_DIR", str(cache / "below"))
    else:
        cache.mkdir(mode=0o500)
        monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != cache)  # root may all the same
    monkeypatch.setattr(library.tempfile, "gettempdir", lambda: str(tmp_path))
    folder = library.image_path().parent
    assert folder == tmp_path / f"workbench-{os.getuid()}"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    shutil.copy(image, folder)
    assert library.kernels() is not None


def test_a_temporary_folder_somebody_was_quicker_to_make_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    cache.write_text("")
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", str(cache / "below"))
    monkeypatch.setattr(library.tempfile, "gettempdir", lambda: str(tmp_path))
    (tmp_path / f"workbench-{os.getuid()}").mkdir()
    (tmp_path / f"workbench-{os.getuid()}").chmod(0o777)
    with pytest.raises(Unavailable, match=r"not be\s+writable for others"):
        library.image_path()


# Without them


def test_the_process_that_trains_does_not_import_numba(image: Path) -> None:
    native, imported, losses = results(in_a_process(STEP))
    assert native and not imported and len(losses) == 2


def test_without_numba_steps_run_as_calls_and_say_so(tmp_path: Path) -> None:
    """The import is blocked, and nothing has been compiled before."""
    blocked = "import sys\nsys.modules['numba'] = sys.modules['llvmlite'] = None\n"
    done = in_a_process(blocked + STEP, WORKBENCH_CACHE_DIR=str(tmp_path / "cache"))
    native, _, losses = results(done)
    assert not native
    assert "workbench: steps run as NumPy calls: numba is not installed" in done.stderr
    _, _, expected = results(in_a_process(STEP, FLAGS_cpu_tape="0"))
    assert losses == expected


def test_switched_off_nothing_is_said(cache: Path) -> None:
    done = in_a_process(STEP, FLAGS_cpu_tape="0")
    assert results(done)[0] is False and not done.stderr and not cache.exists()


# In a process


def test_no_files_stay_open(filled: Path) -> None:
    gc.collect()  # files that earlier tests left open close now, not in between
    before = len(os.listdir("/proc/self/fd"))
    assert library.kernels() is not None
    assert len(os.listdir("/proc/self/fd")) == before


FORK = """
import os, sys
import workbench as wb
from tests.parallel.models import batch, classifier
from tests.parallel.observe import costly_ops
from tests.parallel.programs import strategies

wb.enable_static()
with costly_ops():
    model = classifier().start()
    exe = model.parallel(2, **strategies(threads=2))
    exe.run([], feed=batch())
    if (child := os.fork()) == 0:
        (loss,) = exe.run([model.loss], feed=batch(8, 1))
        print(loss.tolist(), flush=True)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    (loss,) = exe.run([model.loss], feed=batch(8, 1))
print(loss.tolist())
sys.exit(status)
"""


def test_a_child_goes_on_where_it_was_forked(image: Path) -> None:
    done = in_a_process(FORK)
    assert done.returncode == 0, done.stderr
    child, parent = done.stdout.splitlines()
    assert child == parent


FORKED_WHILE_IT_COMPILES = """
import os, subprocess, sys
from workbench.runtime.native import library

library.sys.executable = sys.argv[1]
path, popen, ends = library.image_path(), subprocess.Popen, os.pipe()


def begun(*args, **options):
    child = os.fork()
    if not child:  # it lives as long as this process
        os.close(ends[1])
        os.read(ends[0], 1)
        os._exit(0)
    return popen(*args, **options)


subprocess.Popen = begun  # so the lock is held when the child is forked
{compile}
with open(path.parent / "lock", "w") as lock:
    assert path.exists() and library._try_to_lock(lock)
"""


@pytest.mark.parametrize(
    "compile", ["library._compile(path)", "assert library._compile_beside(path)\nlibrary._compiling.wait(120)"]
)
def test_a_child_that_is_forked_meanwhile_does_not_keep_the_lock(counted: Path, compile: str) -> None:
    code = FORKED_WHILE_IT_COMPILES.format(compile=compile)
    done = in_a_process(f"import sys; sys.argv[1:] = [{library.sys.executable!r}]\n" + code)
    assert done.returncode == 0, done.stderr


FORKED_WHILE_SOMEBODY_ASKS = """
import os, signal, sys
from workbench.runtime.native import library

with library._lock:
    if (child := os.fork()) == 0:
        signal.alarm(120)
        os._exit(0 if library.kernels() is not None else 3)
sys.exit(os.waitpid(child, 0)[1])
"""


def test_a_child_asks_for_kernels_anew(image: Path) -> None:
    """Somebody was about to load them when it was forked."""
    done = in_a_process(FORKED_WHILE_SOMEBODY_ASKS)
    assert done.returncode == 0, done.stderr


END = """
import os, sys
import workbench as wb
from tests.parallel.models import batch, classifier
from tests.parallel.observe import costly_ops
from tests.parallel.programs import strategies


def train():
    with costly_ops():
        model = classifier().start()
        exe = model.parallel(2, **strategies(threads=2))
        for step in range(3):
            exe.run([], feed=batch(8, step))
        return exe


wb.enable_static()
for _ in range(20):
    if (child := os.fork()) == 0:
        exe = train()
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
exe = train()
"""


def test_a_program_ends_while_threads_wait_in_kernels(image: Path) -> None:
    """Twenty children, and the process itself."""
    done = in_a_process(END)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
