"""The role makers' table: what each is made of, what it refuses, and what it answers."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from workbench.errors import PreconditionNotMet
from workbench.fluid.incubate.fleet.base import role_maker
from workbench.fluid.incubate.fleet.base.role_maker import (
    GeneralRoleMaker,
    MPIRoleMaker,
    MPISymetricRoleMaker,
    PaddleCloudRoleMaker,
    Role,
    RoleMakerBase,
    UserDefinedCollectiveRoleMaker,
    UserDefinedRoleMaker,
)
from workbench.parallel.roles.general import _take_leave
from workbench.parallel.roles.mpi import _endpoints
from workbench.parallel.roles.store_server import RemoteStore, StoreServer

SERVERS = "127.0.0.1:6001,127.0.0.1:6002"
WITH_SERVERS = {
    "PADDLE_PSERVERS_IP_PORT_LIST": SERVERS,
    "PADDLE_TRAINERS_NUM": "2",
    "TRAINING_ROLE": "TRAINER",
    "PADDLE_TRAINER_ID": "1",
    "POD_IP": "127.0.0.1",
    "PADDLE_PORT": "6002",
}
COLLECTIVE = {"PADDLE_TRAINER_ENDPOINTS": "a:1,b:2", "PADDLE_TRAINER_ID": "0", "PADDLE_CURRENT_ENDPOINT": "a:1"}

Setter = Callable[[dict[str, str]], None]


@pytest.fixture
def environ(monkeypatch: pytest.MonkeyPatch) -> Setter:
    """Sets exactly these of the variables that role makers read."""

    def give(variables: dict[str, str]) -> None:
        for name in (*WITH_SERVERS, *COLLECTIVE, "PADDLE_TRAINING_ROLE"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return give


def test_role_numbers() -> None:
    assert Role.WORKER == 1 and Role.SERVER == 2


def test_role_maker_base_answers_nothing_but_endpoints() -> None:
    base = RoleMakerBase()
    for method in ("is_worker", "is_server", "is_first_worker", "worker_num", "worker_index", "server_index"):
        with pytest.raises(NotImplementedError, match=method):
            getattr(base, method)()
    assert base.get_trainer_endpoints() == base.get_pserver_endpoints() == []
    assert base.to_string() == "role: None, current_id: -1, worker_endpoints: [], server_endpoints: []"


def test_role_maker_base_collectives_warn_and_do_nothing() -> None:
    output = [0.0]
    for call in (
        lambda: RoleMakerBase().all_gather(3),
        lambda: RoleMakerBase().all_reduce_worker([1.0], output),
        lambda: RoleMakerBase().barrier_worker(),
        lambda: RoleMakerBase().barrier_all(),
    ):
        with pytest.warns(UserWarning, match="GeneralRoleMaker does"):
            assert call() is None
    assert output == [0.0]


USER_DEFINED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({}, TypeError, "server_endpoints"),
    ({"server_endpoints": "a:1", "worker_num": 1}, TypeError, "'a:1'"),
    ({"server_endpoints": ["a:1"]}, ValueError, "worker_num above 0, got 0"),
    ({"server_endpoints": [], "worker_num": 1}, ValueError, "empty"),
    ({"server_endpoints": ["a:1", "a:1"], "worker_num": 1}, ValueError, "twice"),
    ({"server_endpoints": [1], "worker_num": 1}, TypeError, "strings"),
    ({"role": 3, "server_endpoints": ["a:1"], "worker_num": 1}, TypeError, "Role.WORKER"),
    ({"current_id": "0", "server_endpoints": ["a:1"], "worker_num": 1}, TypeError, "current_id"),
    ({"current_id": -1, "server_endpoints": ["a:1"], "worker_num": 1}, ValueError, "at least 0"),
    ({"role": Role.SERVER, "current_id": 1, "server_endpoints": ["a:1"], "worker_num": 1}, ValueError, "no server"),
    ({"server_endpoints": ["a:1"], "worker_num": "2"}, TypeError, "worker_num"),
    ({"server_endpoints": ["a:1"], "worker_num": -2}, ValueError, "got -2"),
]


@pytest.mark.parametrize(("arguments", "error", "message"), USER_DEFINED)
def test_user_defined_role_maker_checks(arguments: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        UserDefinedRoleMaker(**arguments)


def test_user_defined_role_maker_checks_in_this_order() -> None:
    """Endpoints go before the role, the role before the id, the id before the number of trainers."""
    with pytest.raises(TypeError, match="server_endpoints"):
        UserDefinedRoleMaker("0", 3, "x", None)
    with pytest.raises(TypeError, match=r"Role\.WORKER"):
        UserDefinedRoleMaker("0", 3, "x", ["a:1"])
    with pytest.raises(TypeError, match="current_id"):
        UserDefinedRoleMaker("0", Role.WORKER, "x", ["a:1"])


def test_user_defined_role_maker_answers() -> None:
    server = UserDefinedRoleMaker(1, Role.SERVER, 2, ["a:1", "b:2"])
    server.generate_role()
    assert (server.is_worker(), server.is_server(), server.is_first_worker()) == (False, True, False)
    assert (server.worker_num(), server.worker_index(), server.server_index(), server.server_num()) == (2, 1, 1, 2)
    assert server.get_trainer_endpoints() == [] and server.get_pserver_endpoints() == ["a:1", "b:2"]
    assert server.to_string() == "role: 2, current_id: 1, worker_endpoints: [], server_endpoints: ['a:1', 'b:2']"
    assert UserDefinedRoleMaker(0, Role.WORKER, 2, ["a:1"]).is_first_worker()
    assert UserDefinedRoleMaker(5, Role.WORKER, 2, ["a:1"]).worker_index() == 5  # not refused, as in Paddle


COLLECTIVE_CHECKS: list[tuple[dict[str, Any], type[Exception]]] = [
    ({}, TypeError),
    ({"worker_endpoints": "a"}, TypeError),
    ({"worker_endpoints": []}, ValueError),
    ({"worker_endpoints": ["a", "a"]}, ValueError),
    ({"worker_endpoints": [1]}, TypeError),
    ({"current_id": "0", "worker_endpoints": ["a"]}, TypeError),
    ({"current_id": -1, "worker_endpoints": ["a"]}, ValueError),
    ({"current_id": 1, "worker_endpoints": ["a"]}, ValueError),
]


@pytest.mark.parametrize(("arguments", "error"), COLLECTIVE_CHECKS)
def test_user_defined_collective_role_maker_checks(arguments: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="UserDefinedCollectiveRoleMaker"):
        UserDefinedCollectiveRoleMaker(**arguments)


def test_user_defined_collective_role_maker_answers() -> None:
    first, second = (UserDefinedCollectiveRoleMaker(i, ["a:1", "b:2"]) for i in range(2))
    assert first.is_worker() and second.is_worker()
    assert (first.is_first_worker(), second.is_first_worker()) == (True, False)
    assert (second.worker_num(), second.worker_index()) == (2, 1)
    with pytest.raises(NotImplementedError, match="is_server"):
        first.is_server()


def test_paddle_cloud_role_maker_reads_a_trainer(environ: Setter) -> None:
    environ(WITH_SERVERS)
    role = PaddleCloudRoleMaker()
    assert (role.is_worker(), role.is_server(), role.is_first_worker()) == (True, False, False)
    assert (role.worker_num(), role.worker_index(), role.server_num()) == (2, 1, 2)
    assert role.get_pserver_endpoints() == SERVERS.split(",") and role.get_trainer_endpoints() == []
    environ(WITH_SERVERS | {"PADDLE_TRAINER_ID": "0"})
    assert PaddleCloudRoleMaker().is_first_worker()
    assert role.worker_index() == 1  # read once


def test_paddle_cloud_role_maker_finds_a_server_in_the_list(environ: Setter) -> None:
    environ(WITH_SERVERS | {"TRAINING_ROLE": "PSERVER"})
    role = PaddleCloudRoleMaker()
    assert (role.is_worker(), role.is_server(), role.server_index()) == (False, True, 1)
    environ(WITH_SERVERS | {"TRAINING_ROLE": "PSERVER", "PADDLE_PORT": "6001"})
    assert PaddleCloudRoleMaker().server_index() == 0


@pytest.mark.parametrize("role", ["TRAINER", "PSERVER"])
@pytest.mark.parametrize("name", WITH_SERVERS)
def test_paddle_cloud_role_maker_misses_a_variable(environ: Setter, name: str, role: str) -> None:
    given = WITH_SERVERS | {"TRAINING_ROLE": role}
    environ({key: value for key, value in given.items() if key != name})
    own = {"TRAINER": {"POD_IP", "PADDLE_PORT"}, "PSERVER": {"PADDLE_TRAINER_ID"}}[role]
    if name in own:  # what the other role reads
        assert PaddleCloudRoleMaker().worker_num() == 2
        return
    with pytest.raises(KeyError) as raised:
        PaddleCloudRoleMaker().generate_role()
    text = str(raised.value)
    assert f"reads {name} " in text and "not set" in text and "workbench launch" in text


@pytest.mark.parametrize(
    "wrong",
    [
        {"TRAINING_ROLE": "WORKER"},
        {"PADDLE_TRAINER_ID": "one"},
        {"PADDLE_TRAINERS_NUM": "0"},
        {"PADDLE_TRAINERS_NUM": "two"},
        {"PADDLE_PSERVERS_IP_PORT_LIST": "127.0.0.1"},
        {"PADDLE_PSERVERS_IP_PORT_LIST": "a:1,a:1"},
        {"TRAINING_ROLE": "PSERVER", "PADDLE_PORT": "7"},
    ],
)
def test_paddle_cloud_role_maker_refuses_a_value(environ: Setter, wrong: dict[str, str]) -> None:
    environ(WITH_SERVERS | wrong)
    with pytest.raises(ValueError, match="environment") as raised:
        PaddleCloudRoleMaker().generate_role()
    name, value = list(wrong.items())[-1]
    assert name in str(raised.value) and value in str(raised.value) and "workbench launch" in str(raised.value)


def test_paddle_cloud_role_maker_collective_is_a_worker(environ: Setter) -> None:
    environ(COLLECTIVE | {"TRAINING_ROLE": "PSERVER"})  # that one is ignored
    role = PaddleCloudRoleMaker(is_collective=True)
    assert role.is_worker() and role.is_first_worker() and not role.is_server()
    assert (role.worker_num(), role.worker_index(), role.get_trainer_endpoints()) == (2, 0, ["a:1", "b:2"])
    environ(COLLECTIVE | {"PADDLE_TRAINER_ID": "1"})
    other = PaddleCloudRoleMaker(is_collective=True)
    assert other.is_worker() and not other.is_first_worker() and other.worker_index() == 1
    environ({"PADDLE_TRAINER_ENDPOINTS": "a:1"})
    assert PaddleCloudRoleMaker(is_collective=True).worker_index() == 0


def test_paddle_cloud_role_maker_collective_checks(environ: Setter) -> None:
    environ({})
    with pytest.raises(AssertionError, match="PADDLE_TRAINER_ENDPOINTS"):
        PaddleCloudRoleMaker(is_collective=True).generate_role()
    environ(COLLECTIVE | {"PADDLE_TRAINING_ROLE": "PSERVER"})
    with pytest.raises(AssertionError, match="PADDLE_TRAINING_ROLE"):
        PaddleCloudRoleMaker(is_collective=True).generate_role()
    environ(COLLECTIVE | {"PADDLE_TRAINER_ID": "7"})
    with pytest.raises(ValueError, match="below 2"):
        PaddleCloudRoleMaker(is_collective=True).generate_role()


def test_mpi_role_maker_leaves_the_role_to_subclasses() -> None:
    with pytest.raises(NotImplementedError, match="generate_role"):
        MPIRoleMaker().generate_role()


def test_mpi_symetric_role_maker_needs_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(RuntimeError, match="workbench launch -n 2"):
        MPISymetricRoleMaker().generate_role()


def test_mpi_symetric_role_maker_draws_the_port_paddle_draws() -> None:
    """Python's generator, seeded with the number of servers, from 60001 to 64000 (observed in 1.8.5)."""
    assert _endpoints(["a"]) == ["a:60551"]
    assert _endpoints(["a", "b"]) == ["a:63916", "b:63916"]
    assert _endpoints(["a", "b", "a"]) == ["a:60975", "b:60975", "a:60976"]  # on one machine they differ


