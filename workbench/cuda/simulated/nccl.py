"""NCCL on simulated devices: ranks of one process, on threads of their own or all on one.

A collective runs once every rank that takes part has come to it, with nothing of its stream or of its device before it.
Ranks that do not agree what they do stand still, as they would on GPUs; whoever waits for one of them is told after a
deadline where each of them stands.

It is as unforgiving as NCCL may be at its worst: a device does one collective at a time, in the order in which they
were given, whatever their streams and communicators are; ranks that give two communicators' collectives in different
orders never get past them.

No hardware has confirmed the order of additions (a ring, piece by piece, each step rounded to the dtype), nor which of
NCCL's codes goes with which refusal. Several processes are not served.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count as numbers
from typing import Any

import numpy as np

from workbench.cuda.driver import NCCL_REDUCTIONS, NCCL_TYPES, CudaError
from workbench.cuda.simulated.accesses import ByteSpan
from workbench.cuda.simulated.machine import MachineMemory
from workbench.cuda.simulated.streams import SimulatedStream, StreamTask, StreamWork, call_site
from workbench.errors import ExecutionTimeout
from workbench.framework.values.dtype import as_dtype

POINT_TO_POINT = ("send", "receive")


@dataclass(eq=False)
class Clique:
    """The ranks of a communicator, those that have come."""

    unique_id: bytes
    size: int
    ranks: dict[int, SimulatedRank] = field(default_factory=dict)
    callers: dict[int, tuple[int, str]] = field(default_factory=dict)

    def missing(self) -> list[int]:
        """Ranks that have not come."""
        return [rank for rank in range(self.size) if rank not in self.ranks]


@dataclass(eq=False)
class SimulatedRank:
    """One rank of a communicator; `error` is what `raise_async_error` tells."""

    clique: Clique
    rank: int
    device: int
    site: str
    error: str = ""
    gone: str = ""


@dataclass(frozen=True)
class CollectiveCall:
    """One call of one rank."""

    kind: str
    rank: SimulatedRank
    source: int
    result: int
    count: int
    dtype: str
    reduction: str
    peer: int
    stream: SimulatedStream
    site: str

    def form(self) -> tuple[Any, ...]:
        """What all ranks have to agree on."""
        return self.kind, self.count, self.dtype, self.reduction, self.peer

    def describe(self) -> str:
        more = f", {self.reduction}" if self.reduction else ""
        to = f", rank {self.peer}" if self.peer >= 0 else ""
        return f"{self.kind} of {self.count} {self.dtype}{more}{to} given at {self.site}"

    def nbytes(self) -> int:
        """Bytes of `count` elements."""
        return self.count * as_dtype(self.dtype).numpy.itemsize

    def spans(self) -> list[ByteSpan]:
        """What the rank reads and writes."""
        size, nbytes, rank = self.rank.clique.size, self.nbytes(), self.rank.rank
        reads = self.kind not in ("receive",) and not (self.kind == "broadcast" and rank != self.peer)
        writes = self.kind != "send" and not (self.kind == "reduce" and rank != self.peer)
        read = nbytes * (size if self.kind == "reduce_scatter" else 1)
        written = nbytes * (size if self.kind == "all_gather" else 1)
        return [ByteSpan(self.source, read, False)] * reads + [ByteSpan(self.result, written, True)] * writes


@dataclass(eq=False)
class RankBatch:
    """The calls of one rank that start together."""

    rank: SimulatedRank
    calls: tuple[CollectiveCall, ...]

    def collectives(self) -> list[CollectiveCall]:
        return [call for call in self.calls if call.kind not in POINT_TO_POINT]

    def between(self, kind: str, peer: int) -> list[CollectiveCall]:
        """Its sends to, or receives from, another rank."""
        return [call for call in self.calls if call.kind == kind and call.peer == peer]

    def partners(self) -> set[int]:
        """Ranks without which it cannot run."""
        if self.collectives():
            return set(range(self.rank.clique.size))
        return {call.peer for call in self.calls} | {self.rank.rank}

    def describe(self) -> str:
        return ", ".join(call.describe() for call in self.calls)


@dataclass
class OpenGroup:
    """What a thread has collected since `group_start`."""

    depth: int = 0
    calls: list[CollectiveCall] = field(default_factory=list)
    cliques: list[Clique] = field(default_factory=list)


class Collectives:
    """The communicators of a simulated machine, and what waits on each device."""

    def __init__(self, machine: MachineMemory) -> None:
        self._machine, self._timeline = machine, machine.timeline
        self._cliques: dict[bytes, Clique] = {}
        self._queues: dict[int, deque[StreamWork]] = {}
        self._ids = numbers(1)
        self._groups: dict[int, OpenGroup] = {}

    # Communicators -------------------------------------------------------------------------------------------------

    def unique_id(self) -> bytes:
        """An id that no other communicator has."""
        return f"simulated communicator {next(self._ids)}".encode().ljust(128, b"\0")

    def create_rank(self, size: int, unique_id: bytes, rank: int, device: int, site: str) -> SimulatedRank:
        """Join, and wait for the others; within a group `group_end` waits."""
        clique = self._cliques.setdefault(unique_id, Clique(unique_id, size))
        mine = self._joined(clique, size, rank, device, site)
        self._timeline.lock.notify_all()
        if self._group().depth:
            self._group().cliques.append(clique)
        else:
            self._wait_for_ranks([clique], site)
        return mine

    def create_ranks(self, devices: Sequence[int], site: str) -> list[SimulatedRank]:
        """All ranks of one process."""
        clique = Clique(self.unique_id(), len(devices))
        self._cliques[clique.unique_id] = clique
        return [self._joined(clique, clique.size, rank, device, site) for rank, device in enumerate(devices)]

    def _joined(self, clique: Clique, size: int, rank: int, device: int, site: str) -> SimulatedRank:
        twice = next((one for one in clique.ranks.values() if one.device == device), None)
        if size != clique.size or not 0 <= rank < size or rank in clique.ranks or twice is not None:
            told = f"; device {device} has rank {twice.rank} already (Duplicate GPU)" if twice else ""
            raise CudaError(
                f"{site} makes rank {rank} of {size} of a communicator of {clique.size} ranks that has "
                f"{sorted(clique.ranks)}{told}",
                "NCCL_ERROR_INVALID_USAGE",
            )
        clique.ranks[rank] = SimulatedRank(clique, rank, device, site)
        return clique.ranks[rank]

    def _wait_for_ranks(self, cliques: Iterable[Clique], site: str) -> None:
        end = time.monotonic() + self._timeline.waits.deadline_seconds
        for clique in cliques:
            while clique.missing():
                if time.monotonic() > end:
                    here = ", ".join(f"rank {one.rank} at {one.site}" for one in clique.ranks.values())
                    raise ExecutionTimeout(
                        f"{site} waited {self._timeline.waits.deadline_seconds:g} s for ranks {clique.missing()} of "
                        f"{clique.size} to be made ({here} came); a thread that makes several needs a group"
                    )
                self._timeline.lock.wait(self._timeline.waits.poll_seconds)

    def abort(self, rank: SimulatedRank, site: str) -> None:
        """Drop what it has waiting."""
        rank.gone = f"was aborted at {site}"
        for work in [one for one in self._queue(rank.device) if one.kept.rank is rank]:
            self._queue(rank.device).remove(work)
            self._timeline.finish(work)

    def destroy(self, rank: SimulatedRank, site: str) -> None:
        """Give a rank back.

        Raises:
            CudaError: collectives of it are not done.
        """
        waiting = next((one for one in self._queue(rank.device) if one.kept.rank is rank), None)
        if waiting is not None:
            raise CudaError(f"{site} destroys rank {rank.rank} while its {waiting.kept.describe()} is not done")
        rank.gone = f"was destroyed at {site}"

    # Calls and groups ----------------------------------------------------------------------------------------------

    def group_start(self) -> None:
        """Collect what this thread calls."""
        self._group().depth += 1

    def group_end(self, site: str) -> None:
        """Start what was collected, in one piece per rank."""
        group = self._group()
        if not group.depth:
            raise CudaError(f"{site} ends a group that has not begun", "NCCL_ERROR_INVALID_USAGE")
        group.depth -= 1
        if group.depth:
            return
        calls, cliques = group.calls, group.cliques
        group.calls, group.cliques = [], []
        self._wait_for_ranks(cliques, site)
        by_rank: dict[SimulatedRank, list[CollectiveCall]] = {}
        for call in calls:
            by_rank.setdefault(call.rank, []).append(call)
        for given in by_rank.values():
            self._issue(given)

    def call(self, call: CollectiveCall) -> None:
        """Start a collective, or add it to this thread's group."""
        self._check(call)
        if self._group().depth:
            self._group().calls.append(call)
            return
        thread, clique = threading.get_ident(), call.rank.clique
        for rank, (other, site) in clique.callers.items():
            if other == thread and rank != call.rank.rank:
                raise CudaError(
                    f"one thread calls NCCL for rank {rank} at {site} and for rank {call.rank.rank} at {call.site}, "
                    "and no group holds the two: the first call may wait for the second for ever",
                    "NCCL_ERROR_INVALID_USAGE",
                )
        clique.callers[call.rank.rank] = (thread, call.site)
        self._issue([call])

    def _group(self) -> OpenGroup:
        return self._groups.setdefault(threading.get_ident(), OpenGroup())

    def _check(self, call: CollectiveCall) -> None:
        size = call.rank.clique.size
        if call.rank.gone:
            raise CudaError(f"{call.describe()}: rank {call.rank.rank} {call.rank.gone}", "NCCL_ERROR_INVALID_ARGUMENT")
        wrong = call.dtype not in NCCL_TYPES or (call.reduction and call.reduction not in NCCL_REDUCTIONS)
        if wrong or call.count < 0 or call.peer >= size or call.stream.device != call.rank.device:
            raise CudaError(
                f"{call.describe()}: rank {call.rank.rank} of {size} is on device {call.rank.device}, the stream on "
                f"device {call.stream.device}; dtypes are {', '.join(NCCL_TYPES)}",
                "NCCL_ERROR_INVALID_ARGUMENT",
            )

    def _issue(self, calls: Sequence[CollectiveCall]) -> None:
        batch = RankBatch(calls[0].rank, tuple(calls))
        streams = {call.stream for call in calls}
        if len(streams) > 1:
            raise CudaError(f"a group gives one rank collectives on {len(streams)} streams: {batch.describe()}")
        task = StreamTask(
            label=" and ".join(dict.fromkeys(call.kind for call in calls)),
            site=calls[0].site,
            device=batch.rank.device,
            run=self._run,
            spans=tuple(span for call in calls for span in call.spans() if span.nbytes),
            given=lambda work: self._submit(work, batch),
            ready=self._ready,
            obstacle=self._obstacle,
        )
        self._timeline.give(calls[0].stream, task)

    # Running -------------------------------------------------------------------------------------------------------

    def _queue(self, device: int) -> deque[StreamWork]:
        return self._queues.setdefault(device, deque())

    def _submit(self, work: StreamWork, batch: RankBatch) -> None:
        work.kept = batch
        self._queue(work.task.device).append(work)

    def _front(self, rank: SimulatedRank) -> StreamWork | None:
        """The collective to which a rank's device has come, if it is of that communicator."""
        queue = self._queue(rank.device)
        return queue[0] if queue and queue[0].kept.rank is rank else None

    def _party(self, work: StreamWork) -> dict[int, StreamWork | None]:
        """All ranks that take part, and where they stand."""
        ranks, party = work.kept.rank.clique.ranks, {}
        stack = [work.kept.rank.rank]
        while stack:
            rank = stack.pop()
            if rank not in party:
                front = party[rank] = self._front(ranks[rank]) if rank in ranks else None
                stack += sorted(front.kept.partners()) if front else []
        return party

    def _ready(self, work: StreamWork) -> bool:
        if self._front(work.kept.rank) is not work:
            return False
        works = list(self._party(work).values())
        lost = self._timeline.failures
        able = [
            one
            for one in works
            if one is not None and one.is_due() and not one.kept.rank.error and one.task.device not in lost
        ]
        return len(able) == len(works) and not disagreement([one.kept for one in able])

    def _obstacle(self, work: StreamWork) -> str:
        rank = work.kept.rank
        first = self._queue(rank.device)[0] if self._queue(rank.device) else work
        if first is not work and first.kept.rank is not rank:
            return f"rank {rank.rank} stands in {first.kept.describe()} of another communicator"
        return "; ".join(self._stands(rank.clique, r, w) for r, w in sorted(self._party(work).items()))

    def _stands(self, clique: Clique, number: int, work: StreamWork | None) -> str:
        rank = clique.ranks.get(number)
        if rank is None or rank.gone or rank.error:
            return f"rank {number} {rank.gone or rank.error if rank else 'was never made'}"
        if rank.device in self._timeline.failures:
            return f"rank {number} has lost its device: {self._timeline.failures[rank.device]}"
        if work is None:
            queue = self._queue(rank.device)
            return f"rank {number} stands in " + (
                f"{queue[0].kept.describe()} of another communicator" if queue else "no collective"
            )
        return f"rank {number} stands in {work.kept.describe()}" + ("" if work.is_due() else ", which other work keeps")

    def _run(self, work: StreamWork) -> None:
        works = [one for one in self._party(work).values() if one is not None]
        for one in works:
            self._queue(one.task.device).remove(one)
            if one is not work:
                self._timeline.finish(one)
        if not all(self._may_touch(one, work) for one in works):
            return
        batches = sorted((one.kept for one in works), key=lambda batch: batch.rank.rank)
        for calls in zip(*(batch.collectives() for batch in batches), strict=True):
            self._exchange(calls)
        for batch in batches:
            for other in batches:
                pairs = zip(
                    batch.between("send", other.rank.rank), other.between("receive", batch.rank.rank), strict=True
                )
                for sent, received in pairs:
                    self._store(received, self._load(sent, 1))
        for one in works:
            self._machine.wrote(one.task.spans)

    def _may_touch(self, one: StreamWork, runner: StreamWork) -> bool:
        """Check what a rank reads and writes; where it may not, its device is lost and the others get nothing."""
        try:
            self._machine.touch(one, one.task.spans)
            self._machine.need_values(one, one.task.spans)
        except CudaError as error:
            if one is runner:
                raise
            self._timeline.fail(one, error)
            return False
        return True

    def _load(self, call: CollectiveCall, times: int) -> np.ndarray:
        data = self._machine.memory.read(call.source, call.nbytes() * times) if call.count else b""
        return np.frombuffer(data, as_dtype(call.dtype).numpy)

    def _store(self, call: CollectiveCall, values: np.ndarray) -> None:
        if values.size:
            self._machine.memory.view(call.result, values.nbytes)[:] = values.view(np.uint8)

    def _exchange(self, calls: Sequence[CollectiveCall]) -> None:
        """One collective of all ranks; all sources are read before a result is written."""
        first, size = calls[0], len(calls)
        if not first.count:
            return
        if first.kind == "broadcast":
            results = [self._load(calls[first.peer], 1)] * size
        elif first.kind == "all_gather":
            results = [np.concatenate([self._load(call, 1) for call in calls])] * size
        else:
            times = size if first.kind == "reduce_scatter" else 1
            whole = ring_reduction([self._load(call, times) for call in calls], first.reduction)
            results = list(np.split(whole, size)) if first.kind == "reduce_scatter" else [whole] * size
        for call, result in zip(calls, results, strict=True):
            if call.kind != "reduce" or call.rank.rank == call.peer:
                self._store(call, result)


