"""Whether two processes can be started and add numbers up; what `workbench doctor` tries."""

from __future__ import annotations

import contextlib
import io
import time

from workbench.errors import EnforceNotMet
from workbench.parallel.launch.main import start
from workbench.parallel.launch.mpiexec import find_launcher
from workbench.parallel.launch.options import LaunchOptions
from workbench.parallel.launch.output import JobOutput
from workbench.parallel.launch.room import Room

PATIENCE = 60.0  # seconds


def try_two_processes() -> str:
    """What became of two processes, in a line."""
    begin = time.monotonic()
    options = LaunchOptions(("-m", __name__), processes=2)
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        try:
            job = start(options, find_launcher(), JobOutput(2, None), Room(2))
        except (EnforceNotMet, OSError) as error:
            return f"cannot be started: {error}"
        in_time = job.wait(PATIENCE)
        if not in_time:
            job.end()
    seconds = time.monotonic() - begin
    if not in_time:
        return f"two processes did not end within {PATIENCE:.0f} s"
    if job.status or out.getvalue().count("sum 3") != 2:
        said = job.failure.what if job.failure else (err.getvalue().strip().splitlines() or ["they said nothing"])[-1]
        return f"two processes failed to add numbers up: {said}"
    return f"two processes started and added numbers up in {seconds:.1f} s"


def main() -> None:
    """One of the two."""
    import numpy as np
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    total = np.empty(1, np.int64)
    world.Allreduce(np.array([world.rank + 1]), total)
    print("sum", total[0])


if __name__ == "__main__":
    main()
