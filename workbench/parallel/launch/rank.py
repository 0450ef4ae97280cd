"""What a process of a job does before the user's script: `python -m mpi4py -m workbench.parallel.launch.rank script …`.

mpi4py runs it, so that an exception ends the whole job; without, the others would wait for this process for ever.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from workbench.errors import EnforceNotMet, Unavailable
from workbench.parallel.launch.room import SETTING, Doorway, doorway
from workbench.parallel.launch.starter import RANK
from workbench.parallel.launch.variables import LOCALHOST, server_endpoints, server_job_variables, trainer_variables
from workbench.runtime.standing import mpi_standing

HOST_NAME_BYTES = 256
_SPAWNED = os.path.join(os.path.dirname(__file__), "spawned.py")


def main() -> None:
    """Run the command line's script as one process of a job."""
    from mpi4py.run import run_command_line

    def script(door: Doorway | None) -> None:
        run_command_line(sys.argv[1:])

    run_in_job(script)


def run_in_job(task: Callable[[Doorway | None], None]) -> None:
    """Set this process up as one of a job, and do `task`.

    Raises:
        SystemExit: it failed; what it raised has been printed, and told to whoever started the job. Or that one has
            gone while this process was started.
    """
    job = json.loads(os.environ.pop(SETTING))
    own, told = os.environ.pop(RANK, ""), mpi_standing()  # what scripts start in turn has other numbers
    rank = int(own) if own else told.rank if told else None
    door = doorway(job, rank) if rank is not None else None
    if own and door is None:
        raise SystemExit(f"process {own} does not begin: its job, of the folder {job['room']}, is over")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # mpiexec does not say when its stdin ends
    if door is not None:
        door.enter()
    try:
        os.environ.update(_alone(job, int(own)) if own else _variables(job))
        if door is not None:
            door.tell_ready()
        task(door)
        _take_leave(job)
    except SystemExit as end:
        if end.code in (None, 0):
            _take_leave(job)
        elif door is not None:
            door.tell_failure(f"ended with sys.exit({end.code!r})", "")
        raise
    except BaseException as error:
        raise SystemExit(_told(door, error)) from None
    finally:
        if door is not None:
            door.tell_end()


def _take_leave(job: Mapping[str, Any]) -> None:
    """Parameter servers, which a script may not have left, do not wait for a process that has ended well."""
    if not job["server_count"]:
        return
    from workbench.runtime.servers.standing import leave_servers

    for thread in threading.enumerate():  # the process waits for them, and they may train
        if not thread.daemon and thread is not threading.current_thread():
            thread.join()
    leave_servers()


def _told(door: Doorway | None, error: BaseException) -> int:
    """Print a traceback and leave word of it; the exit status that follows."""
    text = "".join(traceback.format_exception(type(error), error, _own_frames(error)))
    print(text, end="", file=sys.stderr, flush=True)
    if door is not None:
        is_of_a_loss = isinstance(error, EnforceNotMet) and "is gone" in str(error)  # a program's own errors may say so
        door.tell_failure(traceback.format_exception_only(error)[-1].strip(), text, is_of_a_loss)
    return 130 if isinstance(error, KeyboardInterrupt) else 1


def _own_frames(error: BaseException) -> Any:
    """The user's part of a traceback: what lies above it runs every script."""
    trace = error.__traceback__
    while trace is not None and _runs_scripts(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace or error.__traceback__


def _runs_scripts(file: str) -> bool:
    return file in (__file__, _SPAWNED) or "runpy" in file or os.path.join("mpi4py", "run.py") in file


def _variables(job: Mapping[str, Any]) -> dict[str, str]:
    """Paddle's variables of this process.

    Raises:
        Unavailable: mpiexec and mpi4py do not belong together.
    """
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    if world.size != job["processes"]:
        raise Unavailable(
            f"{job['processes']} processes were started, but this one sees {world.size}: mpiexec and mpi4py's library "
            "are of different MPIs\n"
            f"  mpiexec: {job['mpiexec']}\n  library: {MPI.Get_library_version().splitlines()[0]}\n"
            "  WORKBENCH_MPIEXEC chooses another mpiexec, MPI4PY_LIBMPI another library"
        )
    hosts = _hosts(world)
    if not job["server_count"]:
        return trainer_variables(world.rank, hosts, job["devices"], job["start_port"], job["name"])
    return _server_variables(job, world.rank, hosts)


def _alone(job: Mapping[str, Any], rank: int) -> dict[str, str]:
    """Those of a process that no MPI has started."""
    return _server_variables(job, rank, [LOCALHOST] * job["processes"])


def _server_variables(job: Mapping[str, Any], rank: int, hosts: Sequence[str]) -> dict[str, str]:
    """Those of a job with parameter servers."""
    servers = job["servers"] or server_endpoints(hosts, job["server_count"], job["start_port"])
    return server_job_variables(rank, hosts, servers, job["start_port"])


def _hosts(world: Any) -> list[str]:
    """The machine of every process; all on one are on 127.0.0.1."""
    own = np.zeros(HOST_NAME_BYTES, np.uint8)
    name = socket.gethostname().encode()[:HOST_NAME_BYTES]
    own[: len(name)] = list(name)
    gathered = np.empty((world.size, HOST_NAME_BYTES), np.uint8)
    world.Allgather(own, gathered)
    names = [bytes(row).rstrip(b"\0").decode(errors="replace") for row in gathered]
    return names if len(set(names)) > 1 else [LOCALHOST] * world.size


if __name__ == "__main__":
    main()
