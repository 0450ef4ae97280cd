"""Compilation of kernels: once, by one process, beside steps that run as NumPy calls meanwhile."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.native.test_library import ROOT, STEP
from workbench.config import override
from workbench.executors.lowering.tape.one_op import compiled_op
from workbench.framework.op.record import LIBRARIES, find_op
from workbench.framework.values.dtype import as_dtype
from workbench.framework.values.spec import Spec
from workbench.runtime.native import library, source


@pytest.fixture(autouse=True)
def switched_on() -> Iterator[None]:
    with override(cpu_tape=True):
        yield


def test_of_several_processes_one_compiles(counted: Path) -> None:
    code = f"import sys; sys.executable = {library.sys.executable!r}\n" + STEP
    environment = {**os.environ, "FLAGS_cpu_tape": "1", "PYTHONPATH": str(ROOT)}
    begun = [
        subprocess.Popen([sys.orig_argv[0], "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                         cwd=ROOT, env=environment)
        for _ in range(3)
    ]  # fmt: skip
    ended = [(process, *process.communicate(timeout=280)) for process in begun]
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
    runtime, root = tmp_path / "runtime", Path(source.__file__).parent.parent.parent
    for name in ("runtime/native", "runtime/kernels", "runtime/words", "framework", *LIBRARIES):
        shutil.copytree(root / name, tmp_path / name)
    for name in ("footprint.py", "division.py"):
        shutil.copy(root / "runtime" / name, runtime)
    monkeypatch.setattr(source, "__file__", str(runtime / "native" / "source.py"))
    before = source.fingerprint.__wrapped__()
    assert before == source.fingerprint()
    for path in (
        runtime / "kernels" / "loss" / "attention.py",
        tmp_path / "ops" / "loss" / "softmax.py",
        tmp_path / "framework" / "rows" / "passes.py",
        tmp_path / "framework" / "op" / "rows.py",
        tmp_path / "framework" / "expr" / "erf.py",
        runtime / "native" / "elf.py",
        runtime / "words" / "codes.py",
        runtime / "footprint.py",
    ):
        content = path.read_bytes()
        path.write_bytes(content + b"#")
        assert source.fingerprint.__wrapped__() != before
        path.write_bytes(content)
    monkeypatch.setattr(source, "_version", lambda package: "0.0")
    assert source.fingerprint.__wrapped__() != before


TRACED = """
import sys
from workbench.framework.op.record import all_ops
from workbench.framework.rows.kernel import all_kernels

all_ops()
files = set()
sys.setprofile(lambda frame, event, arg: files.add(frame.f_code.co_filename))
for kernel in all_kernels():
    kernel.letters, kernel.lodged
sys.setprofile(None)
print(*files, sep="\\n")
"""


def test_what_bodies_are_traced_with_is_part_of_the_fingerprint() -> None:
    """Else kernels of old bodies would go on to be used."""
    root = Path(source.__file__).parent.parent.parent
    command = [sys.executable, "-c", TRACED]
    printed = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root.parent).stdout
    traced = {Path(line).relative_to(root).as_posix() for line in printed.splitlines() if line.startswith(str(root))}
    known = {name for name, _ in source._row_programs(root)} | {"framework/values/dtype.py"}  # what dtypes are called
    assert "ops/nn/norm.py" in traced and traced <= known


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
