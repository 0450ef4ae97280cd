"""Role makers whose processes meet: over a store of trainer 0, in a folder, and over MPI."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.processes.ranks import ROOT, run_ranks
from workbench.errors import InvalidArgument, PeerTimeout, Unavailable, Unimplemented
from workbench.fluid.incubate.fleet.base.role_maker import GeneralRoleMaker
from workbench.parallel.roles.meeting import MAX_VALUE, StoreMeeting
from workbench.parallel.roles.store_server import RemoteStore, StoreServer

pytestmark = pytest.mark.processes

TRAINERS, SERVERS = "127.0.0.1:7001,127.0.0.1:7002", "127.0.0.1:7003"
LIMIT = 60

SCRIPT = """
import numpy as np
from workbench.fluid.incubate.fleet.base.role_maker import GeneralRoleMaker
role = GeneralRoleMaker(OPTIONS)
role.generate_role()
told = role.all_gather([role._get_rank(), role.is_worker()])
total, most = np.zeros(3), [0, 0]
role.all_reduce_worker(np.arange(3.0) + role.worker_index(), total)
role.all_reduce_worker([role.worker_index(), 5], most, mode="max")
for _ in range(5):
    role.barrier_worker()
    role.barrier_all()
workers = role._worker_gather(role.get_local_endpoint())
print(told, total.tolist(), most, workers, role.worker_num(), role.server_num(), role.is_first_worker())
role._finalize()
"""
WANTED = (
    "[[0, True], [1, True], [2, False]] {} {} {} 2 1 {}\n".format(
        "[1.0, 3.0, 5.0]", "[1, 5]", str(TRAINERS.split(",")), "True"
    ),
    "[[0, True], [1, True], [2, False]] {} {} {} 2 1 {}\n".format(
        "[1.0, 3.0, 5.0]", "[1, 5]", str(TRAINERS.split(",")), "False"
    ),
    "[[0, True], [1, True], [2, False]] [0.0, 0.0, 0.0] [0, 0] None 2 1 False\n",
)


def variables(rank: int) -> dict[str, str]:
    own = {"TRAINING_ROLE": "PSERVER", "PADDLE_PSERVER_ID": "0"}
    if rank < 2:
        own = {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(rank)}
    return {"PADDLE_PSERVERS_IP_PORT_LIST": SERVERS, "PADDLE_TRAINER_ENDPOINTS": TRAINERS, **own}


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def by_hand(options: str, **more: str) -> list[str]:
    """What the three processes print, started one by one, the server first."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMI", "PADDLE_"))}
    script = SCRIPT.replace("OPTIONS", options)
    started = [
        subprocess.Popen(
            [sys.executable, "-c", script], env={**kept, "PYTHONPATH": str(ROOT), **variables(rank), **more},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for rank in (2, 1, 0)
    ]  # fmt: skip
    try:
        said = [process.communicate(timeout=LIMIT) for process in started]
    finally:
        for process in started:
            process.kill()
    assert [process.returncode for process in started] == [0, 0, 0], said
    return [out for out, _ in reversed(said)]


def test_general_role_maker_meets_over_the_store_of_trainer_0() -> None:
    assert by_hand(f"http_ip_port='127.0.0.1:{free_port()}'", WORKBENCH_FLEET_TOKEN="secret") == list(WANTED)


def test_general_role_maker_meets_in_a_folder(tmp_path: Path) -> None:
    assert by_hand(f"path={str(tmp_path)!r}") == list(WANTED)


def test_general_role_maker_meets_over_mpi() -> None:
    choose = "import os\nfrom workbench.runtime.standing import mpi_standing\nrank = mpi_standing().rank\n"
    give = f"os.environ.update({[variables(rank) for rank in range(3)]!r}[rank])\n"
    job = run_ranks(choose + give + SCRIPT.replace("OPTIONS", ""), ranks=3)
    assert job.code == 0 and job.outputs == list(WANTED), str(job)


def test_general_role_maker_reads_what_launch_sets(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.replace("OPTIONS", "").replace("print(told", "print('found', told"))
    command = [sys.executable, "-m", "workbench.distributed.launch", "--server_num", "1", "--worker_num", "2"]
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMI", "PADDLE_"))}
    done = subprocess.run(
        [*command, "--log_dir", str(tmp_path / "log"), str(script)], env={**kept, "PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, timeout=LIMIT, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("found [[0, True], [1, True], [2, False]]") == 3


SYMMETRIC = """
from workbench.fluid.incubate.fleet.base.role_maker import MPISymetricRoleMaker
role = MPISymetricRoleMaker()
role.generate_role()
total = [0]
role.all_reduce_worker([role.worker_index() + 1], total)
role.barrier_worker(); role._barrier_server(); role.barrier_all()
ports = [endpoint.rpartition(":")[2] for endpoint in role.get_pserver_endpoints()]
print(role.is_server(), role.is_worker(), role.is_first_worker(), role.worker_index(), role.worker_num(),
      role.server_num(), total, role._worker_gather("w"), role.all_gather(role._get_rank()), ports)
"""


def test_mpi_symetric_role_maker_serves_on_even_ranks() -> None:
    job = run_ranks(SYMMETRIC, ranks=4)
    rest = "[0, 1, 2, 3] ['63916', '63917']"
    assert job.code == 0 and job.outputs == [
        f"True False False 0 2 2 [0] None {rest}\n",
        f"False True True 0 2 2 [3] ['w', 'w'] {rest}\n",
        f"True False False 1 2 2 [0] None {rest}\n",
        f"False True False 1 2 2 [3] ['w', 'w'] {rest}\n",
    ], str(job)


def test_mpi_symetric_role_maker_refuses_an_odd_number() -> None:
    job = run_ranks(
        "from workbench.fluid.incubate.fleet.base.role_maker import MPISymetricRoleMaker\n"
        "try:\n    MPISymetricRoleMaker().generate_role()\nexcept ValueError as error:\n    print(error)",
        ranks=3,
    )
    assert all("even number" in out and "launch -n 4" in out for out in job.outputs), str(job)


def test_general_role_maker_has_no_hdfs() -> None:
    with pytest.raises(Unimplemented, match=r"hdfs_name='hdfs://x'.*path="):
        GeneralRoleMaker(hdfs_name="hdfs://x", hdfs_ugi="me", path="/tmp")
    with pytest.raises(InvalidArgument, match="no option 'paths'"):
        GeneralRoleMaker(paths="/tmp")
    with pytest.raises(InvalidArgument, match="ip:port"):
        GeneralRoleMaker(http_ip_port="localhost")
    with pytest.raises(InvalidArgument, match="init_timeout_seconds"):
        GeneralRoleMaker(init_timeout_seconds=0)


def test_general_role_maker_names_who_did_not_come(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in variables(1).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(PeerTimeout, match="trainer 1 waits for trainer 0, server 0"):
        GeneralRoleMaker(path=str(tmp_path), init_timeout_seconds=0.1).generate_role()


def test_general_role_maker_needs_a_place_to_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables(0).items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InvalidArgument, match="http_ip_port"):
        GeneralRoleMaker().generate_role()


def test_a_store_refuses_another_token_and_what_is_too_large() -> None:
    server = StoreServer("127.0.0.1", 0, "secret")
    try:
        with pytest.raises(Unavailable, match="token"):
            RemoteStore("127.0.0.1", server.port, "guess", 1.0).put("key", b"value")
        store = RemoteStore("127.0.0.1", server.port, "secret", 1.0)
        assert store.get("key") is None
        store.put("key", b"value")
        assert store.get("key") == b"value"
        store.remove("key")
        assert store.get("key") is None
        with pytest.raises(Unavailable):
            store.put("key", bytes(MAX_VALUE + 1))
        with pytest.raises(Unavailable):
            store.put("k" * 201, b"")
        assert store.get("key") is None
    finally:
        server.close()
    with pytest.raises(Unavailable, match="does not answer"):
        RemoteStore("127.0.0.1", server.port, "secret", 0.1).get("key")


def test_a_store_for_other_machines_needs_a_token() -> None:
    with pytest.raises(InvalidArgument, match="WORKBENCH_FLEET_TOKEN"):
        StoreServer("0.0.0.0", 0)


class Memory(dict[str, bytes]):
    """A store in this process."""

    def put(self, key: str, value: bytes) -> None:
        self[key] = value

    def remove(self, key: str) -> None:
        self.pop(key, None)

    def close(self) -> None:
        """Nothing is held."""


def test_a_meeting_leaves_no_more_than_two_rounds_behind() -> None:
    store = Memory()
    one = StoreMeeting(store, "group", ["trainer 0"], 0, 1.0)
    for number in range(10):
        assert one.gather(str(number).encode(), "test") == [str(number).encode()]
    assert sorted(store) == ["group.10.0", "group.9.0"]


def test_a_reduction_of_other_shapes_says_whose() -> None:
    store = Memory()
    store.put("group.1.0", b'["<f8", [3]]\n' + np.zeros(3).tobytes())
    from workbench.parallel.roles.meeting import reduce_arrays

    with pytest.raises(InvalidArgument, match="trainer 0"):
        reduce_arrays(StoreMeeting(store, "group", ["a", "b"], 1, 1.0), np.zeros(2), np.zeros(2), "sum")
