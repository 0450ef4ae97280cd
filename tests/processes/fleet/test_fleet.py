"""Fleets under `workbench launch` and started by hand: the numbers of the rules."""

import os
import re
import socket
import subprocess
import sys
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import pytest

from tests.processes.ranks import ROOT, ending_with_us, require_mpi

pytestmark = pytest.mark.processes

PROGRAMS = Path(__file__).with_name("programs")
LIMIT = 120  # seconds on a machine that is busy


def environment() -> dict[str, str]:
    others = ("OMPI_", "PMI", "PADDLE_", "TRAINING_ROLE", "POD_IP")
    kept = {key: value for key, value in os.environ.items() if not key.startswith(others)}
    return {**kept, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", "CPU_NUM": "1"}


def launched(folder: Path, options: list[str], program: str, *arguments: str) -> str:
    """What the processes of a job print."""
    require_mpi()
    command = [sys.executable, "-m", "workbench.distributed.launch", *options, "--log_dir", str(folder / "log")]
    done = subprocess.run(
        ending_with_us([*command, str(PROGRAMS / program), *arguments]), cwd=folder, env=environment(),
        capture_output=True, text=True, timeout=LIMIT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


SERVERS = ["--server_num", "1", "--worker_num", "2"]


def values(said: str) -> list[list[float]]:
    """What each trainer printed."""
    return [[float(number) for number in line.split(",")] for line in re.findall(r"w \[(.*)\]", said)]


def test_f10_f13_sync_servers_take_the_mean_end_by_themselves_and_begin_with_what_was_saved(tmp_path: Path) -> None:
    """T-10: 0.7, 0.4, 0.1 on both trainers, and a server that has ended."""
    saved = tmp_path / "saved"
    said = launched(tmp_path, SERVERS, "servers.py", "sync", "", str(saved))
    assert values(said) == [[0.7, 0.4, 0.1]] * 2 and said.count("served") == 1
    assert {path.name for path in saved.iterdir()} == {"manifest.json", "save-1"}
    said = launched(tmp_path, SERVERS, "servers.py", "sync", str(saved))
    assert values(said) == [[-0.2, -0.5, -0.8]] * 2


@pytest.mark.parametrize("mode", ["async", "half_async"])
def test_f10_asynchronous_trainers_go_on_and_servers_get_every_gradient_in_full(tmp_path: Path, mode: str) -> None:
    """Three times 2 and three times 4, each by 0.1, when all have left; what a trainer sees of it may be older."""
    said = launched(tmp_path, SERVERS, "servers.py", mode)
    assert "held -0.8" in said and said.count("served") == 1
    assert all(1 >= a >= b >= -0.8 for one in values(said) for a, b in pairwise(one))


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def by_hand(port: int, program: str, *arguments: list[str]) -> list[str]:
    """What two trainers and a server print, each started by itself, with its own arguments if there are several."""
    if find_spec("grpc") is None:
        pytest.skip("processes that MPI has not started need grpcio: pip install -e '.[ps]'")
    shared = {"PADDLE_PSERVERS_IP_PORT_LIST": f"127.0.0.1:{port}", "PADDLE_TRAINERS_NUM": "2"}
    own = [{"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(i)} for i in range(2)]
    own.append({"TRAINING_ROLE": "PSERVER", "POD_IP": "127.0.0.1", "PADDLE_PORT": str(port)})
    started = [
        subprocess.Popen(
            [sys.executable, str(PROGRAMS / program), *arguments[number % len(arguments)]],
            env={**environment(), **shared, **one}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number, one in enumerate(own)
    ]  # fmt: skip
    try:
        said = [process.communicate(timeout=LIMIT) for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0, 0, 0], said
    return [out for out, _ in said]


def test_f10_processes_started_by_hand_meet_at_their_endpoints() -> None:
    first, second, server = by_hand(free_port(), "servers.py", ["sync"])
    assert values(first) == values(second) == [[0.7, 0.4, 0.1]] and "served" in server


def test_f5_trainers_without_servers_take_the_mean(tmp_path: Path) -> None:
    """The mean gradient is 3; with SGD the mean of the parameters is the same (T-33)."""
    modes = ["nccl2", "hierarchical", "grad_allreduce", "local_sgd"]
    said = launched(tmp_path, ["-n", "2"], "collective.py", *modes)
    assert values(said) == [[0.7, 0.4, 0.1]] * 8 and all(said.count(f"{mode} w") == 2 for mode in modes), said


# Programs of 1.x without a fleet


def test_t10_t11_a_transpiled_program_trains_with_a_server_that_ends_by_itself(tmp_path: Path) -> None:
    said = launched(tmp_path, SERVERS, "transpiled.py", "pserver_sync")
    assert values(said) == [[0.7, 0.4, 0.1]] * 2 and said.count("served") == 1


def test_t10_t11_a_transpiled_program_started_by_hand_takes_the_mean() -> None:
    """No fleet and no MPI: endpoints `ip:port`, gRPC between them, and a server that ends by itself."""
    first, second, server = by_hand(free_port(), "transpiled.py", ["pserver_sync"])
    assert values(first) == values(second) == [[0.7, 0.4, 0.1]] and "served" in server


def test_t5_t7_servers_that_do_not_wait_apply_gradients_in_full() -> None:
    """Started by hand: three times 2 and three times 4, each by 0.1."""
    first, second, server = by_hand(free_port(), "transpiled.py", ["pserver_async"])
    assert min(one[-1] for one in (*values(first), *values(second))) == -0.8 and "served" in server


def test_t21_t30_t31_transpiled_trainers_take_the_mean(tmp_path: Path) -> None:
    said = launched(tmp_path, ["-n", "2"], "transpiled.py", "nccl2", "grad_allreduce", "local_sgd")
    assert values(said) == [[0.7, 0.4, 0.1]] * 6


# Fleets by every role maker; that of PaddleCloud is in the others


def test_user_defined_role_maker_makes_a_fleet_that_is_started_by_hand() -> None:
    port = free_port()
    told = ["user_defined", f"127.0.0.1:{port}", "2"]
    own = [[*told, "trainer", "0"], [*told, "trainer", "1"], [*told, "server", "0"]]
    first, second, server = by_hand(port, "roles.py", *own)
    assert values(first) == values(second) == [[0.7, 0.4, 0.1]] and "served" in server


@pytest.mark.parametrize(
    ("maker", "options", "servers"),
    [("user_defined_collective", ["-n", "2"], 0), ("general", SERVERS, 1), ("mpi_symetric", ["-n", "4"], 2)],
)
def test_role_makers_make_a_fleet(tmp_path: Path, maker: str, options: list[str], servers: int) -> None:
    said = launched(tmp_path, options, "roles.py", maker, str(tmp_path))
    assert values(said) == [[0.7, 0.4, 0.1]] * 2 and said.count("served") == servers


UNIFIED = """
import numpy as np
import workbench as paddle
from workbench.distributed import fleet

def train(local):
    strategy = fleet.DistributedStrategy()
    strategy.localsgd = local
    fleet.init(is_collective=True, strategy=strategy)
    x = paddle.static.data("x", [None, 1])
    one = paddle.ParamAttr(name="w", initializer=paddle.nn.initializer.Constant(1.0))
    loss = paddle.mean(paddle.static.nn.fc(x, 1, weight_attr=one, bias_attr=False))
    fleet.distributed_optimizer(paddle.optimizer.SGD(0.1)).minimize(loss)
    executor = paddle.static.Executor()
    executor.run(paddle.static.default_startup_program())
    values = []
    for _ in range(3):
        executor.run(feed={"x": np.full((1, 1), 2.0 + 2 * fleet.worker_index(), np.float32)})
        held = np.array(paddle.static.global_scope().find_var("w").get_tensor())
        values.append(round(float(held.item()), 5))
    print(local, "w", values)

paddle.enable_static()
for local in (False, True):
    with (
        paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()),
        paddle.static.scope_guard(paddle.static.Scope()),
    ):
        train(local)
"""


def test_the_fleet_of_2x_rewrites_the_default_programs(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(UNIFIED)
    said = launched(tmp_path, ["-n", "2"], str(script))
    assert values(said) == [[0.7, 0.4, 0.1]] * 4 and said.count("True w") == 2, said
