"""A phase of a step of GPUs while it is put together: which call does what, in which order.

Work that only devices take part in is collected in segments, which may become graphs; where the host takes part a
segment ends. Collectives run beside the rows behind them, up to the first that touches their memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from workbench.cuda.devices.gpu import GPU
from workbench.executors.lowering.cuda.segment import DeviceSegment, StreamWait
from workbench.executors.lowering.cuda.statuses import Moved, Statuses
from workbench.executors.lowering.cuda.validity import Span
from workbench.executors.lowering.operands import Call, DeviceWork
from workbench.executors.lowering.thread_program import PythonRow, ThreadProgram
from workbench.executors.planning.plan import Plan, Row
from workbench.framework.op.record import Cost


class InSegment(DeviceWork):
    """Stands for a row that an earlier call has given to its device."""

    def __call__(self) -> None:
        pass


IN_SEGMENT = InSegment()


class PhaseProgram:
    """The program of a phase while it is put together.

    Args:
        apart: every row is a call of its own.
    """

    def __init__(self, plan: Plan, apart: bool) -> None:
        self.apart, self._plan = apart, plan
        self._units: list[PythonRow] = []
        self._segment: DeviceSegment | None = None
        self._segments: list[DeviceSegment] = []
        self._first: list[Call] = []
        self._ahead: list[Call] = []  # of the next row
        self._last: list[Call] = []
        self._fetched: dict[GPU, list[tuple[int, int, int]]] = {}
        self._exchanges: list[tuple[GPU, list[Span], Call]] = []

    def before(self, call: Call) -> None:
        """Called before all rows, in the order in which it is given."""
        self._first.append(call)

    def add(self, row: Row, work: DeviceWork) -> None:
        """Work for devices."""
        if self.apart or self._ahead:
            self._segment = None
        if self.apart:
            self._unit(row, [work])
            return
        if self._segment is None:
            self._segment = DeviceSegment(self._plan.graph, self._plan.shapes.specs)
            self._segments.append(self._segment)
            self._unit(row, [self._segment])
        elif self._units[-1].row is not row:
            self._unit(row, [IN_SEGMENT])
        self._segment.add(row, work)

    def on_host(self, row: Row, calls: Sequence[Call]) -> None:
        """Work for the host."""
        self._segment = None
        self._unit(row, calls)

    def _unit(self, row: Row, calls: Sequence[Call]) -> None:
        self._units.append(PythonRow(row, [], [*self._ahead, *calls], []))
        self._ahead = []

    def copy(self, row: Row, call: Call) -> None:
        """A call that the host takes part in: before the work of a row, or behind it if that is there."""
        self._segment = None
        if self._units and self._units[-1].row is row:
            self._units[-1].calls.append(call)
        else:
            self._ahead.append(call)

    # Exchanges, beside which other rows go on

    def exchanged(self, gpu: GPU, spans: list[Span], wait: Call) -> None:
        """A collective was given that reads and writes these bytes of a device."""
        self._exchanges.append((gpu, spans, wait))

    def wait_for_exchanges(self, row: Row, gpu: GPU, spans: Sequence[Span]) -> None:
        """Let a device wait for the collectives that touch some bytes."""
        for exchange in [one for one in self._exchanges if one[0] is gpu and _overlap(one[1], spans)]:
            self._exchanges.remove(exchange)
            wait = StreamWait(gpu, exchange[2])
            self.copy(row, wait) if self.apart else self.add(row, wait)

    def wait_for_all_exchanges(self) -> None:
        """Let the devices wait for all that are left."""
        for gpu, _, wait in self._exchanges:
            row, last = self._units[-1].row, StreamWait(gpu, wait)
            self.copy(row, last) if self.apart else self.add(row, last)
        self._exchanges = []

    # The end

    def fetch(self, gpu: GPU, moved: tuple[int, int, int]) -> None:
        """Bytes of a device that the host looks at afterwards."""
        self._fetched.setdefault(gpu, []).append(moved)

    def behind(self, call: Call) -> None:
        """Called when all rows have run."""
        self._last.append(call)

    def _put_first(self, calls: list[Call]) -> None:
        """What comes before all rows, in front of the first one; where there is none, of `calls`."""
        target = self._units[0].calls if self._units else calls
        target[:0] = self._first

    def finish(self, statuses: Sequence[Statuses]) -> tuple[ThreadProgram, list[DeviceSegment]]:
        """The program, and its segments.

        Args:
            statuses: looked at before anything else of a device is written to the host.
        """
        calls = self._ahead
        self._put_first(calls)
        for own in statuses:
            moved = [*own.moved(), *self._fetched.pop(own.gpu, [])]
            if moved:
                calls.append(partial(download, own.gpu, moved, own.require_good if own.moved() else None))
        calls += [*(partial(download, gpu, moved) for gpu, moved in self._fetched.items()), *self._last]
        if calls and not self._units:
            self._units.append(PythonRow(Row(self._plan.graph.nodes[0], [], [], 0, Cost(0, 0)), [], [], []))
        if calls:
            self._units[-1].calls.extend(calls)
        program = ThreadProgram()
        for unit in self._units:
            program.add(unit)
        return program, self._segments


def _overlap(some: Sequence[Span], others: Sequence[Span]) -> bool:
    return any(a < d and c < b for a, b in some for c, d in others)


def upload(gpu: GPU, moved: Sequence[Moved]) -> None:
    """Copy bytes of the host to a device."""
    with gpu.lock:
        gpu.use()
        for host, device, nbytes in moved:
            gpu.staging.upload(device, host, nbytes, gpu.stream)


def download(gpu: GPU, moved: Sequence[Moved], look: Callable[[], None] | None = None) -> None:
    """Copy bytes of a device to the host.

    Args:
        look: called when the first bytes are there, before others are written.
    """
    with gpu.lock:
        gpu.use()
        gpu.staging.download(moved, gpu.stream, look)
