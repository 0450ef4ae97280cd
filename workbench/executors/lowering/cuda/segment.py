"""Work of devices between two moments at which the host takes part: given piece by piece, then captured and replayed.

The first run gives every piece of work by itself, so that an error belongs to a row. From the second run on, what a
device has to do is a CUDA graph: one launch, whatever it consists of. A capture that is refused leaves things as they
were, and says why.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from workbench.cuda.devices.gpu import GPU
from workbench.cuda.driver import CudaError, Event, ExecutableGraph
from workbench.executors.failures import Explained
from workbench.executors.lowering.operands import Call, DeviceWork
from workbench.executors.planning.plan import Row
from workbench.graph.ssa import Graph, Node


class DeviceRow(DeviceWork):
    """What runs a row of a plan on its device.

    Args:
        calls: launches, in order.
    """

    def __init__(self, gpu: GPU, calls: Sequence[Any]) -> None:
        self.gpus, self.calls = (gpu,), list(calls)

    def __call__(self) -> None:
        self.gpus[0].use()
        self.part(self.gpus[0])

    def part(self, gpu: GPU) -> None:
        """What one of its devices, the current one, does."""
        for call in self.calls:
            call()


class StreamWait(DeviceWork):
    """Lets the kernels of a device wait for a collective."""

    def __init__(self, gpu: GPU, wait: Call) -> None:
        self.gpus, self._wait = (gpu,), wait

    def __call__(self) -> None:
        self.gpus[0].use()
        self._wait()

    def part(self, gpu: GPU) -> None:
        """The same in a capture."""
        self._wait()


class Order:
    """Lets one stream of a device wait for another one.

    Args:
        is_before: whether kernels come before the exchange; else behind it.
    """

    def __init__(self, gpu: GPU, is_before: bool) -> None:
        gpu.use()
        self._driver, self._event = gpu.driver, gpu.driver.create_event()
        self._first, self._then = (gpu.stream, gpu.exchange) if is_before else (gpu.exchange, gpu.stream)

    def record(self) -> None:
        """What is to be waited for has been given."""
        self._driver.record_event(self._event, self._first)

    def wait(self) -> None:
        """What is given from now on waits."""
        self._driver.wait_event(self._then, self._event)

    @property
    def event(self) -> Event:
        """What stands for it."""
        return self._event


class DeviceCollective(DeviceWork):
    """A collective between the devices of this process, on their exchange streams.

    Args:
        gpus: its devices, in the order of their ranks. shares: what each of them calls, once for every array.
    """

    def __init__(self, gpus: Sequence[GPU], shares: Sequence[Sequence[Any]]) -> None:
        self.gpus, self._shares = tuple(gpus), [list(share) for share in shares]
        self._driver = gpus[0].driver
        self._made = [Order(gpu, is_before=True) for gpu in gpus]
        self._done = [Order(gpu, is_before=False) for gpu in gpus]

    def __call__(self) -> None:
        for number, gpu in enumerate(self.gpus):
            gpu.use()
            self._enter(number)
        self._driver.group_start()
        try:
            for number, gpu in enumerate(self.gpus):
                gpu.use()
                self._call(number)
        finally:
            self._driver.group_end()
        for number, gpu in enumerate(self.gpus):
            gpu.use()
            self._done[number].record()

    def part(self, gpu: GPU) -> None:
        """What one of its devices, the current one, does while its work is captured."""
        number = self.gpus.index(gpu)
        self._enter(number)
        self._driver.group_start()
        try:
            self._call(number)
        finally:
            self._driver.group_end()
        self._done[number].record()

    def _enter(self, number: int) -> None:
        self._made[number].record()
        self._made[number].wait()

    def _call(self, number: int) -> None:
        for call in self._shares[number]:
            call()

    def wait_on(self, gpu: GPU) -> Any:
        """What lets the kernels of a device wait for its results."""
        return self._done[self.gpus.index(gpu)].wait


class DeviceSegment(DeviceWork):
    """Rows in order, and what is launched for them.

    Attributes:
        rows: with the work of each. refusal: why there are no graphs; empty while there may be.
    """

    def __init__(self, graph: Graph, specs: Any) -> None:
        self._graph, self._specs = graph, specs
        self.rows: list[tuple[Row, DeviceWork]] = []
        self.refusal = ""
        self._runs = 0
        self._graphs: list[tuple[GPU, ExecutableGraph]] = []
        weakref.finalize(self, _leave, self._graphs).atexit = False

    def add(self, row: Row, work: DeviceWork) -> None:
        """A row behind those there are."""
        self.rows.append((row, work))

    @property
    def is_captured(self) -> bool:
        """Whether it is replayed."""
        return bool(self._graphs)

    @property
    def nodes(self) -> list[Node]:
        """Of its rows."""
        return [row.node for row, _ in self.rows]

    def __call__(self) -> None:
        if self._graphs:
            for gpu, graph in self._graphs:
                gpu.use()
                gpu.driver.launch_graph(graph, gpu.stream)
            return
        self._runs += 1
        if self._runs > 1 and not self.refusal and self._is_captured():
            self()
            return
        for row, work in self.rows:
            with Explained(row.node, self._graph, self._specs):
                work()

    def _is_captured(self) -> bool:
        gpus = list(dict.fromkeys(gpu for _, work in self.rows for gpu in work.gpus))
        graphs = []
        for gpu in gpus:
            try:
                graphs.append((gpu, self._captured(gpu)))
            except CudaError as error:
                self.refusal = str(error)
                for other, graph in graphs:
                    other.use()
                    other.driver.destroy_executable(graph)
                return False
        self._graphs.extend(graphs)
        return True

    def _captured(self, gpu: GPU) -> ExecutableGraph:
        gpu.use()
        driver = gpu.driver
        driver.begin_capture(gpu.stream)
        try:
            for _, work in self.rows:
                if gpu in work.gpus:
                    work.part(gpu)
        finally:
            recorded = driver.end_capture(gpu.stream)
        executable = driver.instantiate(recorded)
        driver.destroy_graph(recorded)
        return executable

    def release(self) -> None:
        """Give the graphs back; they are captured anew if it is run again."""
        _leave(self._graphs)
        self._runs = min(self._runs, 1)


def _leave(graphs: list[tuple[GPU, ExecutableGraph]]) -> None:
    """Have the devices give graphs back, when they next look, for this may be any thread at any moment."""
    while graphs:
        gpu, graph = graphs.pop()
        gpu.mirrors.leave_graph(graph)
