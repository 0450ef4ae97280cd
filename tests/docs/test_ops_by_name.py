"""An element-wise op and an op with a reduction are one file of the package each, public name and kernels included; an
op with a kernel written by hand is two."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import workbench as wb
from tests.docs.test_contributing import blocks, sections
from tests.native.kernel_cache import with_objects

HERE = Path(wb.__file__).parent
FILES = {
    "hard_shrink": ["ops/nn/hard_shrink.py"],
    "spread_out": ["ops/math/reductions/spread_out.py"],
    "running_max": ["ops/math/reductions/running_max.py", "runtime/kernels/math/running_max.py"],
}
SECTIONS = "How to add an op", "How to add a kernel"


def declarations() -> dict[str, list[str]]:
    """The page's files of ops, each with that of its kernels if it has one, by the name that the op's file offers."""
    said: dict[str, list[str]] = {}
    name = ""
    for block in (block for title in SECTIONS for block in blocks(sections()[title])):
        offer = re.search(r'^OFFERED = \{"[\w.]+": "(\w+)"\}', block, re.M)
        name = offer[1] if offer else name
        if offer or block.count("\n@kernel("):
            said.setdefault(name, []).append(block)
    return said


def files(root: Path) -> set[str]:
    return {path.relative_to(root).as_posix() for path in root.rglob("*.py")}


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package with the files of each op."""
    copy = tmp_path / "tree" / "workbench"
    shutil.copytree(HERE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for name, texts in declarations().items():
        for path, text in zip(FILES[name], texts, strict=True):
            (copy / path).write_text(text)
    assert files(copy) - files(HERE) == {path for paths in FILES.values() for path in paths}
    assert all((copy / path).read_bytes() == (HERE / path).read_bytes() for path in files(HERE))
    return copy


def python(package: Path, *arguments: str) -> str:
    """What a process prints to which this package is the only one."""
    environment = {**os.environ, "PYTHONPATH": str(package.parent), "CPU_NUM": "1"}
    cache = package.parents[1] / "cache"
    environment["WORKBENCH_CACHE_DIR"] = str(cache if cache.exists() else with_objects(cache))
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=580, cwd=package.parent, env=environment
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


EXAMPLES = """
import doctest, sys
import workbench as wb
for function in (wb.nn.functional.hard_shrink, wb.spread_out, wb.running_max):
    names = {"wb": wb, "F": wb.nn.functional}
    example = doctest.DocTestFinder().find(function, function.__name__, globs=names)[0]
    assert example.examples and not doctest.DocTestRunner().run(example).failed
    print(function.__module__, function.__name__ in dir(sys.modules["workbench"]))
try:
    wb.spred_out
except AttributeError as error:
    print(error)
"""


def test_a_file_is_found_with_what_it_offers(package: Path) -> None:
    assert python(package, "-c", EXAMPLES).splitlines() == [
        "workbench.ops.nn.hard_shrink False",
        "workbench.ops.math.reductions.spread_out True",
        "workbench.ops.math.reductions.running_max True",
        "module 'workbench' has no attribute 'spred_out'. Did you mean 'spread_out'?",
    ]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_these_files_make_ops_with_kernels(package: Path) -> None:
    pytest.importorskip("numba")
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip("kernels are made for Linux on x86-64")
    python(package, "-m", "workbench", "doctor", "--compile")
    assert python(package, str(Path(__file__).with_name("ops_by_name.py"))).splitlines() == [
        f"{name} is right in both modes and runs in kernels" for name in FILES
    ]
