"""Runs the programs in `peers/`, each in a process of its own that ends in time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

DEVICES = 2
FOLDER = Path(__file__).parent / "peers"
ROOT = FOLDER.parents[2]
PATIENCE_S = 300  # besides the time of the steps; a slow machine imports a library in seconds, compiles in a minute
OF_A_PEER = {"CPU_NUM", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "XLA_FLAGS"}


@dataclass(frozen=True, eq=False)
class Peer:
    """A library used in one way.

    Attributes:
        name: in tables. library: the interpreters' key. program: its file in `peers/`.
        environment: what makes it use as many processors as there are devices.
        options: what its program is told besides.
    """

    name: str
    library: str
    program: str
    environment: Mapping[str, str] = field(default_factory=dict)
    options: tuple[str, ...] = ()


FROM_THIS_TREE = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
WORKBENCH = Peer(
    "workbench",
    "workbench",
    "workbench_parallel.py",
    {"CPU_NUM": str(DEVICES), "PYTHONPATH": FROM_THIS_TREE},
)
OTHERS = (
    Peer("Paddle ParallelExecutor", "paddle", "paddle_parallel.py", {"CPU_NUM": str(DEVICES), "OMP_NUM_THREADS": "1"}),
    Peer("PyTorch eager", "torch", "pytorch.py"),
    Peer("PyTorch DDP", "torch", "pytorch_ddp.py", {"OMP_NUM_THREADS": "1"}),
    Peer("JAX jit", "jax", "jax_jit.py"),
    Peer(
        "JAX data parallel",
        "jax",
        "jax_parallel.py",
        {"XLA_FLAGS": f"--xla_force_host_platform_device_count={DEVICES}"},
    ),
)


class Run(NamedTuple):
    """What a peer prints; `peers/measure.py` says what it means."""

    version: str
    rate: float
    first_step: float
    growth: int
    losses: list[float]


class PeerError(Exception):
    """A peer crashed, or took too long; says which."""


def measure(peer: Peer, python: str, workload: str, seconds: float) -> Run:
    """Train a workload for so long.

    Raises:
        PeerError: it did not come to its end; with the last line it said.
    """
    return Run(**figures(peer, python, [workload, str(DEVICES), str(seconds)], PATIENCE_S + 5 * seconds))


def figures(peer: Peer, python: str, arguments: Sequence[str], deadline: float) -> dict[str, Any]:
    """What a peer's program says in its last line, a line of JSON.

    Raises:
        PeerError: it did not come to its end after so many seconds, or failed; with the last line it said.
    """
    command = [python, str(FOLDER / peer.program), *arguments, *peer.options]
    environment = {key: value for key, value in os.environ.items() if key not in OF_A_PEER}
    said: dict[str, Any] = json.loads(answer(command, {**environment, **peer.environment}, deadline).splitlines()[-1])
    return said


def answer(command: list[str], environment: Mapping[str, str], deadline: float) -> str:
    """What a command prints. It and all it started are ended after so many seconds, and when Ctrl-C comes.

    Raises:
        PeerError: it cannot be started, fails, or has been ended.
    """
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        raise PeerError(str(error)) from error
    try:
        said, complained = process.communicate(timeout=deadline)
    except subprocess.TimeoutExpired:
        raise PeerError(f"not done after {deadline:g} s") from None
    finally:
        if process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode:
        raise PeerError((complained.strip().splitlines() or [f"exit status {process.returncode}"])[-1])
    return said


def interpreters(paddle: str | None, torch: str | None, jax: str | None) -> dict[str, str | None]:
    """The Python of each library, None where none was given; ours is this one."""
    return {"workbench": sys.executable, "paddle": paddle, "torch": torch, "jax": jax}
