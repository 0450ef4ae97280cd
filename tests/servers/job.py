"""Servers and trainers as processes: started by hand, with endpoints, or together as ranks of an MPI job.

The script of a job is a text; it finds `role` ("server" or "trainer"), `index`, `trainers` and `endpoints`, and what
`hand_made` has, and puts what it wants to be compared into `results`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.processes.ranks import ROOT, ending_with_us, environment, require_mpi

_BEGIN = """
import json, os, sys, time
import faulthandler; faulthandler.dump_traceback_later({limit}, exit=True)
import numpy as np
import workbench as wb
from workbench import static
from workbench.errors import *
from tests.servers.hand_made import server_programs, trainer_programs
wb.enable_static()
endpoints = os.environ["PADDLE_PSERVERS_IP_PORT_LIST"].split(",")
trainers = int(os.environ["PADDLE_TRAINERS_NUM"])
role = "server" if os.environ["TRAINING_ROLE"] == "PSERVER" else "trainer"
if role == "server":
    index = endpoints.index(os.environ["POD_IP"] + ":" + os.environ["PADDLE_PORT"])
else:
    index = int(os.environ["PADDLE_TRAINER_ID"])
results, executor = {{}}, static.Executor()
"""
_END = """
path = os.path.join(os.environ["RESULTS"], f"{role}{index}.json")
with open(path + ".part", "w") as file:
    json.dump(results, file)
os.rename(path + ".part", path)
"""


def free_endpoints(count: int) -> list[str]:
    """Ports of this machine that nobody listens at."""
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    endpoints = [f"127.0.0.1:{one.getsockname()[1]}" for one in held]
    for one in held:
        one.close()
    return endpoints


class Job:
    """Processes started by hand.

    Args:
        limit: seconds after which a process ends itself. variables: of the environment.
    """

    def __init__(self, script: str, trainers: int = 2, servers: int = 1, limit: float = 60.0, **variables: str) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="workbench-servers-"))
        self.endpoints = free_endpoints(servers)
        self._path = self.folder / "script.py"
        self._path.write_text(_BEGIN.format(limit=limit) + textwrap.dedent(script) + _END)
        self._limit, self._trainers = limit, trainers
        self._variables = variables
        self.processes: dict[str, subprocess.Popen[str]] = {}

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.kill()
            process.communicate()

    def start(self, role: str, index: int, name: str = "", **variables: str) -> str:
        """Start one process; the name it goes by."""
        host, _, port = self.endpoints[index if role == "server" else 0].rpartition(":")
        own = {"TRAINING_ROLE": "PSERVER", "POD_IP": host, "PADDLE_PORT": port}
        if role == "trainer":
            own = {"TRAINING_ROLE": "TRAINER", "PADDLE_TRAINER_ID": str(index)}
        shared = {
            "PADDLE_PSERVERS_IP_PORT_LIST": ",".join(self.endpoints),
            "PADDLE_TRAINERS_NUM": str(self._trainers),
            "RESULTS": str(self.folder),
        }
        name = name or f"{role}{index}"
        self.processes[name] = subprocess.Popen(
            [sys.executable, str(self._path)], env={**environment(**shared, **own), **self._variables, **variables},
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        return name

    def start_all(self) -> None:
        """Start every server and every trainer."""
        for index in range(len(self.endpoints)):
            self.start("server", index)
        for index in range(self._trainers):
            self.start("trainer", index)

    def kill(self, name: str) -> None:
        """End a process without a farewell."""
        os.kill(self.processes[name].pid, signal.SIGKILL)
        self.processes[name].wait(10)

    def wait(self, name: str) -> str:
        """Wait for a process that ends well; what it printed."""
        text = self.processes[name].communicate(timeout=self._limit)[0]
        assert self.processes[name].returncode == 0, f"{name}:\n{text}"
        return text

    def wait_all(self) -> dict[str, Any]:
        """Wait for all that run; their results by name."""
        for name in self.processes:
            if self.processes[name].returncode is None:
                self.wait(name)
        return self.results()

    def results(self) -> dict[str, Any]:
        """What those that have ended have found."""
        return results_in(self.folder)

    def until(self, file: str) -> None:
        """Wait until a process has made a file in the folder of results."""
        end = time.monotonic() + self._limit
        while not (self.folder / file).exists():
            assert time.monotonic() < end, f"nobody has made {file}"
            assert all(p.poll() in (None, 0, -9) for p in self.processes.values()), self._said()
            time.sleep(0.02)

    def _said(self) -> str:
        return "\n".join(p.communicate()[0] for p in self.processes.values() if p.poll() not in (None, 0, -9))


def run_by_hand(script: str, trainers: int = 2, servers: int = 1, **variables: str) -> dict[str, Any]:
    """Run a job of processes that talk by gRPC; results by name."""
    with Job(script, trainers, servers, **variables) as job:
        job.start_all()
        return job.wait_all()


@contextmanager
def launched(
    folder: Path,
    script: str,
    trainers: int = 2,
    servers: int = 1,
    limit: float = 60.0,
    options: Sequence[str] = (),
    **variables: str,
) -> Iterator[subprocess.Popen[str]]:
    """A job started by `workbench launch`, of MPI ranks unless `options` say otherwise; its results and logs are in
    the folder."""
    require_mpi()
    path = folder / "script.py"
    path.write_text(_BEGIN.format(limit=limit) + textwrap.dedent(script) + _END)
    command = [sys.executable, "-m", "workbench.distributed.launch", "--log_dir", str(folder / "log")]
    command += ["--server_num", str(servers), "--worker_num", str(trainers), *options, str(path)]
    process = subprocess.Popen(
        ending_with_us(command), env=environment(RESULTS=str(folder), **variables), cwd=ROOT,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()  # and with it all it has started
        process.communicate()


def results_in(folder: Path) -> dict[str, Any]:
    """What processes that have ended well have found, by name."""
    return {path.stem: json.loads(path.read_text()) for path in folder.glob("*.json")}


def run_launched(script: str, trainers: int = 2, servers: int = 1, limit: float = 60.0) -> dict[str, Any]:
    """Run a job of MPI ranks, by `workbench launch`; results by name."""
    with tempfile.TemporaryDirectory(prefix="workbench-servers-") as folder:
        with launched(Path(folder), script, trainers, servers, limit) as process:
            said = process.communicate(timeout=limit + 20)[0]
        assert process.returncode == 0, said
        return results_in(Path(folder))


RUNS = {"launched": run_launched, "by_hand": run_by_hand}
