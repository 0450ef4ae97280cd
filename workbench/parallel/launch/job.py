"""A job: mpiexec and the processes it has started, watched until they have ended."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from operator import attrgetter

from workbench.parallel.launch.begun import begun_by
from workbench.parallel.launch.mpiexec import environment
from workbench.parallel.launch.output import JobOutput
from workbench.parallel.launch.room import Failure, Room
from workbench.parallel.launch.variables import ServerRoles
from workbench.runtime.comm.mpi.memory.peers import state_of

GRACE = 5.0  # seconds processes have between a signal that asks them to end and one that does not ask
LAST_WORK = 30.0  # seconds servers have for what they still keep, when a trainer was killed and none is left
LAST_WORDS = 0.2  # seconds in which what was printed last is still read once mpiexec has ended
LOOK = 0.1  # seconds between two looks whether a signal has come
LOOK_FOR_LOST = 0.25  # seconds between two looks whether a process was killed
CHUNK = 1 << 16

# Becomes mpiexec, which the system ends when the thread that started it has gone (prctl 1 is PR_SET_PDEATHSIG).
_ENDING_WITH_US = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGTERM)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""

# What mpiexec says of the process that ended the job: a rank (Open MPI), or a process id (MPICH).
_RANK = re.compile(r"(?:process rank |Process name: \[\S*@\d+,)(\d+)")
_PID = re.compile(r"PID (\d+) RUNNING AT")
_SIGNAL = re.compile(r"\(signal (\d+)\)")  # MPICH's exit status is then the signal


class Job:
    """Processes started together.

    Attributes:
        status: of mpiexec, once it has ended. asked: the signal by which they were asked to end.
        lost: where there are servers, the processes that were killed.
        has_lost_one: whether it ended because a process was gone, and no program failed of its own accord.

    Args:
        command: of mpiexec.
        room: where its processes are met. output: what they print goes there.
        variables: further ones for the processes.
        roles: where there are parameter servers, mpiexec leaves it to us to end the job when one of them is killed.

    Raises:
        OSError: mpiexec cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        room: Room,
        output: JobOutput,
        variables: Mapping[str, str],
        roles: ServerRoles | None = None,
    ) -> None:
        self.room, self._output, self._roles = room, output, roles
        self.lost: dict[int, Failure] = {}
        self._begun: dict[int, int] = {}  # process ids by ranks, of those that have not come to the room
        self._looked, self._over_at, self._is_ending = 0.0, 0.0, False
        self._said: list[str] = []
        self._asked_at: float | None = None
        self.asked: int | None = None
        self._over = threading.Event()
        self._failure: Failure | None = None
        self.status: int | None = None
        self.has_lost_one = False
        begun: Future[subprocess.Popen[bytes]] = Future()
        line = [sys.executable, "-SEc", _ENDING_WITH_US, str(os.getpid()), *command]
        threading.Thread(target=self._run, args=(line, variables, begun), name="workbench-job", daemon=True).start()
        self._process = begun.result()

    def wait(self, timeout: float | None = None) -> bool:
        """Return when all processes have ended and what they printed is shown; False if that takes longer.

        Args:
            timeout: seconds; None waits for as long as it takes.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while not self._over.wait(LOOK if end is None else min(LOOK, max(0.0, end - time.monotonic()))):
            if end is not None and time.monotonic() >= end:  # in between, signals are answered
                return False
        return True

    @property
    def failure(self) -> Failure | None:
        """Of the process that failed first; None if none has, or nobody knows which."""
        return self._failure

    def ask(self, number: int) -> None:
        """Pass a signal on to all processes; of one that should end them, they have `GRACE` seconds."""
        should_end = number not in (signal.SIGUSR1, signal.SIGUSR2)
        self._is_ending |= should_end
        if self._over.is_set():  # nobody is left, but what was asked for counts
            self.asked = self.asked or (number if should_end else None)
            return
        if should_end:
            self.room.tell_ending()
        pids = self.room.pids()
        for pid in pids.values():
            _kill(pid, number)
        if not should_end:
            return
        if self._asked_at is not None or len(pids) < self.room.processes:
            self._process.terminate()  # asked twice, or some are not here
        self._asked_at, self.asked = self._asked_at or time.monotonic(), self.asked or number

    def end(self) -> None:
        """End all processes now."""
        self._process.terminate()
        if not self.wait(GRACE):
            self._process.kill()
            self.wait(GRACE)

    def _run(self, line: Sequence[str], variables: Mapping[str, str], begun: Future[subprocess.Popen[bytes]]) -> None:
        """Start mpiexec in the thread that stays as long as the job: it is told when that ends."""
        try:
            process = subprocess.Popen(
                line,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment(variables),
                start_new_session=True,  # Ctrl-C on a terminal reaches the processes through us alone
            )
        except BaseException as error:
            begun.set_exception(error)
            return
        begun.set_result(process)
        self._watch(process)

    def _watch(self, process: subprocess.Popen[bytes]) -> None:
        try:
            self._read_until_over(process)
            gone = self.room.lost()
            self._end_those_left()
            self.status = self._exit_status(process)
            self._failure = self._first_failure(self.status)
            self.has_lost_one = self.status > 0 and bool(gone) and self._failed_of_losses()
        finally:
            self._output.close()
            self.room.close()
            self._over.set()

    def _read_until_over(self, process: subprocess.Popen[bytes]) -> None:
        """Show what is printed until mpiexec has ended, and end it where it does not when asked."""
        with selectors.DefaultSelector() as selector, contextlib.ExitStack() as files:
            for rank in range(self.room.processes):
                for stream in ("out", "err"):
                    file = self.room.open_output(rank, stream)
                    files.callback(os.close, file)
                    selector.register(file, selectors.EVENT_READ, (rank, stream))
            for stream, pipe in (("out", process.stdout), ("err", process.stderr)):
                assert pipe is not None
                os.set_blocking(pipe.fileno(), False)
                files.callback(pipe.close)
                selector.register(pipe.fileno(), selectors.EVENT_READ, (None, stream))
            while process.poll() is None:
                self._show_ready(selector, 0.05)
                self._insist(process)
                self._look_for_lost(process)
            self._looked = 0.0
            self._look_for_lost(process)
            quiet_at = time.monotonic() + LAST_WORDS
            while self._show_ready(selector, 0) or (self.room.processes > len(self.room.pids()) and _before(quiet_at)):
                pass

    def _show_ready(self, selector: selectors.BaseSelector, timeout: float) -> bool:
        """Read what is there; False if nothing was."""
        has_shown = False
        for key, _ in selector.select(timeout):
            rank, stream = key.data
            try:
                data = os.read(key.fd, CHUNK)
            except BlockingIOError:
                continue
            if not data:
                selector.unregister(key.fd)
                continue
            has_shown = True
            if rank is None:
                self._said.append(data.decode(errors="replace"))
                self._output.take_tagged(stream, data)
            else:
                self._output.take(rank, stream, data)
        return has_shown

    def _insist(self, process: subprocess.Popen[bytes]) -> None:
        """End processes that were asked to long ago."""
        if self._asked_at is None:
            return
        waited = time.monotonic() - self._asked_at
        if waited > 2 * GRACE:
            process.kill()
        elif waited > GRACE:
            process.terminate()

    def _look_for_lost(self, process: subprocess.Popen[bytes]) -> None:
        """Tell of trainers that were killed; without one of its servers a job ends, and before all have met."""
        if self._roles is None or self._is_ending:
            return
        absent = self._lost_on_the_way(process)
        if not absent and time.monotonic() < self._looked + LOOK_FOR_LOST:
            return
        self._looked = time.monotonic()
        if self.room.failures():
            return  # mpiexec ends them all
        ready = self.room.ready()
        for rank in sorted(absent.union(self.room.lost()).difference(self.lost)):
            name = self._roles.name(rank)
            how = "was killed" if rank in ready else "ended before its script began"
            self.lost[rank] = Failure(rank, f"{name} {how}", self._output.last_errors(rank), time.time())
            is_needed = rank >= self._roles.trainers or rank not in ready  # all wait for one that does not begin
            what = "the job ends" if is_needed else "the others go on, unless they wait for it at every step"
            self._output.show("err", f"process {rank}, {name}, {how}: {what}\n")
            if is_needed:
                self._is_ending = True
                process.terminate()
                return
        over = self.room.ended().union(self.lost)
        if self.lost and over >= set(range(self._roles.trainers)):
            self._over_at = self._over_at or time.monotonic()
            # MPI may wait for the lost ones to take leave; servers know only of trainers that came to them
            patience = GRACE if len(over) == self.room.processes else LAST_WORK
            if time.monotonic() > self._over_at + patience:
                self._is_ending = True
                process.terminate()

    def _lost_on_the_way(self, process: subprocess.Popen[bytes]) -> set[int]:
        """Ranks that have ended before they came to the room."""
        if len(self.room.pids()) == self.room.processes:
            return set()
        self._begun.update(begun_by(process.pid))
        ended = {rank for rank, pid in self._begun.items() if state_of(pid) == "gone"}
        return ended.difference(self.room.pids())  # it may have come and gone in between

    def _end_those_left(self) -> None:
        """mpiexec ends what it has started, unless it was killed itself."""
        for pid in self.room.pids().values():
            _kill(pid, signal.SIGKILL)

    def _failed_of_losses(self) -> bool:
        return all(failure.is_of_a_loss for failure in self.room.failures())

    def _exit_status(self, process: subprocess.Popen[bytes]) -> int:
        """That of mpiexec; of a process that a signal has ended as shells say it, which MPICH's does not."""
        status, killed = process.wait(), _SIGNAL.search("".join(self._said))
        return 128 + status if killed and status == int(killed.group(1)) else status

    def _first_failure(self, status: int) -> Failure | None:
        told = sorted([*self.room.failures(), *self.lost.values()], key=attrgetter("when"))
        if not status and not told:
            return None
        if told:
            return told[0]
        said = "".join(self._said)
        rank = self._named_rank(said)
        if rank is None:
            return None
        killed = _SIGNAL.search(said)
        how = _how(-int(killed.group(1)) if killed else status)
        return Failure(rank, how, self._output.last_errors(rank), 0.0)

    def _named_rank(self, said: str) -> int | None:
        by_rank, by_pid = _RANK.search(said), _PID.search(said)
        if by_rank:
            return int(by_rank.group(1))
        ranks = {pid: rank for rank, pid in self.room.pids().items()}
        return ranks.get(int(by_pid.group(1))) if by_pid else None


def _how(status: int) -> str:
    number = -status if status < 0 else status - 128
    try:
        return f"ended by signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"ended with exit status {status}"


def _kill(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _before(moment: float) -> bool:
    time.sleep(0.01)
    return time.monotonic() < moment
