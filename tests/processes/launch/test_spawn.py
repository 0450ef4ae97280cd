"""`distributed.spawn`: functions of scripts and of notebooks, failures, interrupts, processes that stay behind."""

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.processes.launch.test_launch import none_left
from tests.processes.ranks import require_mpi
from workbench import distributed as dist
from workbench.errors import InvalidArgument, InvalidType, Unavailable
from workbench.framework.notice import Notice
from workbench.parallel.launch import spawn

LIMIT = 150  # seconds for a script on a machine that is busy

SCRIPT = """
import glob, json, os, signal, sys, threading, time
import numpy as np
import workbench as paddle
import workbench.distributed as dist

big = np.arange(200_000)                    # more than a pipe holds

class Net(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = paddle.nn.Linear(2, 1)

    def forward(self, x):
        return self.linear(x)

def train(folder, factor):
    names = ["PADDLE_TRAINER_ID", "PADDLE_TRAINERS_NUM", "PADDLE_CURRENT_ENDPOINT", "PADDLE_TRAINER_ENDPOINTS",
             "PADDLE_DISTRI_BACKEND", "FLAGS_selected_gpus", "http_proxy"]
    dist.init_parallel_env()
    total = paddle.to_tensor([float(dist.get_rank() + 1)])
    dist.all_reduce(total)
    told = [total.item() * factor, Net()(paddle.ones([3, 2])).shape, int(big.sum()), [os.environ.get(n) for n in names]]
    with open(f"{folder}/{dist.get_rank()}", "w") as file:
        json.dump(told, file)
    print("trained")

def fail():
    dist.init_parallel_env()
    if dist.get_rank() == 1:
        raise IndexError("label 12 of 10 classes")
    dist.barrier()

def sleep(folder):
    print("pid", os.getpid(), flush=True)
    open(f"{folder}/{os.getpid()}.sleeps", "w").close()
    try:
        time.sleep(60)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
        raise

if __name__ == "__main__":
    os.environ["http_proxy"] = "http://proxy"
    dist.spawn(train, args=(sys.argv[1], 10), nprocs=2, gpus="4,5", backend="gloo")
    try:
        dist.spawn(fail, nprocs=2)
    except RuntimeError as error:
        print("raised", error.rank, error, flush=True)
    context = dist.spawn(sleep, (sys.argv[1],), nprocs=2, join=False, daemon=True)
    assert not context.join(timeout=0.01)
    while len(glob.glob("*.sleeps")) < 2:
        time.sleep(0.05)
    threading.Timer(0.5, signal.raise_signal, [signal.SIGINT]).start()
    try:
        context.join()
    except KeyboardInterrupt:
        print("stopped", flush=True)
    left = dist.spawn(sleep, (sys.argv[1],), nprocs=1, join=False, daemon=True)
    while not left.pids():
        time.sleep(0.05)
    print("left", left.pids(), flush=True)
"""


@pytest.mark.processes
def test_rule_d_22_spawn_in_a_script(tmp_path: Path) -> None:
    """The variables, a failure, an interrupt, and the end of the script while a process runs."""
    require_mpi()
    (tmp_path / "script.py").write_text(SCRIPT)
    result = subprocess.run(
        [sys.executable, "script.py", str(tmp_path)],
        cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT, check=False,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    endpoints = "127.0.0.1:6170,127.0.0.1:6171"
    for rank in range(2):
        variables = [str(rank), "2", endpoints.split(",")[rank], endpoints, "gloo", str(4 + rank), None]
        assert json.loads((tmp_path / str(rank)).read_text()) == [30.0, [3, 1], 19999900000, variables]
        assert f"[{rank}] trained\n" in result.stdout and f"[{rank}] interrupted\n" in result.stdout
    raised = result.stdout.partition("raised ")[2]
    assert raised.startswith("1 process 1 failed: IndexError: label 12 of 10 classes\nTraceback")
    assert 'raise IndexError("label 12 of 10 classes")' in raised and "script.py" in raised
    assert "stopped" in raised
    pids = [int(pid) for pid in re.findall(r"pid (\d+)", result.stdout)]
    assert len(pids) >= 2 and none_left([*pids, *json.loads(result.stdout.rpartition("left ")[2])])
    assert not list(tmp_path.glob("workbench-job-*"))


CELL = """
import workbench.distributed as dist

scale = 3

def cell(x):
    dist.init_parallel_env()
    objects = []
    dist.all_gather_object(objects, x * scale + dist.get_rank())
    print(objects)

dist.spawn(cell, args=(10,), nprocs=2)
"""


@pytest.mark.processes
def test_spawn_of_a_function_of_a_notebook_cell(tmp_path: Path) -> None:
    """What the processes print appears in the cell's output."""
    require_mpi()
    pytest.importorskip("ipykernel")
    code = textwrap.dedent(
        f"""
        import nbformat
        from nbclient import NotebookClient
        book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell({CELL!r})])
        NotebookClient(book, timeout={LIMIT}, kernel_name="python3").execute()
        print("".join(out.text for out in book.cells[0].outputs if out.output_type == "stream"))
        """
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT, check=False, cwd=tmp_path
    )
    assert sorted(result.stdout.split("\n")) == ["", "", "[0] [30, 31]", "[1] [30, 31]"], result.stderr


@pytest.mark.parametrize(
    ("arguments", "options", "error", "told"),
    [
        ((3,), {}, InvalidType, "got int"),
        ((print,), {"nprocs": 0}, InvalidArgument, "got 0"),
        ((print,), {"nprocs": True}, InvalidArgument, "got True"),
        ((print,), {"nprocs": 3, "gpus": "0,1"}, InvalidArgument, "gpus names 2"),
        ((print,), {"nprocs": 1, "bakend": "gloo"}, InvalidArgument, "Did you mean 'backend'"),
        ((print, (signal, open)), {"nprocs": 1, "started_port": "x"}, ValueError, "x"),
    ],
)
def test_what_cannot_be_spawned_is_refused(
    arguments: tuple[object, ...], options: dict[str, object], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        dist.spawn(*arguments, **options)  # type: ignore[arg-type]


def test_arguments_that_cannot_travel_are_refused() -> None:
    pytest.importorskip("cloudpickle")
    with pytest.raises(InvalidType, match="print and its arguments cannot be sent"):
        dist.spawn(print, (threading.Lock(),), nprocs=1)


def test_a_process_that_was_launched_with_others_is_told_what_spawn_does_there(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cloudpickle")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "1")
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setattr(spawn, "find_launcher", Mock(side_effect=Unavailable("no mpiexec")))
    with pytest.warns(Notice, match="rank 1 of 2 .* starts 3 more.* call print itself"), pytest.raises(Unavailable):
        dist.spawn(print, nprocs=3)