def test_all_names_of_the_seed_are_there() -> None:
    assert {"RoleMakerBase", "MPIRoleMaker", "MPISymetricRoleMaker", "PaddleCloudRoleMaker"} <= set(role_maker.__all__)


@pytest.fixture
def alone_in_a_folder(monkeypatch: pytest.MonkeyPatch, environ: Setter, tmp_path: Path) -> dict[str, Any]:
    """Options of the only process of a fleet, which is trainer 0."""
    environ({**WITH_SERVERS, "PADDLE_TRAINER_ENDPOINTS": "a:1", "PADDLE_TRAINER_ID": "0"})
    monkeypatch.setenv("PADDLE_IS_BARRIER_ALL_ROLE", "0")  # servers do not meet
    return {"path": str(tmp_path)}


@pytest.mark.parametrize(
    ("method", "wanted"),
    [("is_worker", True), ("is_server", False), ("is_first_worker", True), ("worker_index", 0), ("server_index", 0),
     ("get_trainer_endpoints", ["a:1"]), ("get_pserver_endpoints", SERVERS.split(","))],
)  # fmt: skip
def test_general_role_maker_finds_out_when_it_is_asked_first(alone_in_a_folder: Any, method: str, wanted: Any) -> None:
    assert getattr(GeneralRoleMaker(**alone_in_a_folder), method)() == wanted


def test_general_role_maker_joins_and_meets_when_it_is_asked_first(alone_in_a_folder: Any) -> None:
    total = [0.0, 0.0]
    maker = GeneralRoleMaker(**alone_in_a_folder)
    maker.all_reduce_worker([1.0, 2.0], total)
    assert total == [1.0, 2.0]
    maker._finalize()
    assert maker.is_first_worker()
    with pytest.raises(PreconditionNotMet, match="taken leave"):
        maker.barrier_worker()


def test_a_process_that_finds_trainer_0_gone_leaves() -> None:
    server = StoreServer("127.0.0.1", 0)
    server.close()
    asked: list[float] = []

    class Watched(RemoteStore):
        def with_patience(self, patience: float) -> RemoteStore:
            asked.append(patience)
            return super().with_patience(0.01)

    _take_leave(Watched("127.0.0.1", server.port, "", 3600.0), "job.left.1")
    assert asked == [1.0]
