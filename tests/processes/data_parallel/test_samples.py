"""The samples of Paddle's documentation of `DataParallel` run as written, started by `spawn` and by `launch`.

Only the import is changed, and the two lines of the first one's end that say how it is started.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes.ranks import require_mpi

SAMPLES = Path(__file__).with_name("samples")
ROOT = Path(__file__).parents[3]
LIMIT = 150  # seconds on a machine that is busy

SPAWNED, LAUNCHED = "    dist.spawn(train, nprocs=2)\n", "    # train()\n"

EVERY_ONE = """
import runpy, sys
import numpy as np
import workbench.distributed as dist

def same_everywhere(values):
    found = []
    dist.all_gather_object(found, [value.numpy() for value in values])
    return len(found) == 2 and all(np.array_equal(a, b) for a, b in zip(*found))

def run(folder):
    runpy.run_path(f"{folder}/data_parallel.py", run_name="__main__")
    left = runpy.run_path(f"{folder}/no_sync.py", run_name="__main__")
    assert same_everywhere([p.grad for p in left["model"].parameters()])
    left = runpy.run_path(f"{folder}/py_layer.py", run_name="__main__")
    weights = left["model"].parameters()
    assert len(weights) == 3 and same_everywhere(weights) and not same_everywhere([left["x"]])
    print("all three")

if __name__ == "__main__":
    if sys.argv[2] == "spawn":
        dist.spawn(run, (sys.argv[1],), nprocs=2)
    else:
        run(sys.argv[1])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for sample in SAMPLES.glob("*.py"):
        (tmp_path / sample.name).write_text(sample.read_text())
    (tmp_path / "every_one.py").write_text(EVERY_ONE)
    return tmp_path


def run(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT,
        check=False,
    )  # fmt: skip


@pytest.mark.processes
def test_the_first_spawns_itself(folder: Path) -> None:
    require_mpi()
    result = run("data_parallel.py", folder=folder)
    assert result.returncode == 0 and "Traceback" not in result.stderr, result.stderr


@pytest.mark.processes
@pytest.mark.parametrize("how", ["spawn", "launch"])
def test_rule_d_12_all_of_them(how: str, folder: Path) -> None:
    require_mpi()
    sample = (folder / "data_parallel.py").read_text()
    assert sample.count(SPAWNED) == sample.count(LAUNCHED) == 1
    (folder / "data_parallel.py").write_text(sample.replace(SPAWNED, "").replace(LAUNCHED, "    train()\n"))
    start = ["every_one.py"] if how == "spawn" else ["-m", "workbench.distributed.launch", "--nproc_per_node=2"]
    result = run(*start, *(["every_one.py"] if how == "launch" else []), str(folder), how, folder=folder)
    assert result.returncode == 0, result.stderr
    assert sorted(result.stdout.split("\n")) == ["", "[0] all three", "[1] all three"]
