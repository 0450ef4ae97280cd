"""A communicator of which every member is a thread: it shows that the interface has room for asynchronous ones.

Members take up the runs in the order they were started in. The last one to arrive at a run does its work; a member can
be kept from arriving, or be made to fail, by a test.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np

from workbench.errors import Aborted, ExecutionTimeout, PreconditionNotMet, Unavailable
from workbench.framework.values.rows import Rows
from workbench.runtime.comm.base import Communicator, Handle, PreparedCollective
from workbench.runtime.comm.overlap import require_apart
from workbench.runtime.comm.request import ALL_GATHER, BROADCAST, Request

Work = Callable[[], Any]


class ThreadedCommunicator(Communicator):
    """A group of threads; `close` ends them.

    Attributes:
        changed: held while the state of any run is read or changed, notified when it has.
        active: runs that are started and neither finished nor given up.
        gates: events that members wait for before they take part in anything, by rank.
        failures: what members fail with in their next run, by rank.
    """

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.changed = threading.Condition()
        self.active: list[Run] = []
        self.gates: dict[int, threading.Event] = {}
        self.failures: dict[int, Exception] = {}
        self._inbox: list[queue.Queue[Run | None]] = [queue.Queue() for _ in range(size)]
        self._busy = [0] * size
        self._threads = [threading.Thread(target=self._serve, args=(r,), daemon=True) for r in range(size)]
        for thread in self._threads:
            thread.start()

    def prepare(self, request: Request) -> PreparedCollective:
        require_apart(request, self.local)
        return ThreadedCollective(self, request)

    def launch(self, title: str, work: Work) -> Run:
        """Have all members meet in a run."""
        with self.changed:
            self.require_alive(title)
            run = Run(self, title, work)
            self.active.append(run)
            for rank in range(self.size):
                self._busy[rank] += 1
                self._inbox[rank].put(run)
        return run

    def close(self) -> None:
        """Let everybody go, and end the threads."""
        for gate in self.gates.values():
            gate.set()
        for inbox in self._inbox:
            inbox.put(None)
        for thread in self._threads:
            thread.join(10.0)
            assert not thread.is_alive()

    def _serve(self, rank: int) -> None:
        while (run := self._inbox[rank].get()) is not None:
            gate = self.gates.get(rank)
            if gate is not None:
                gate.wait()
            with self.changed:
                self._take_part(rank, run)
                self._busy[rank] -= 1
                self.changed.notify_all()

    def _take_part(self, rank: int, run: Run) -> None:
        if run not in self.active:
            return  # given up meanwhile
        error = self.failures.pop(rank, None)
        if error is not None:
            self.abort(f"{self.member(rank)} failed in {run.title}: {error}", error)
            return
        run.arrived.add(rank)
        if len(run.arrived) == self.size:
            run.result = run.work()
            run.finished = True
            self.active.remove(run)

    def _wake(self) -> None:
        with self.changed:
            for run in self.active:
                run.given_up = self._reason, self._cause
            self.active.clear()
            self.changed.notify_all()

    def _drain(self, timeout: float) -> None:
        with self.changed:
            if not self.changed.wait_for(lambda: not any(self._busy), timeout):
                late = ", ".join(self.member(rank) for rank in range(self.size) if self._busy[rank])
                raise Unavailable(f"the group cannot be reset: after {timeout} s still busy: {late}")

    def _join_rows(self, parts: Sequence[Rows], title: str, timeout: float | None) -> Rows:
        run = self.launch(title, lambda: super(ThreadedCommunicator, self)._join_rows(parts, title, timeout))
        run.wait(timeout)
        return run.result


class Run(Handle):
    """What the members meet in."""

    def __init__(self, comm: ThreadedCommunicator, title: str, work: Work) -> None:
        self.comm, self.title, self.work = comm, title, work
        self.arrived: set[int] = set()
        self.finished = False
        self.given_up: tuple[Any, Any] | None = None
        self.result: Any = None

    @property
    def done(self) -> bool:
        return self.finished and self.comm.aborted is None

    def wait(self, timeout: float | None = None) -> None:
        with self.comm.changed:
            self.comm.changed.wait_for(lambda: self.finished or self.given_up, timeout)
            if self.given_up:
                raise Aborted(f"{self.title} was given up: {self.given_up[0]}") from self.given_up[1]
            self.comm.require_alive(self.title)
            if not self.finished:
                missing = ", ".join(self.comm.member(r) for r in range(self.comm.size) if r not in self.arrived)
                raise ExecutionTimeout(f"{self.title}: not done within {timeout} s, waiting for {missing}")


class ThreadedCollective(PreparedCollective):
    comm: ThreadedCommunicator

    def __init__(self, comm: Communicator, request: Request) -> None:
        super().__init__(comm, request)
        self._last: Run | None = None

    def start(self) -> Handle:
        self.comm.require_alive(self.request.title)
        with self.comm.changed:
            if self._last in self.comm.active:
                raise PreconditionNotMet(f"{self.request.title} is under way; wait for it before it is started again")
            self._last = self.comm.launch(self.request.title, self._work)
        return self._last

    def _work(self) -> None:
        request = self.request
        if request.kind == BROADCAST:
            result = np.array(request.parts[0])
        elif request.kind == ALL_GATHER:
            result = np.stack(request.parts)
        else:
            result = np.array(reduce(np.add, [request.parts[rank] for rank in request.order]))
        for out in request.outs:
            out[...] = result