def disagreement(batches: Sequence[RankBatch]) -> bool:
    """Whether ranks that stand beside each other want different things."""
    forms = [[call.form() for call in batch.collectives()] for batch in batches]
    if any(form != forms[0] for form in forms):
        return True
    return any(
        [(call.count, call.dtype) for call in sender.between("send", receiver.rank.rank)]
        != [(call.count, call.dtype) for call in receiver.between("receive", sender.rank.rank)]
        for sender in batches
        for receiver in batches
    )


REDUCTIONS: dict[str, np.ufunc] = {
    "sum": np.add,
    "mean": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def ring_reduction(values: Sequence[np.ndarray], reduction: str) -> np.ndarray:
    """As a ring of ranks makes it: piece `i` begins with the rank after `i` and is rounded at every rank it passes."""
    size, dtype = len(values), values[0].dtype
    floats = dtype.kind not in "biu"
    if reduction == "mean" and floats:
        values = [(one * dtype.type(1 / size)).astype(dtype) for one in values]
    pieces = []
    for piece, parts in enumerate(zip(*(np.array_split(one, size) for one in values), strict=True)):
        total = parts[(piece + 1) % size]
        for step in range(2, size + 1):
            total = REDUCTIONS[reduction](total, parts[(piece + step) % size]).astype(dtype)
        pieces.append(total)
    whole = np.concatenate(pieces)
    return whole // dtype.type(size) if reduction == "mean" and not floats else whole


def collective_call(
    kind: str, rank: Any, source: int, result: int, count: int, dtype: str, stream: SimulatedStream,
    reduction: str = "", peer: int = -1,
) -> CollectiveCall:  # fmt: skip
    """A call with the line that makes it."""
    return CollectiveCall(kind, rank, source, result, count, dtype, reduction, peer, stream, call_site())
