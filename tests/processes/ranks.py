"""Scripts run on several ranks, with an end to it: `run_ranks`.

    found = run_ranks(\"\"\"
        from workbench.runtime.comm.mpi.world import world
        print(world().rank)
    \"\"\", ranks=2)
    assert found.code == 0 and found.outputs == ["0\\n", "1\\n"]

The script is text, run as `__main__` under `python -m mpi4py`; its ranks' outputs are kept apart. Whatever happens the
job is over after `timeout` seconds, or when the tests end, and nothing of it is left: what is, is killed and told in
`orphans`.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import textwrap
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "OMPI_MCA_osc": "^ucx",
}
# Becomes a command that the system asks to end when whoever started it is gone (prctl 1 is PR_SET_PDEATHSIG).
_ENDING_WITH_US = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""
_GRACE = 5.0  # seconds a job that is asked to end has for it


@dataclass
class Job:
    """What became of a script on several ranks.

    Attributes:
        code: the exit status of mpiexec, None if it was ended because time was up.
        outputs, errors: of each rank. said: of mpiexec itself. seconds: how long it took.
        orphans: processes that were left when mpiexec had ended, as `pid command`.
    """

    code: int | None
    outputs: list[str]
    errors: list[str]
    said: str
    seconds: float
    orphans: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        parts = [f"exit status {self.code} after {self.seconds:.1f} s\n{self.said}"]
        for rank, (out, err) in enumerate(zip(self.outputs, self.errors)):
            parts.append(f"-- rank {rank}\n{out[-6000:]}\n{err[-6000:]}")
        return "\n".join(parts)


def mpiexec() -> str | None:
    """The mpiexec that belongs to mpi4py's MPI: beside the interpreter, beside mpi4py, or on the PATH."""
    spec = find_spec("mpi4py")
    if spec is None or spec.origin is None:
        return None
    beside = Path(spec.origin).parents[4] / "bin"
    folders = [sysconfig.get_path("scripts"), str(beside), os.environ.get("PATH", "")]
    return shutil.which("mpiexec", path=os.pathsep.join(folders))


def require_mpi() -> str:
    """The mpiexec to be used; skips the test where there is none."""
    program = mpiexec()
    if program is None:
        pytest.skip("several processes need mpi4py and an mpiexec: pip install -e '.[processes]'")
    return program


@cache
def is_open_mpi() -> bool:
    """Whether it is Open MPI; else MPICH, or one of its kin."""
    told = subprocess.run([require_mpi(), "--version"], capture_output=True, text=True, timeout=60, check=True)
    return "open mpi" in told.stdout.lower()


def environment(**more: str) -> dict[str, str]:
    """That of a job: of this process, without what tells of another job, with one thread for the BLAS."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMIX_", "PMI_", "PADDLE_", "PYTEST_"))}
    return {**kept, **_OPEN_MPI, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1", **more}


def ending_with_us(command: Sequence[str]) -> list[str]:
    """A command, of a path and arguments, that does not outlive the tests; where the system can see to it."""
    if not sys.platform.startswith("linux"):
        return list(command)
    return [sys.executable, "-SEc", _ENDING_WITH_US, str(os.getpid()), *command]


def run_ranks(
    script: str,
    ranks: int = 2,
    timeout: float = 60.0,
    args: tuple[str, ...] = (),
    options: tuple[str, ...] = (),
    **variables: str,
) -> Job:
    """Run a script on so many ranks.

    Args:
        timeout: seconds after which the job is ended. args: of the script. options: of mpiexec.
        variables: of the environment.
    """
    command = [require_mpi(), "-n", str(ranks), *options, sys.executable, "-m", "mpi4py"]
    with tempfile.TemporaryDirectory(prefix="workbench-ranks-") as folder:
        path = Path(folder) / "script.py"
        path.write_text(textwrap.dedent(script))
        command += [str(Path(__file__).with_name("rank_main.py")), folder, str(timeout), str(path), *args]
        begin = time.monotonic()
        process = subprocess.Popen(
            ending_with_us(command), env=environment(**variables), cwd=folder, start_new_session=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        try:
            said, in_time = _communicate(process, timeout)
        except BaseException:  # the tests are interrupted
            _left_of(process.pid, 0.0)
            raise
        seconds = time.monotonic() - begin
        orphans = _left_of(process.pid)
        outputs, errors = ([_text(Path(folder) / f"{rank}.{kind}") for rank in range(ranks)] for kind in ("out", "err"))
        return Job(process.returncode if in_time else None, outputs, errors, said, seconds, orphans)


def _communicate(process: subprocess.Popen[str], timeout: float) -> tuple[str, bool]:
    try:
        return process.communicate(timeout=timeout)[0], True
    except subprocess.TimeoutExpired:
        process.terminate()
    try:
        return process.communicate(timeout=_GRACE)[0], False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return process.communicate(timeout=_GRACE)[0], False


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def _left_of(session: int, patience: float = 2.0) -> list[str]:
    """What is left of a session after so many seconds; it is killed."""
    until = time.monotonic() + patience
    while (members := _members(session)) and time.monotonic() < until:
        time.sleep(0.05)
    for pid in members:
        os.kill(pid, signal.SIGKILL)
    return [f"{pid} {command}" for pid, command in members.items()]


def _members(session: int) -> dict[int, str]:
    """Processes of a session that have not ended, with their commands."""
    commands = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            command, _, rest = stat.read_text().partition("(")[2].rpartition(")")
        except OSError:
            continue
        state, _, _, of = rest.split()[:4]
        if int(of) == session and state not in "ZX":
            commands[int(stat.parent.name)] = command
    return commands
