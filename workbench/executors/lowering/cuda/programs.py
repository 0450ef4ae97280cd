"""From the rows of a plan to what a step of GPUs does: launches, copies where the host takes part, collectives.

One thread gives work to all devices, in one order: so collectives come in the same order everywhere. Where a row has no
kernel it runs on the host, between a copy of what it reads and one of what others read of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import Any

import numpy as np

from workbench.cuda.devices.gpu import GPU, open_gpu
from workbench.cuda.devices.mirrors import Mirror
from workbench.executors.failures import Explained
from workbench.executors.lowering.cuda.collectives import collective_of
from workbench.executors.lowering.cuda.phase import IN_SEGMENT, PhaseProgram, download, upload
from workbench.executors.lowering.cuda.segment import DeviceCollective, DeviceRow, DeviceSegment
from workbench.executors.lowering.cuda.statuses import Moved, Statuses
from workbench.executors.lowering.cuda.validity import DEVICE, HOST, Span, Validity, fills_its_span, span_of
from workbench.executors.lowering.cuda.writer import DeviceScratch, LaunchWriter
from workbench.executors.lowering.numpy.lower import lower
from workbench.executors.lowering.operands import Call
from workbench.executors.lowering.programs import RowLowering
from workbench.executors.lowering.scope_values import Held
from workbench.executors.lowering.thread_program import ThreadProgram
from workbench.executors.planning.plan import Row
from workbench.framework.notice import say
from workbench.graph.ssa import Node, Value


class CudaLowering(RowLowering):
    """Of one binding, see `RowLowering`.

    Args:
        held: what the plan reads of the scope. left_to_host: nodes that a device has declined.
    """

    def __init__(self, *given: Any, held: Sequence[Held], left_to_host: frozenset[Node] = frozenset()) -> None:
        super().__init__(*given)
        graph = self.plan.graph
        self._gpus = [open_gpu(place.index) for place in graph.places[: graph.devices]]
        self._held = held
        self._scope_mirrors = self._watched()
        self._validity = [Validity() for _ in self._gpus]
        self._speculated = self._validity
        self._statuses = [Statuses(gpu) for gpu in self._gpus]
        self._left_to_host = left_to_host
        self._writers = [self._writer_of(place) for place in range(len(self._gpus))]
        self._segments: list[DeviceSegment] = []

    def _watched(self) -> list[dict[int, Mirror]]:
        """The mirrors of the scope's tensors, by device and by where they begin."""
        mirrors: list[dict[int, Mirror]] = [{} for _ in self._gpus]
        for held in self._held:
            mirror = self._gpus[held.place].mirrors.of_tensor(held.tensor)
            mirrors[held.place][mirror.base] = mirror
        return mirrors

    def _writer_of(self, place: int) -> LaunchWriter:
        gpu = self._gpus[place]
        scratch = self._scratch.setdefault(place, DeviceScratch(gpu))
        assert isinstance(scratch, DeviceScratch)
        return LaunchWriter(gpu, self._context, scratch, self._statuses[place])

    @property
    def is_apart(self) -> bool:
        """False: what follows each other is given as one."""
        return False

    def anew(self, left_to_host: frozenset[Node] = frozenset()) -> CudaLowering:
        """What lowers the same rows once more."""
        return CudaLowering(
            self.plan, self._pool, self._context, self._values, self._reductions, self._diverge, self._scratch,
            held=self._held, left_to_host=left_to_host,
        )  # fmt: skip

    def programs(self, rows: Sequence[Row], with_waits: bool, apart: bool) -> list[ThreadProgram]:
        """The one program of a phase.

        Args:
            with_waits: it is the speculation. apart: every row is a call of its own, with its results on the host.
        """
        phase = PhaseProgram(self.plan, apart)
        if with_waits:
            phase.before(self._refresh)
            self._begin(phase)
        for row in rows:
            with Explained(row.node, self.plan.graph, self.plan.shapes.specs):
                self._add(phase, row)
        self._end(phase, is_commit=not with_waits)
        program, segments = phase.finish(self._statuses if with_waits else [])
        self._segments += segments
        return [program]

    def _begin(self, phase: PhaseProgram) -> None:
        """What was fed goes to the devices; what the scope holds may be there alone."""
        for place, mirrors in enumerate(self._scope_mirrors):
            self._validity[place] = Validity()
            for mirror in mirrors.values():
                self._validity[place].set((mirror.base, mirror.base + mirror.nbytes), DEVICE)
        for value in self.plan.feeds:
            if value in self.plan.refs and not self._is_in_scope(value):
                gpu, span = self._gpus[value.place], self._span(value)
                phase.before(partial(upload, gpu, [self._moved(gpu, *span)]))

    def _is_in_scope(self, value: Value) -> bool:
        begin, _ = self._span(value)
        return any(m.base <= begin < m.base + max(m.nbytes, 1) for m in self._scope_mirrors[value.place].values())

    def _refresh(self) -> None:
        """A step begins: what users have written since the last one goes to the devices."""
        for held in self._held:
            if held.tensor.mirror is None or held.tensor.mirror.side is not self._gpus[held.place]:
                self._gpus[held.place].mirrors.of_tensor(held.tensor)
        for gpu, mirrors in zip(self._gpus, self._scope_mirrors, strict=True):
            gpu.use()
            for mirror in mirrors.values():
                mirror.refresh()

    # Rows

    def _add(self, phase: PhaseProgram, row: Row) -> None:
        node = row.node
        if node.is_collective:
            if self._context.reduces_in_update(node):
                return
            collective = collective_of(row, self._context, self._gpus)
            if collective is not None:
                self._exchange(phase, row, collective)
                return
        elif len(node.places) == 1 and node not in self._left_to_host:
            calls = self._writers[node.place].written(row)
            if calls is not None:
                self._on_device(phase, row, calls)
                return
        self._on_host(phase, row)

    def _on_device(self, phase: PhaseProgram, row: Row, calls: list[Call]) -> None:
        place, node = row.node.place, row.node
        if not calls:
            phase.add(row, IN_SEGMENT)
            return
        for words in self._writers[place].drawn_from():
            phase.before(partial(upload, self._gpus[place], [self._moved(self._gpus[place], *span_of(words))]))
        for value in self._with_memory(node.value_reads):
            self._bring(phase, row, value.place, self._span(value), DEVICE)
        for value in self._with_memory(node.writes):
            if not fills_its_span(self._context.array(value)):
                self._bring(phase, row, value.place, self._span(value), DEVICE)
        phase.wait_for_exchanges(row, self._gpus[place], self._touched(row))
        phase.add(row, DeviceRow(self._gpus[place], calls))
        self._written(phase, row, DEVICE)

    def _exchange(self, phase: PhaseProgram, row: Row, collective: DeviceCollective) -> None:
        for value in self._with_memory(row.node.reads):
            self._bring(phase, row, value.place, self._span(value), DEVICE)
        for place, gpu in enumerate(self._gpus):
            phase.wait_for_exchanges(row, gpu, self._touched(row, place))
        phase.add(row, collective)
        for place, gpu in enumerate(self._gpus):
            phase.exchanged(gpu, self._touched(row, place), collective.wait_on(gpu))
        self._written(phase, row, DEVICE)

    def _on_host(self, phase: PhaseProgram, row: Row) -> None:
        node = row.node
        calls = lower(row, self._context)
        if not calls:
            phase.add(row, IN_SEGMENT)
            return
        for value in self._with_memory(node.value_reads):
            self._bring(phase, row, value.place, self._span(value), HOST)
        for value in self._with_memory(node.writes):
            if not fills_its_span(self._context.array(value)):
                self._bring(phase, row, value.place, self._span(value), HOST)
        phase.on_host(row, [*calls, *self._letting_go(row)])
        if node not in self._left_to_host:
            _tell_of(node.type)
        self._written(phase, row, HOST)

    def _written(self, phase: PhaseProgram, row: Row, where: int) -> None:
        for value in self._with_memory(row.node.writes):
            self._validity[value.place].set(self._span(value), where)
        if phase.apart and where == DEVICE:
            for value in self._with_memory(row.node.writes):
                self._bring(phase, row, value.place, self._span(value), HOST)

    def _bring(self, phase: PhaseProgram, row: Row, place: int, span: Span, where: int) -> None:
        """Have bytes on a side where they are not valid yet."""
        parts = self._validity[place].bring(span, where)
        if not parts:
            return
        gpu = self._gpus[place]
        moved = [self._moved(gpu, *part) for part in parts]
        if where == HOST:
            phase.wait_for_exchanges(row, gpu, [span])
        phase.copy(row, partial(download if where == HOST else upload, gpu, moved))

    def _with_memory(self, values: Sequence[Value]) -> Iterator[Value]:
        return (value for value in dict.fromkeys(values) if value in self.plan.refs)

    def _span(self, value: Value) -> Span:
        return span_of(self._context.array(value))

    def _touched(self, row: Row, place: int | None = None) -> list[Span]:
        values = self._with_memory([*row.node.reads, *row.node.writes])
        return [self._span(v) for v in values if place is None or v.place == place]

    # The end of a phase

    def _end(self, phase: PhaseProgram, is_commit: bool) -> None:
        """What the host looks at comes home: fetches, what the commit copies, words of kernels that met bad numbers."""
        phase.wait_for_all_exchanges()
        for _, values in self.plan.fetches:
            for value in self._with_memory(values):
                if value.persistable == is_commit:
                    self._bring_last(phase, value)
        if is_commit:
            self._leave_ahead(phase)
            return
        for value in self._with_memory(self.plan.staged):
            self._bring_last(phase, value)
        if phase.apart:
            self._hand_to_commit(phase)
        self._speculated = [validity.copy() for validity in self._validity]

    def _bring_last(self, phase: PhaseProgram, value: Value) -> None:
        gpu = self._gpus[value.place]
        for begin, end in self._validity[value.place].bring(self._span(value), HOST):
            phase.fetch(gpu, self._moved(gpu, begin, end))

    def _hand_to_commit(self, phase: PhaseProgram) -> None:
        """The commit, and who looks at the step before it, are made for what another program leaves on the devices."""
        written = (value for row in self.plan.rows for value in row.node.writes)
        read = (value for row in self.plan.commit for value in row.node.value_reads)
        for value in self._with_memory([*written, *read]):
            gpu = self._gpus[value.place]
            parts = self._validity[value.place].bring(self._span(value), DEVICE)
            if parts:
                phase.behind(partial(upload, gpu, [self._moved(gpu, *part) for part in parts]))

    def _leave_ahead(self, phase: PhaseProgram) -> None:
        """The devices hold what the commit has changed, and nobody else all of it."""
        changed = [self._span_of(v) for row in self.plan.commit for v in self._with_memory(row.node.writes)]
        for place, mirrors in enumerate(self._scope_mirrors):
            gpu = self._gpus[place]
            for mirror in mirrors.values():
                whole = mirror.base, mirror.base + mirror.nbytes
                parts = self._validity[place].bring(whole, DEVICE)
                if parts:
                    phase.behind(partial(upload, gpu, [self._moved(gpu, *part) for part in parts]))
                if any(at == place and whole[0] <= begin < whole[1] for at, (begin, _) in changed):
                    phase.behind(mirror.run_ahead)

    def _span_of(self, value: Value) -> tuple[int, Span]:
        return value.place, self._span(value)

    def _moved(self, gpu: GPU, begin: int, end: int) -> Moved:
        mirror = gpu.mirrors.find(begin)
        assert mirror is not None, "what is bound lies in arenas or in the scope"
        return begin, mirror.at(begin), end - begin

    def release(self, freed: dict[int, int]) -> None:
        """Give graphs back, and what control flow keeps."""
        for segment in self._segments:
            segment.release()
        super().release(freed)

    def on_host(self, rows: Sequence[Row]) -> list[ThreadProgram]:
        """The speculation once more, with some rows on the host."""
        lowering = self.anew(frozenset(row.node for row in rows))
        return lowering.programs(self.plan.rows, with_waits=True, apart=True)

    def bring_home(self, arrays: Sequence[np.ndarray]) -> None:
        """Bring what a speculation has left on devices to the host, for somebody who looks there."""
        for validity, gpu in zip(self._speculated, self._gpus, strict=True):
            spans = [part for array in arrays for part in validity.missing(span_of(array), HOST)]
            owned = [span for span in spans if gpu.mirrors.find(span[0]) is not None]
            if owned:
                download(gpu, [self._moved(gpu, *span) for span in owned])


@cache  # once in a process
def _tell_of(type: str) -> None:
    say(f"workbench: op {type!r} has no kernel for GPUs here; it runs on the host, between two copies")
