"""Streams and events: work is done some time after it was given, in any order that streams and events allow.

`Timeline` holds the work of all devices that is given and not done. When it is done is drawn from a seed:

- "eager": at once, as if the device were endlessly fast;
- "random": some of what may run now runs after every call, picked among all streams;
- "late": nothing runs before somebody waits, and then only what that wait needs.

Whoever waits for work that cannot run, because another rank has not come to a collective or never will, waits for other
threads of this process until a deadline, and then tells what stands where.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from workbench.cuda.driver import CudaError
from workbench.cuda.simulated.accesses import AccessLog, ByteSpan
from workbench.errors import ExecutionTimeout, InvalidArgument

SCHEDULES = ("eager", "random", "late")
NOT_CALLERS = (str(Path(__file__).parent.parent), str(Path(np.__file__).parent))


class WorkFailed(CudaError):
    """StreamWork that was given earlier failed when it ran; what it met is the cause."""


def call_site() -> str:
    """File and line of the nearest caller outside of the devices."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(NOT_CALLERS):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


@dataclass(frozen=True)
class StreamTask:
    """What a stream is given.

    Attributes:
        run: does it, and reports every span that it touches to the log.
        spans: what is known beforehand of that, in device memory (`pinned`: in pinned memory).
        addresses: more of the device's memory that it may touch: what a kernel got as arguments.
        given: called when it is given, also at every replay.
        ready: whether it may run, as far as others than streams decide.
        obstacle: what it waits for if it is not.
    """

    label: str
    site: str
    device: int
    run: Callable[[StreamWork], None]
    spans: tuple[ByteSpan, ...] = ()
    pinned: tuple[ByteSpan, ...] = ()
    addresses: tuple[int, ...] = ()
    given: Callable[[StreamWork], None] | None = None
    ready: Callable[[StreamWork], bool] | None = None
    obstacle: Callable[[StreamWork], str] | None = None


class StreamWork:
    """A task that was given, with what is ordered before it."""

    def __init__(self, task: StreamTask, number: int, needs: Sequence[StreamWork], timeline: Timeline) -> None:
        self.task = task
        self.number = number
        self.needs = tuple(one for one in needs if not one.done)
        self.done: bool = False
        self.thread = threading.get_ident()
        self.kept: Any = None
        self._timeline = timeline
        self._origin = timeline.origin
        self._before = timeline.known_to_host
        for one in needs:
            self._before |= one.before() | timeline.bit(one.number)

    def before(self) -> int:
        """The bit set of what is ordered before it, from the timeline's origin on."""
        return self._before >> (self._timeline.origin - self._origin)

    def is_after(self, number: int) -> bool:
        return number < self._timeline.origin or bool(self.before() >> (number - self._timeline.origin) & 1)

    def may_run(self) -> bool:
        """Whether nothing keeps it."""
        return self.is_due() and (self.task.ready is None or self.task.ready(self))

    def is_due(self) -> bool:
        """Whether all that streams and events put before it is done."""
        return all(one.done for one in self.needs)

    def describe(self) -> str:
        return f"{self.task.label} (device {self.task.device}, given at {self.task.site})"


class HostAccess:
    """The host at a moment: ordered after all it has waited for, and before all that it gives later."""

    def __init__(self, label: str, number: int, timeline: Timeline) -> None:
        self.number = number
        self.site = call_site()
        self._label = label
        self._known = timeline.known_to_host
        self._origin = timeline.origin

    def is_after(self, number: int) -> bool:
        return number < self._origin or bool(self._known >> (number - self._origin) & 1)

    def describe(self) -> str:
        return f"{self._label} (host, at {self.site})"


@dataclass(eq=False)
class SimulatedStream:
    """Where its last work stands; during a capture: where the last node stands, and what comes back afterwards."""

    number: int
    device: int
    site: str
    frontier: list[Any] = field(default_factory=list)
    capture: Any = None
    outside: list[StreamWork] = field(default_factory=list)


@dataclass(eq=False)
class SimulatedEvent:
    """What it stands for: work, or nodes of a capture."""

    number: int
    device: int
    timing: bool
    frontier: list[Any] = field(default_factory=list)
    capture: Any = None
    recorded: bool = False


