"""The command line of `workbench launch`, and what it tells mpiexec and the processes."""

import os
import sys
import tempfile
from pathlib import Path

import pytest

from workbench.parallel.launch.job import Job
from workbench.parallel.launch.main import main
from workbench.parallel.launch.mpiexec import Launcher, command_line
from workbench.parallel.launch.options import LaunchOptions, parse
from workbench.parallel.launch.output import JobOutput
from workbench.parallel.launch.room import Room
from workbench.parallel.launch.variables import server_endpoints, server_job_variables, trainer_variables

OPEN_MPI, MPICH = Launcher("mpiexec", True, "Open MPI"), Launcher("mpiexec", False, "HYDRA")


def test_without_mpi4py_nothing_is_started_and_pip_is_told(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    assert main(["-n", "2", "--log_dir", str(tmp_path / "log"), script]) == 2
    told = capsys.readouterr().err
    assert (
        "mpi4py" in told and "pip install 'notebook-workbench[processes]'" in told and not (tmp_path / "log").exists()
    )


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text("")
    return str(path)


def asked(line: str, script: str) -> LaunchOptions:
    return parse([*line.split(), script, "--epochs", "3", "-n", "7"], "workbench launch")


@pytest.mark.parametrize(
    ("line", "processes", "nodes"),
    [
        ("", 1, 1),
        ("-n 4", 4, 1),
        ("--nproc_per_node 3", 3, 1),
        ("--nproc_per_node=2 --hosts a,b", 4, 2),
        ("--ips a,b -n 6", 6, 2),
        ("--devices 0,1,2", 3, 1),
        ("--gpus 0,1 --nproc_per_node 1", 1, 1),
        ("--selected_gpus 0,1", 2, 1),
        ("--server_num 2 --worker_num 3", 5, 1),
        ("--servers a:1,b:2 --workers a:3", 3, 1),
    ],
)
def test_how_many_processes_start(line: str, processes: int, nodes: int, script: str) -> None:
    options = asked(line, script)
    assert (options.processes, options.nodes) == (processes, nodes)
    assert options.command == (script, "--epochs", "3", "-n", "7")


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("-n 3 --nproc_per_node 2", "-n 3 and --nproc_per_node 2"),
        ("-n 3 --hosts a,b", "3 processes cannot be shared evenly among 2"),
        ("--nnodes 3 --hosts a,b", "--nnodes 3, but --hosts names 2"),
        ("--nnodes 2", "--hosts"),
        ("--devices 0,1,2 -n 2", "3 devices"),
        ("--hosts a,a", "a is listed twice"),
        ("--server_num 2", "--worker_num"),
        ("--server_num 2 --worker_num 1 -n 3", "-n"),
        ("--server_num 1 --worker_num 1 --servers a:1,b:2", "--servers names 2"),
        ("--servers a --workers b:1", "IP:PORT"),
        ("--run_mode ps", "--server_num"),
        ("--server_num 1 --worker_num 2 --elastic", "--max_restart starts a lost trainer"),
        ("-n 2 --max_restart 1", "for jobs with parameter servers"),
        ("-n 0", "from 1 on"),
        ("--unknown", "--unknown"),
    ],
)
def test_what_contradicts_itself_is_refused(
    line: str, told: str, script: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    with pytest.raises(SystemExit) as caught:
        asked(line, script)
    assert caught.value.code == 2 and told in capsys.readouterr().err


def test_inside_an_allocation_the_machines_are_known(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    options = asked("--nnodes 2 --nproc_per_node 2", script)
    line = command_line(OPEN_MPI, options.processes, options.nodes, options.hosts, ["python"])
    assert line[:5] == ["mpiexec", "-n", "4", "--map-by", "ppr:2:node:oversubscribe"]


def test_mpiexecs_are_told_in_their_own_words() -> None:
    assert command_line(OPEN_MPI, 4, 1, (), ["python", "a.py"]) == ["mpiexec", "-n", "4", "python", "a.py"]
    two = command_line(OPEN_MPI, 4, 2, ("a", "b"), ["python"])
    assert (
        two[3:7] == ["--map-by", "slot:oversubscribe", "--host", "a:2,b:2"]
        and two[-1] == "python"
        and "PATH" in two[two.index("-x") :]
    )
    hydra = command_line(MPICH, 4, 2, ("a", "b"), ["python"])
    assert hydra[3:8] == ["-hosts", "a,b", "-ppn", "2", "-prepend-rank"]


@pytest.mark.parametrize(
    ("end", "status"), [("Killed (signal 9)", 137), ("Exited (exit code 9)", 9)], ids=["signal", "exit code"]
)
def test_the_exit_status_tells_a_signal_as_that_of_shells_does(end: str, status: int) -> None:
    """MPICH's mpiexec ends with the number of the signal."""
    said = f"print('YOUR APPLICATION TERMINATED WITH THE EXIT STRING: {end}'); raise SystemExit(9)"
    job = Job([sys.executable, "-c", said], Room(2), JobOutput(2, None), {})
    assert job.wait(60) and job.status == status


def test_folders_of_jobs_are_removed_when_nobody_is_left_in_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    rooms = standing, entered, deserted, young = [Room(1) for _ in range(4)]
    reader = os.open(entered.path / "alive", os.O_RDONLY | os.O_NONBLOCK)
    for room in (entered, deserted, young):  # as if the launcher had been killed
        os.close(room._alive)
        room._alive = -1
    for room in (standing, entered, deserted):
        os.utime(room.path, (0, 0))
    Room(1).close()
    os.close(reader)
    assert [room.path.exists() for room in rooms] == [True, True, False, True]
    for room in rooms:
        room.close()
    assert not [*tmp_path.iterdir()]


def test_rule_d_23_the_variables_of_a_trainer() -> None:
    variables = trainer_variables(2, ["a", "a", "b", "b"], ["0", "1"], 6170, "job")
    assert variables == {
        "PADDLE_TRAINER_ID": "2",
        "PADDLE_TRAINERS_NUM": "4",
        "PADDLE_CURRENT_ENDPOINT": "b:6170",
        "PADDLE_TRAINER_ENDPOINTS": "a:6170,a:6171,b:6170,b:6171",
        "PADDLE_RANK_IN_NODE": "0",
        "PADDLE_GLOBAL_RANK": "2",
        "PADDLE_GLOBAL_SIZE": "4",
        "PADDLE_LOCAL_RANK": "0",
        "PADDLE_LOCAL_SIZE": "2",
        "PADDLE_NNODES": "2",
        "PADDLE_MASTER": "a:6170",
        "PADDLE_DISTRI_BACKEND": "gloo",
        "POD_NAME": "job-1",
        "PADDLE_LOCAL_DEVICE_IDS": "0",
        "PADDLE_WORLD_DEVICE_IDS": "0,1,0,1",
        "FLAGS_selected_gpus": "0",
    }


def test_rule_d_23_the_variables_of_a_job_with_servers() -> None:
    hosts = ["127.0.0.1"] * 3
    servers = server_endpoints(hosts, 1, 6170)
    trainer = server_job_variables(1, hosts, servers, 6170)
    assert trainer["TRAINING_ROLE"] == "TRAINER" and trainer["PADDLE_TRAINER_ID"] == "1"
    assert trainer["PADDLE_TRAINERS_NUM"] == "2" and trainer["PADDLE_CURRENT_ENDPOINT"] == "127.0.0.1:6171"
    server = server_job_variables(2, hosts, servers, 6170)
    assert (server["TRAINING_ROLE"], server["POD_IP"], server["PADDLE_PORT"]) == ("PSERVER", "127.0.0.1", "6172")
    assert server["PADDLE_PSERVERS_IP_PORT_LIST"] == trainer["PADDLE_PSERVERS_IP_PORT_LIST"] == "127.0.0.1:6172"
