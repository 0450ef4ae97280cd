"""An optimizer is one file of the package: its op, its class, its public name."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.test_contributing import blocks, sections
from tests.docs.test_ops_by_name import HERE, files

FILE = "optimizer/rules/lion.py"
SCRIPT = str(Path(__file__).with_name("optimizer_by_name.py"))


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package with the page's file."""
    copy = tmp_path / "tree" / "workbench"
    shutil.copytree(HERE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / FILE).write_text(blocks(sections()["How to add an optimizer"])[0])
    assert files(copy) - files(HERE) == {FILE}
    assert all((copy / path).read_bytes() == (HERE / path).read_bytes() for path in files(HERE))
    return copy


SAVED = """
import sys
from pathlib import Path
import numpy as np
import workbench as wb
from workbench.framework.op.record import OPS
from workbench.framework.text.parser import parse_program
assert "lion" not in OPS and "workbench.optimizer.rules" not in sys.modules
folder, read = Path(sys.argv[1]), {"json": wb.static.Program.parse_from_string, "txt": parse_program}[sys.argv[2]]
expected = dict(np.load(folder / "values.npz"))
x = expected.pop("x")
main, startup = (read((folder / f"{name}.{sys.argv[2]}").read_text()) for name in ("main", "startup"))
wb.enable_static()
scope, executor = wb.static.Scope(), wb.static.Executor()
executor.run(startup, scope=scope)
for _ in range(6):
    executor.run(main, feed={"x": x}, scope=scope)
for name, value in expected.items():
    np.testing.assert_array_equal(np.array(scope.find_var(name).get_tensor()), value)
print("the saved program trains as well")
"""


def python(package: Path, *arguments: str) -> str:
    """What a process prints to which this package is the only one; its kernels are those of this one."""
    environment = {**os.environ, "PYTHONPATH": str(package.parent), "CPU_NUM": "1"}
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, timeout=580, cwd=package.parent,
        env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.mark.timeout(600)
def test_one_file_makes_an_optimizer(package: Path, tmp_path: Path) -> None:
    pytest.importorskip("numba")
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip("kernels are made for Linux on x86-64")
    assert python(package, SCRIPT, str(tmp_path)) == (
        "Lion is right in both modes, on devices, with sparse gradients, in half precision and on servers\n"
    )
    for form in ("json", "txt"):
        assert python(package, "-c", SAVED, str(tmp_path), form) == "the saved program trains as well\n"
