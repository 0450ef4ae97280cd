"""The asynchronous test double keeps the contract: the interface has room for runs that go on by themselves."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.runtime.comm.contract import AsynchronousContract, CommunicatorContract
from tests.runtime.comm.threaded import ThreadedCommunicator
from workbench.runtime.comm import Communicator


class TestThreaded(CommunicatorContract, AsynchronousContract):
    @contextmanager
    def group(self, size: int) -> Iterator[Communicator]:
        comm = ThreadedCommunicator(size)
        try:
            yield comm
        finally:
            comm.close()

    def stall(self, comm: Communicator, rank: int) -> Callable[[], None]:
        assert isinstance(comm, ThreadedCommunicator)
        gate = comm.gates[rank] = threading.Event()
        return gate.set

    def fail(self, comm: Communicator, rank: int, error: Exception) -> None:
        assert isinstance(comm, ThreadedCommunicator)
        comm.failures[rank] = error
