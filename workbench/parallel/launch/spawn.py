"""`distributed.spawn`: a function called in several processes, also one that was defined in a notebook's cell.

The function travels by value (cloudpickle), through a private pipe, to processes that this one has just started: it is
code of this program on its way to its own children, never anything read from disk or the network.
"""

from __future__ import annotations

import atexit
import os
import signal
import threading
from collections.abc import Callable, Sequence
from typing import Any

from workbench.errors import EnforceNotMet, InvalidArgument, InvalidType, did_you_mean
from workbench.framework.notice import tell
from workbench.parallel.launch.by_value import by_value
from workbench.parallel.launch.job import GRACE, Job
from workbench.parallel.launch.main import start
from workbench.parallel.launch.mpiexec import find_launcher
from workbench.parallel.launch.options import FIRST_PORT, LaunchOptions
from workbench.parallel.launch.output import JobOutput
from workbench.parallel.launch.room import LENGTH_BYTES, Failure, Room
from workbench.runtime.standing import mpi_standing

CHILD = "workbench.parallel.launch.spawned"
OPTIONS = ("start_method", "gpus", "ips", "started_port", "backend", "print_config")
LOOK = 0.02  # seconds between two looks whether a pipe can take more


class ChildFailed(EnforceNotMet):
    """A process of `spawn` failed; the message has its traceback.

    Attributes:
        rank: which one; the first that failed. traceback: its text, `""` if it was killed.
    """

    def __init__(self, failure: Failure) -> None:
        self.rank, self.traceback = failure.rank, failure.traceback
        super().__init__(f"process {failure.rank} failed: {failure.what}\n{failure.traceback}".rstrip())


class SpawnContext:
    """Processes that `spawn` has started."""

    def __init__(self, job: Job, nprocs: int, daemon: bool) -> None:
        self._job, self.nprocs = job, nprocs
        self._at_exit: Callable[[], Any] = job.end if daemon else job.wait
        atexit.register(self._at_exit)

    def pids(self) -> list[int]:
        """The process ids of those that have begun, in the order of their ranks."""
        pids = self._job.room.pids()
        return [pids[rank] for rank in sorted(pids)]

    def join(self, timeout: float | None = None) -> bool:
        """Wait until all processes have ended; False if that takes longer than `timeout` seconds.

        An interrupt is passed on to them first.

        Raises:
            ChildFailed: one of them failed; the others were ended.
        """
        try:
            if not self._job.wait(timeout):
                return False
        except KeyboardInterrupt:
            self._job.ask(signal.SIGINT)
            self._job.wait(2 * GRACE)
            raise
        atexit.unregister(self._at_exit)
        if self._job.status:
            said = f"mpiexec ended with exit status {self._job.status}"
            raise ChildFailed(self._job.failure or Failure(0, said, "", 0.0))
        return True

    def end(self) -> None:
        """End all processes now."""
        self._job.end()


def spawn(
    func: Callable[..., Any], args: Sequence[Any] = (), nprocs: int = -1, join: bool = True, daemon: bool = False,
    **options: Any,
) -> SpawnContext:  # fmt: skip
    """Call `func(*args)` in several processes, each of which `init_parallel_env` then connects to the others.

    What they print appears here, with the rank before every line.

    Args:
        func, args: also what is defined in a notebook's cell or in a script; what they refer to goes with them.
        nprocs: how many; one for every processor (or for every entry of `gpus`) if -1.
        join: wait for them, and raise what the first that failed raised.
        daemon: end them with this process, rather than have its end wait for them.
        options: Paddle's. `gpus="0,1"` chooses devices, `started_port` the first port of endpoints; `backend`,
            `start_method`, `ips` and `print_config` are accepted and change nothing: MPI starts and connects processes.

    Raises:
        ChildFailed: a process failed; the message has its traceback.
        Unavailable: there is no mpiexec, or no cloudpickle.
        InvalidArgument, InvalidType: an unknown option, no function, a number of processes there cannot be.

    Example:
        >>> def train():                                              # doctest: +SKIP
        ...     wb.distributed.init_parallel_env()
        ...     print(wb.distributed.get_rank())
        >>> wb.distributed.spawn(train, nprocs=2)                     # doctest: +SKIP
        [0] 0
        [1] 1
    """
    devices = _devices(options)
    count = _count(nprocs, devices)
    task = _as_bytes(func, tuple(args))
    _tell_of_others(func, count)
    launch = LaunchOptions((), count, devices=devices, start_port=int(options.get("started_port") or FIRST_PORT))
    launcher, room = find_launcher(), Room(count, tasks=True)
    job = start(launch, launcher, JobOutput(count, None), room, CHILD)
    threading.Thread(target=_deliver, args=(task, room, job), name="workbench-spawn", daemon=True).start()
    context = SpawnContext(job, count, daemon)
    if join:
        context.join()
    return context


def _tell_of_others(func: Callable[..., Any], count: int) -> None:
    """A script that spawns is not for `launch`: every process would start as many again."""
    own = mpi_standing()
    if own is not None and own.size > 1:
        name = getattr(func, "__name__", "the function")
        tell(
            f"spawn: this process is rank {own.rank} of {own.size} that were started together; each of them that comes "
            f"here starts {count} more, which only know each other. Run the script with python, without `workbench "
            f"launch`; or have it call {name} itself instead of spawn"
        )


def _devices(options: dict[str, Any]) -> tuple[str, ...]:
    unknown = next((name for name in options if name not in OPTIONS), None)
    if unknown is not None:
        raise InvalidArgument(f"spawn has no option {unknown!r}.{did_you_mean(unknown, OPTIONS)}")
    return tuple(part.strip() for part in str(options.get("gpus") or "").split(",") if part.strip())


def _count(nprocs: Any, devices: Sequence[str]) -> int:
    if isinstance(nprocs, bool) or not isinstance(nprocs, int) or (nprocs < 1 and nprocs != -1):
        raise InvalidArgument(f"nprocs is a number of processes from 1 on, or -1, got {nprocs!r}")
    if devices and nprocs not in (-1, len(devices)):
        raise InvalidArgument(f"nprocs is {nprocs}, but gpus names {len(devices)}: {','.join(devices)}")
    if nprocs != -1:
        return nprocs
    return len(devices) or (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def _as_bytes(func: Any, args: tuple[Any, ...]) -> bytes:
    """The function with what it refers to, and where the children find the modules it imports."""
    if not callable(func):
        raise InvalidType(f"spawn calls a function, got {type(func).__name__}")
    name = f"{getattr(func, '__qualname__', repr(func))} and its arguments"
    body = by_value((func, args), purpose="spawn", name=name)
    return len(body).to_bytes(LENGTH_BYTES, "little") + body


def _deliver(task: bytes, room: Room, job: Job) -> None:
    """Write the task into every process's pipe, as it reads; a pipe stays open until the job has ended."""
    try:
        pipes = {room.open_task(rank): memoryview(task) for rank in range(room.processes)}
    except FileNotFoundError:  # the job has ended already
        return
    try:
        while not job.wait(LOOK if any(pipes.values()) else None):
            for pipe, rest in pipes.items():
                try:
                    pipes[pipe] = rest[os.write(pipe, rest) :] if rest else rest
                except BlockingIOError:
                    continue
    finally:
        for pipe in pipes:
            os.close(pipe)
