"""Work of devices between two moments at which the host takes part: given piece by piece, then captured and replayed.

The first run gives every piece of work by itself, so that an error belongs to a row. From the second run on, what a
device has to do is a CUDA graph: one launch, whatever it consists of. A capture that is refused leaves things as they
were, and says why.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import cached_property
from typing import Any

from workbench.cuda.devices.gpu import GPU
from workbench.cuda.driver import CudaError, ExecutableGraph
from workbench.executors.failures import Explained
from workbench.executors.lowering.operands import Call, DeviceWork
from workbench.executors.planning.plan import Row
from workbench.framework.notice import say
from workbench.graph.ssa import Graph


class DeviceRow(DeviceWork):
    """What runs a row of a plan on its device.

    Args:
        calls: launches, in order.
    """

    def __init__(self, gpu: GPU, calls: Sequence[Any]) -> None:
        self.gpus, self.calls = (gpu,), list(calls)

    def __call__(self) -> None:
        with self.gpus[0].lock:
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
        with self.gpus[0].lock:
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


class DeviceCollective(DeviceWork):
    """A collective between the devices of this process, on their exchange streams.

    Args:
        gpus: its devices, in the order of their ranks. shares: what each of them calls, once for every array.
    """

    def __init__(self, gpus: Sequence[GPU], shares: Sequence[Sequence[Any]]) -> None:
        self.gpus, self._shares = tuple(gpus), [list(share) for share in shares]
        self._driver = gpus[0].driver
        self._ready = [Order(gpu, is_before=True) for gpu in gpus]
        self._done = [Order(gpu, is_before=False) for gpu in gpus]

    def __call__(self) -> None:
        with self.gpus[0].lock:
            self._each(self._enter)
            self._driver.group_start()
            try:
                self._each(self._call)
            finally:
                self._driver.group_end()
            self._each(lambda number: self._done[number].record())

    def _each(self, call: Callable[[int], None]) -> None:
        for number, gpu in enumerate(self.gpus):
            gpu.use()
            call(number)

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
        self._ready[number].record()
        self._ready[number].wait()

    def _call(self, number: int) -> None:
        for call in self._shares[number]:
            call()

    def wait_on(self, gpu: GPU) -> Any:
        """What lets the kernels of a device wait for its results."""
        return self._done[self.gpus.index(gpu)].wait


class DeviceSegment(DeviceWork):
    """Rows in order, and what is launched for them.

    Attributes:
        rows: with the work of each.
    """

    def __init__(self, graph: Graph, specs: Any) -> None:
        self._graph, self._specs = graph, specs
        self.rows: list[tuple[Row, DeviceWork]] = []
        self._refusal = ""  # why there are no graphs
        self._runs = 0
        self._graphs: list[tuple[GPU, ExecutableGraph]] = []
        weakref.finalize(self, _leave, self._graphs).atexit = False

    def add(self, row: Row, work: DeviceWork) -> None:
        """A row behind those there are."""
        self.rows.append((row, work))

    def __call__(self) -> None:
        gpus = self._gpus
        with gpus[0].lock if gpus else nullcontext():
            self._runs += 1
            if not self._graphs and self._runs > 1 and not self._refusal:
                self._capture(gpus)
            if self._graphs:
                for gpu, graph in self._graphs:
                    gpu.use()
                    gpu.driver.launch_graph(graph, gpu.stream)
                return
            for row, work in self.rows:
                with Explained(row.node, self._graph, self._specs):
                    work()

    @cached_property
    def _gpus(self) -> list[GPU]:
        return list(dict.fromkeys(gpu for _, work in self.rows for gpu in work.gpus))

    def _capture(self, gpus: Sequence[GPU]) -> None:
        """Make the graphs of all devices, or none."""
        graphs: list[tuple[GPU, ExecutableGraph]] = []
        try:
            for gpu in gpus:
                graphs.append((gpu, self._captured(gpu)))
        except CudaError as error:
            self._refusal = str(error)
            _leave(graphs)
            say(f"workbench: a part of the step is given to GPUs op by op: it cannot be captured: {error}")
        else:
            self._graphs.extend(graphs)

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
