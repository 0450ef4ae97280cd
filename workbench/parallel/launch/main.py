"""`workbench launch`, which is `python -m workbench.distributed.launch`, too."""

from __future__ import annotations

import itertools
import secrets
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from workbench.errors import EnforceNotMet
from workbench.parallel.launch.job import Job
from workbench.parallel.launch.mpiexec import Launcher, command_line, find_launcher
from workbench.parallel.launch.options import LaunchOptions, parse
from workbench.parallel.launch.output import JobOutput
from workbench.parallel.launch.room import Room
from workbench.parallel.launch.starter import require_grpc
from workbench.parallel.launch.variables import ServerRoles
from workbench.runtime.standing import LAUNCHED, STARTS

RANK, STARTER = "workbench.parallel.launch.rank", "workbench.parallel.launch.starter"
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
USAGE = 2

DeliveredTo = Callable[[Callable[[int], None]], AbstractContextManager[None]]  # has signals go to a function


def main(arguments: Sequence[str] | None = None, program: str = "workbench launch") -> int:
    """Start a script in several processes, wait for them, and give the exit status.

    Args:
        arguments: those of the command line, this process's unless given.
        program: what messages call the command.
    """
    options = parse(sys.argv[1:] if arguments is None else arguments, program)
    try:
        launcher = find_launcher() if not options.restarts else None
        with _signals_held() as delivered_to:
            name = secrets.token_hex(8)
            job = _run(options, launcher, delivered_to, 0, name)
            for starts in itertools.count(1):
                if not (options.elastic and job.has_lost_one and job.asked is None and options.processes > 1):
                    break
                options = options.with_one_less()
                print(f"{program}: a process was lost; starting again with {options.processes}", file=sys.stderr)
                job = _run(options, launcher, delivered_to, starts, name)
    except (EnforceNotMet, OSError) as error:
        print(f"{program}: {error}", file=sys.stderr)
        return USAGE
    return _verdict(job, program)


def _run(options: LaunchOptions, launcher: Launcher | None, delivered_to: DeliveredTo, n: int, name: str) -> Job:
    """A job from its beginning to its end, after `n` that lost a process each."""
    output = JobOutput(options.processes, options.log_dir, goes_on=n > 0)
    starts = {STARTS: str(n), LAUNCHED: name}
    room = Room(options.processes)
    if launcher is None:
        job = start_one_by_one(options, output, room, starts)
    else:
        job = start(options, launcher, output, room, more=starts)
    with delivered_to(job.ask):
        job.wait()
    return job


def start(
    options: LaunchOptions,
    launcher: Launcher,
    output: JobOutput,
    room: Room,
    module: str = RANK,
    more: Mapping[str, str] | None = None,
) -> Job:
    """Start the processes of a job.

    Args:
        module: what runs in each of them, given the options' command. more: further variables for them.
    """
    python = [sys.executable, "-m", "mpi4py", "-m", module, *options.command]
    roles = ServerRoles(options.processes - options.server_count, options.server_count)
    command = command_line(
        launcher, options.processes, options.nodes, options.hosts, python, outlives=bool(options.server_count)
    )
    setting = room.setting(
        processes=options.processes,
        mpiexec=f"{launcher.path}, {launcher.version}",
        devices=options.devices,
        servers=options.servers,
        server_count=options.server_count,
        start_port=options.start_port,
        name=options.job,
    )
    memory = room.memory.variables() if options.nodes == 1 else {}
    variables = {**setting, **memory, **(more or {})}
    return Job(command, room, output, variables, roles if options.server_count else None)


def start_one_by_one(options: LaunchOptions, output: JobOutput, room: Room, more: Mapping[str, str]) -> Job:
    """Start the processes of a job in which trainers that are killed are started again.

    Args:
        more: further variables for them.

    Raises:
        Unavailable: there is no gRPC.
    """
    require_grpc()
    python = [sys.executable, "-m"]
    setting = room.setting(
        processes=options.processes,
        devices=options.devices,
        servers=options.servers,
        server_count=options.server_count,
        start_port=options.start_port,
        restarts=options.restarts,
    )
    command = [*python, STARTER, *python, RANK, *options.command]
    return Job(command, room, output, {**setting, **more})


def _verdict(job: Job, program: str) -> int:
    failure = job.failure
    status = 1 if job.lost else job.status or (1 if failure else 0)  # mpiexec may not tell, where it goes on
    if not status:
        return 0
    if job.asked is not None:
        print(f"{program}: ended by {signal.Signals(job.asked).name}", file=sys.stderr)
        return 128 + job.asked
    if failure is None:
        print(f"{program}: mpiexec ended with exit status {status}", file=sys.stderr)
    else:
        print(f"{program}: process {failure.rank} failed first: {failure.what}", file=sys.stderr)
        print(failure.traceback, end="", file=sys.stderr)
    return status if status > 0 else 128 - status


@contextmanager
def _signals_held() -> Iterator[DeliveredTo]:
    """Signals to this process go to one function after the other; those that come in between wait for the next one."""
    receiver: list[Callable[[int], None]] = []
    early: list[int] = []

    def receive(number: int, frame: Any) -> None:
        if receiver:
            receiver[-1](number)
        else:
            early.append(number)

    @contextmanager
    def delivered_to(target: Callable[[int], None]) -> Iterator[None]:
        receiver.append(target)
        try:
            while early:
                target(early.pop(0))
            yield
        finally:
            receiver.clear()

    before = {number: signal.signal(number, receive) for number in PASSED_ON}
    try:
        yield delivered_to
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