@dataclass
class Waits:
    """How long somebody waits for other threads."""

    deadline_seconds: float = 10.0
    poll_seconds: float = 0.05


class Timeline:
    """The work of all devices of a simulated machine, and what the host knows to be done.

    Attributes:
        lock: held in every call; threads that wait let go of it.
        memory, pinned: what has touched which bytes.
        synchronizations: how often the host waited.
    """

    LONGEST = 8192  # numbers between the origin and the newest work, before the origin moves

    def __init__(self, seed: int, schedule: str, waits: Waits) -> None:
        if schedule not in SCHEDULES:
            raise InvalidArgument(f"a schedule is one of {', '.join(SCHEDULES)}, got {schedule!r}")
        self.lock = threading.Condition(threading.RLock())
        self.memory, self.pinned = AccessLog(), AccessLog()
        self.schedule, self.waits = schedule, waits
        self.origin = 0
        self.known_to_host = 0
        self.synchronizations = 0
        self.failures: dict[int, CudaError] = {}
        self.untold: dict[tuple[int, int], CudaError] = {}
        self.broken: Callable[[StreamWork], BaseException | None] = lambda work: None
        self._next = 0
        self._random = random.Random(seed)
        self._pending: dict[StreamWork, None] = {}

    def bit(self, number: int) -> int:
        """The bit of a piece of work; nothing if it is so long done that nobody counts it."""
        return 1 << (number - self.origin) if number >= self.origin else 0

    def give(self, stream: SimulatedStream, task: StreamTask) -> Any:
        """Put a task at the end of a stream; into the graph, where the stream is captured."""
        if stream.capture is not None:
            node = stream.capture.record(task, stream.frontier)
            stream.frontier = [node]
            return node
        work = self.start(task, stream.frontier)
        stream.frontier = [work]
        self.advance()
        return work

    def start(self, task: StreamTask, needs: Sequence[StreamWork]) -> StreamWork:
        """Make work of a task."""
        work = StreamWork(task, self._number(), needs, self)
        self._pending[work] = None
        if task.given is not None:
            task.given(work)
        self.lock.notify_all()
        return work

    def _number(self) -> int:
        number = self._next
        self._next += 1
        if number - self.origin > self.LONGEST:
            self._move_origin()
        return number

    def _move_origin(self) -> None:
        """Forget numbers that are so far back that the half of them is enough to find what is missing."""
        distance = self.LONGEST // 2
        self.origin += distance
        self.known_to_host >>= distance

    def advance(self) -> None:
        """Do some of what may be done, as the schedule has it."""
        if self.schedule == "late" or (self.schedule == "random" and self._random.random() < 0.5):
            return
        times = len(self._pending) if self.schedule == "eager" else self._random.randint(1, 3)
        for _ in range(times):
            able = [work for work in self._pending if work.may_run()]
            if not able:
                return
            self.do(able[0] if self.schedule == "eager" else self._random.choice(able))

    def do(self, work: StreamWork) -> None:
        """Run a piece of work; a device on which one fails is lost, and what it still has to do is dropped.

        Raises:
            CudaError: it failed, and this thread gave it; another thread is told in its next call.
        """
        self.finish(work)
        if work.task.device in self.failures:
            return
        try:
            error = self.broken(work)
            if error is not None:
                raise error
            work.task.run(work)
        except CudaError as error:
            self.fail(work, error)
        except Exception as error:
            failure = WorkFailed(f"{work.describe()} failed: {error}", "cudaErrorLaunchFailure")
            failure.__cause__ = error
            self.fail(work, failure)

    def fail(self, work: StreamWork, error: CudaError) -> None:
        """A device is lost with a piece of its work."""
        self.failures[work.task.device] = error
        if work.thread == threading.get_ident():
            raise error
        self.untold[work.thread, work.task.device] = error

    def finish(self, work: StreamWork) -> None:
        """StreamWork is done; others may wait for it."""
        work.done = True
        work.needs = ()
        self._pending.pop(work, None)
        self.lock.notify_all()

    def pending(self) -> Iterable[StreamWork]:
        """What is given and not done, oldest first."""
        return self._pending

    def wait_for(self, targets: Iterable[StreamWork]) -> None:
        """Let the host wait for work, and do it.

        Raises:
            ExecutionTimeout: it cannot run, and no other thread has changed that before the deadline.
        """
        targets = list(targets)
        self.synchronizations += 1
        end = time.monotonic() + self.waits.deadline_seconds
        while not all(work.done for work in targets):
            if self._do_all_that_may(targets):
                end = time.monotonic() + self.waits.deadline_seconds
            elif not self._wait_for_others(end):
                raise ExecutionTimeout(self._standstill(targets))
        self.learn(targets)

    def _do_all_that_may(self, targets: list[StreamWork]) -> bool:
        """Do what a wait needs and what may run, in an order that is drawn; whether there was anything."""
        wanted = self._candidates(targets)
        able = [work for work in wanted if work.may_run()]
        followers: dict[StreamWork, list[StreamWork]] = {}
        for work in wanted:
            for need in work.needs:
                followers.setdefault(need, []).append(work)
        done = bool(able)
        while able and not all(work.done for work in targets):
            at = self._random.randrange(len(able))
            able[at], able[-1] = able[-1], able[at]
            work = able.pop()
            if not work.done and work.may_run():
                self.do(work)
                able += [one for one in followers.get(work, ()) if one.may_run()]
        return done

    def learn(self, works: Iterable[StreamWork]) -> None:
        """The host has seen that work is done, so all that was before it is."""
        for work in works:
            self.known_to_host |= work.before() | self.bit(work.number)
        if not self._pending and self.known_to_host == (1 << (self._next - self.origin)) - 1:
            self.origin, self.known_to_host = self._next, 0
            self.memory.forget()
            self.pinned.forget()

    def _candidates(self, targets: list[StreamWork]) -> list[StreamWork]:
        """What may run while somebody waits: anything, or only what the wait needs and the ranks of its collectives."""
        if self.schedule != "late":
            return list(self._pending)
        wanted: dict[StreamWork, None] = {}
        meeting = False
        stack = [work for work in targets if not work.done]
        while stack:
            work = stack.pop()
            if work not in wanted:
                wanted[work] = None
                stack += [one for one in work.needs if not one.done]
                if work.task.ready is not None and not meeting:
                    meeting = True
                    stack += [one for one in self._pending if one.task.ready is not None]
        return sorted(wanted, key=lambda work: work.number)

    def _wait_for_others(self, end: float) -> bool:
        remaining = end - time.monotonic()
        if remaining > 0:
            self.lock.wait(min(remaining, self.waits.poll_seconds))
        return remaining > 0

    def _standstill(self, targets: list[StreamWork]) -> str:
        kept = [work for work in self._candidates(targets) if work.is_due() and not work.done]
        told = [work.task.obstacle(work) for work in kept if work.task.obstacle is not None]
        reasons = "; ".join(dict.fromkeys(told)) or "nothing that could run is left"
        return f"{call_site()} waited {self.waits.deadline_seconds:g} s for {targets[0].describe()}: {reasons}"

    def on_host(self, label: str, memory: AccessLog, spans: Sequence[ByteSpan]) -> HostAccess:
        """The host touches memory by itself.

        Raises:
            UnorderedAccess: work that it has not waited for touches the same bytes.
        """
        access = HostAccess(label, self._number(), self)
        for work in self._pending:
            declared = work.task.spans if memory is self.memory else work.task.pinned
            self._meet(access, work, memory, spans, declared)
        memory.record(access, spans)
        self.known_to_host |= self.bit(access.number)
        return access

    @staticmethod
    def _meet(
        access: HostAccess, work: StreamWork, memory: AccessLog, spans: Sequence[ByteSpan], declared: Sequence[ByteSpan]
    ) -> None:
        for mine in spans:
            for theirs in declared:
                overlap = mine.address < theirs.address + theirs.nbytes and theirs.address < mine.address + mine.nbytes
                if overlap and (mine.write or theirs.write):
                    memory.raise_unordered(access, mine, work, theirs)
