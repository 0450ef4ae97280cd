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

from tests.native.one_row import kernels
from workbench.config import override
from workbench.errors import Unavailable
from workbench.executors.lowering.tape.one_op import compiled_op
from workbench.framework.op.record import find_op
from workbench.framework.values.dtype import as_dtype
from workbench.framework.values.spec import Spec
from workbench.runtime.native import library, source

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


@pytest.fixture
def image() -> Path:
    """The image of this machine; it is compiled if it is missing."""
    kernels()
    return library.image_path()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own; the library is as in a process that has just begun."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", str(folder))
    monkeypatch.setattr(library, "_found", None)
    monkeypatch.setattr(library, "_refused", None)
    monkeypatch.setattr(library, "_has_begun_without", False)
    monkeypatch.setattr(library, "_compiling", None)
    return folder


@pytest.fixture
def filled(image: Path, cache: Path) -> Path:
    """An image in such a cache."""
    cache.mkdir(mode=0o700)
    return Path(shutil.copy(image, cache))


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


# Compiling


@pytest.fixture
def counted(filled: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A compiler that copies an image, slowly, and notes that it did; gives the file of notes.

    As long as there is a file `held` beside that, it does not come to its end.
    """
    ready, notes, script = tmp_path / "ready", tmp_path / "notes", tmp_path / "python"
    filled.rename(ready)
    script.write_text(
        f'#!/bin/sh\ncase "$2" in *native.build) echo x >> "{notes}"; sleep 0.5; '
        f'while [ -e "{tmp_path}/held" ]; do sleep 0.1; done; '
        f'cp "{ready}" "$3.part" && chmod 600 "$3.part" && mv "$3.part" "$3";; *) exec {sys.executable} "$@";; esac\n'
    )
    script.chmod(0o700)
    monkeypatch.setattr(library.sys, "executable", str(script))
    return notes


def test_of_several_processes_one_compiles(counted: Path) -> None:
    code = f"import sys; sys.executable = {library.sys.executable!r}\n" + STEP
    environment = {**os.environ, "FLAGS_cpu_tape": "1", "PYTHONPATH": str(ROOT)}
    begun = [
        subprocess.Popen([sys.orig_argv[0], "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         cwd=ROOT, env=environment)
        for _ in range(3)
    ]  # fmt: skip
    ended = [(process, *process.communicate(timeout=120)) for process in begun]
    assert all(process.returncode == 0 and out.startswith("True False") for process, out, _ in ended), ended
    assert counted.read_text() == "x\n"
    assert all(error.count("are being compiled for this machine, once") <= 1 for _, _, error in ended)
    assert any("are being compiled for this machine, once" in error for _, _, error in ended)


def test_a_file_that_is_damaged_is_compiled_anew(counted: Path) -> None:
    path = library.image_path()
    path.touch(mode=0o600)
    assert library.kernels() is not None
    assert counted.read_text() == "x\n"


def test_a_compiler_that_fails_is_told(image: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = cache.parent / "python"
    broken.write_text("#!/bin/sh\necho the linker is on fire >&2\nexit 3\n")
    broken.chmod(0o700)
    monkeypatch.setattr(library.sys, "executable", str(broken))
    assert library.kernels() is None
    assert str(library.why_not()) == "the kernels could not be compiled: the linker is on fire"
    assert not library.image_path().exists()


def test_another_source_is_another_image(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    runtime = tmp_path / "runtime"
    for name in ("native", "kernels", "words"):
        shutil.copytree(Path(source.__file__).parent.parent / name, runtime / name)
    monkeypatch.setattr(source, "__file__", str(runtime / "native" / "source.py"))
    before = source.fingerprint.__wrapped__()
    assert before == source.fingerprint()
    for path in (
        runtime / "kernels" / "loss" / "losses.py",
        runtime / "native" / "elf.py",
        runtime / "words" / "codes.py",
    ):
        content = path.read_bytes()
        path.write_bytes(content + b"#")
        assert source.fingerprint.__wrapped__() != before
        path.write_bytes(content)
    monkeypatch.setattr(source, "_version", lambda package: "0.0")
    assert source.fingerprint.__wrapped__() != before


# While they are compiled

FIRST_RUN = """
import sys
from pathlib import Path
import workbench as wb
from tests.parallel.models import batch, classifier
from workbench.executors.lowering.tape.segment import Segment
from workbench.runtime.native import library

def executor():
    model = classifier(wb.optimizer.Adam(0.1)).start()
    return model, model.parallel(2)

def train(model, exe):
    losses = [loss for step in range(3) for loss in exe.run([model.loss], feed=batch(8, step))[0]]
    units = [unit for program in exe.inspection.last.speculative for unit in program.units]
    return any(isinstance(unit, Segment) for unit in units), losses

wb.enable_static()
first = executor()
print(*train(*first))
if "goes on" in sys.argv:
    Path(sys.argv[1]).unlink()
    assert library.kernels() is not None
    print(*train(*first))
    print(*train(*executor()))
"""


def first_run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process that has no kernels yet, with a compiler that is held up."""
    code = f"import sys; sys.executable = {library.sys.executable!r}; sys.argv[1:] = {list(arguments)}\n" + FIRST_RUN
    given = {**os.environ, "FLAGS_cpu_tape": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.orig_argv[0], "-c", code], capture_output=True, text=True, timeout=240, cwd=ROOT, env=given
    )


def test_first_steps_do_not_wait_and_an_executor_stays_with_what_it_began(counted: Path) -> None:
    held = counted.with_name("held")
    held.touch()
    done = first_run(str(held), "goes on")
    assert done.returncode == 0, done.stderr
    before, same, new = done.stdout.splitlines()
    assert before.startswith("False") and same.startswith("False") and new.startswith("True")
    assert done.stderr.count("workbench:") == 1 and "are being compiled for this machine, once" in done.stderr
    assert counted.read_text() == "x\n"


def test_their_compilation_outlives_the_process_that_began_it(counted: Path) -> None:
    held = counted.with_name("held")
    held.touch()
    done = first_run(str(held))
    assert done.returncode == 0 and done.stdout.startswith("False"), done.stderr
    assert not library.image_path().exists()
    held.unlink()
    assert library.kernels() is not None  # waits for the one that is at it
    assert counted.read_text() == "x\n"


def test_of_several_processes_none_begins_without(counted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDLE_TRAINER_ID", "0")
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "2")
    assert library.kernels_at_hand() is not None and not library.is_compiling()


def test_when_it_fails_beside_the_steps_that_is_told(
    image: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = cache.parent / "python"
    broken.write_text("#!/bin/sh\necho the linker is on fire >&2\nexit 3\n")
    broken.chmod(0o700)
    monkeypatch.setattr(library.sys, "executable", str(broken))
    assert library.kernels_at_hand() is None and library.is_compiling()
    assert library._compiling is not None and library._compiling.wait(120) == 3
    assert library.kernels_at_hand() is None
    assert str(library.why_not()) == "the kernels could not be compiled: the linker is on fire"
    assert "steps run as NumPy calls: the kernels could not be compiled" in capsys.readouterr().err


def test_ops_that_have_begun_as_calls_stay_so(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = Spec((4, 4), as_dtype("float32"))
    assert compiled_op(find_op("tanh"), {}, [spec], [spec]) is not None
    monkeypatch.setattr(library, "_has_begun_without", True)
    assert compiled_op(find_op("tanh"), {}, [spec], [spec]) is None


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
