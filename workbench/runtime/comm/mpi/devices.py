"""Collectives over the devices of several processes: the contract of `base` on a process group.

Devices are numbered through all processes: those of process 0, then those of process 1, and so on.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from workbench.errors import PreconditionNotMet
from workbench.framework.values.rows import Rows
from workbench.runtime.comm.base import RESET_PATIENCE, Communicator, Handle, PreparedCollective
from workbench.runtime.comm.local import LocalCommunicator
from workbench.runtime.comm.mpi.exchange.channel import CollectiveRun
from workbench.runtime.comm.mpi.exchange.rounds import Copying, Folding, Rounds, Source, Taking
from workbench.runtime.comm.mpi.group import ProcessGroup
from workbench.runtime.comm.overlap import require_apart, same_memory
from workbench.runtime.comm.request import (
    ALL_GATHER,
    ALL_REDUCE,
    BROADCAST,
    REDUCE,
    Request,
    form,
    require_sum,
    sum_order,
    titled,
)
from workbench.runtime.comm.sum_row import SumRow


class MpiCommunicator(Communicator):
    """The group of the devices of all processes; all of them make it together, and exchange how many each has.

    Args:
        group: the processes.
        devices: how many this one has.
    """

    def __init__(self, group: ProcessGroup, devices: int) -> None:
        counts = group.all_gather(np.array([devices], np.int64)).wait()
        assert counts is not None
        self.group, self.patience = group, group.timeout
        self.counts = [int(count) for count in counts.reshape(-1)]
        begins = [0, *accumulate(self.counts)]
        mine = range(begins[group.rank], begins[group.rank] + devices)
        self._sources = [Source(rank, piece) for rank, count in enumerate(self.counts) for piece in range(count)]
        super().__init__(begins[-1], mine)

    @cached_property
    def here(self) -> Communicator:
        return LocalCommunicator(len(self.local))

    def reduce_everywhere(
        self, parts: Sequence[Any], out: Any, place: int, first: int, names: Sequence[str] = ()
    ) -> PreparedCollective:
        title = titled(REDUCE, names)
        self._check_parts(title, parts)
        require_sum(title, "sum", parts[0].dtype)
        self._check_outs(title, [out], [self.local[place]], parts[0].shape, parts[0].dtype)
        order = sum_order(self.size, first)
        request = Request(REDUCE, tuple(parts), (out,), self.local[place], order, tuple(names))
        require_apart(request, self.local)
        return _MpiCollective(self, request, f"first {self.member(first)}")

    def member(self, rank: int) -> str:
        source = self._sources[rank]
        return f"device {source.piece} of {self.group.member(source.rank)}"

    def prepare(self, request: Request) -> PreparedCollective:
        require_apart(request, self.local)
        return _MpiCollective(self, request)

    def source(self, rank: int) -> Source:
        """Where in the slots the part of a device lies."""
        return self._sources[rank]

    def rounds(
        self, title: str, pieces: Sequence[np.ndarray | None], length: int, dtype: np.dtype[Any], taking: Taking
    ) -> Rounds:
        """A collective to which every device contributes one piece."""
        channel = self.group.channel
        return Rounds(channel.window, pieces, max(self.counts), length, dtype, taking, title)

    # failure: that of the group

    @property
    def aborted(self) -> str | None:
        return self.group.aborted

    def abort(self, reason: str, cause: BaseException | None = None) -> None:
        self.group.abort(reason, cause)

    def reset(self, timeout: float = RESET_PATIENCE) -> None:
        self.group.reset(timeout)

    def require_alive(self, title: str) -> None:
        self.group.channel.look()
        self.group.channel.require_alive(title)

    # sparse rows

    def _join_rows(self, parts: Sequence[Rows], title: str, timeout: float | None) -> Rows:
        counts = np.zeros((self.size, 1), np.int64)
        self._gather(f"{title}: how many", [np.array([len(p.rows)], np.int64) for p in parts], counts, timeout)
        most = int(counts.max())
        rows = np.zeros((self.size, most), np.int64)
        width = parts[0].values.shape[1:]
        values = np.zeros((self.size, most, *width), parts[0].dtype)
        self._gather(f"{title}: rows", [_padded(p.rows, most) for p in parts], rows, timeout)
        self._gather(f"{title}: values", [_padded(p.values, most) for p in parts], values, timeout)
        kept = [int(count) for count in counts[:, 0]]
        return Rows(
            np.concatenate([row[:k] for row, k in zip(rows, kept)]),
            np.concatenate([value[:k] for value, k in zip(values, kept)]),
            parts[0].height,
        )

    def _gather(self, title: str, parts: Sequence[np.ndarray], out: np.ndarray, timeout: float | None) -> None:
        targets = [(self.source(rank), out[rank, ...].reshape(-1)) for rank in range(self.size)]
        text = f"{title} ({form(parts[0].shape, parts[0].dtype)})"
        pieces = [part.reshape(-1) for part in parts]
        rounds = self.rounds(text, pieces, pieces[0].size, pieces[0].dtype, Copying(targets))
        self.group.channel.start(rounds, title).wait(timeout)


class _MpiCollective(PreparedCollective):
    comm: MpiCommunicator

    def __init__(self, comm: MpiCommunicator, request: Request, order: str = "") -> None:
        super().__init__(comm, request)
        self._staged: list[tuple[np.ndarray, np.ndarray]] = []  # contiguous copies of parts, and these
        self._unstaged: list[tuple[np.ndarray, np.ndarray]] = []  # outs, and contiguous arrays in their place
        length = request.nbytes // request.dtype.itemsize
        pieces = [self._part(part) for part in request.parts]
        if (
            request.kind == BROADCAST
        ):  # the root is one of this process's devices: its piece lies where the device's does
            pieces = pieces * (comm.source(request.root or 0).piece + 1)
        text = titled(request.kind, request.names)
        root = "" if request.root is None else f"root {comm.member(request.root)}"
        together = f"in the order {', '.join(request.names)}" if len(request.names) > 1 else ""
        described = " ".join(filter(None, (f"{text} ({form(request.shape, request.dtype)})", order or root, together)))
        self._rounds = comm.rounds(described, pieces, length, request.dtype, self._taking())
        self._title = text
        self._last: CollectiveRun | None = None

    def _taking(self) -> Taking:
        comm, request = self.comm, self.request
        if request.kind == BROADCAST:
            source = comm.source(request.root or 0)
            own = [out for out in request.outs if not (request.parts and same_memory(request.parts[0], out))]
            return Copying([(source, self._out(out)) for out in own])
        if request.kind == ALL_GATHER:
            outs = [self._out(out) for out in request.outs]
            rows = [(rank, out.reshape(comm.size, -1)) for out in outs for rank in range(comm.size) if out.size]
            return Copying([(comm.source(rank), row[rank]) for rank, row in rows])
        assert request.kind == ALL_REDUCE or len(request.outs) <= 1
        outs = [self._out(out) for out in self._distinct_outs()]
        return Folding([comm.source(rank) for rank in request.order], np.add, outs)

    def _part(self, part: np.ndarray) -> np.ndarray:
        if part.flags.c_contiguous:
            return part.reshape(-1)
        copy = np.empty(part.shape, part.dtype)
        self._staged.append((copy, part))
        return copy.reshape(-1)

    def _out(self, out: np.ndarray) -> np.ndarray:
        if out.flags.c_contiguous:
            return out.reshape(-1)
        copy = np.empty(out.shape, out.dtype)
        self._unstaged.append((out, copy))
        return copy.reshape(-1)

    def start(self) -> Handle:
        comm = self.comm
        comm.require_alive(self._title)
        if self._last is not None and self._last.is_under_way:
            raise PreconditionNotMet(f"{self._title} is under way; wait for it before it is started again")
        for copy, part in self._staged:
            copy[...] = part
        run = self._last = comm.group.channel.start(self._rounds, self._title)
        if self._unstaged:
            run.whenever_done = self._hand_out
        return run

    def run(self, timeout: float | None) -> None:
        if self._staged or self._unstaged:
            super().run(timeout)
        else:
            self.comm.group.channel.exchange(self._rounds, self._title, timeout)

    def in_kernels(self) -> SumRow | None:
        request, rounds = self.request, self._rounds
        is_sum = request.kind == ALL_REDUCE and request.dtype == np.float32 and request.nbytes > 0
        if not is_sum or self._staged or self._unstaged:
            return None
        label = np.frombuffer(rounds.label, np.uint8)
        pieces, outs = [self._part(part) for part in request.parts], [self._out(out) for out in self._distinct_outs()]
        terms = [self.comm.source(rank) for rank in request.order]
        state = self.comm.group.channel.state
        return SumRow(state, label, rounds.count, rounds.step, rounds.room, pieces, outs, terms)

    def _distinct_outs(self) -> list[np.ndarray]:
        outs = self.request.outs
        return [out for i, out in enumerate(outs) if not any(same_memory(out, o) for o in outs[:i])]

    def _hand_out(self) -> None:
        for out, copy in self._unstaged:
            out[...] = copy


def _padded(values: Any, length: int) -> np.ndarray:
    """The rows, and zeros behind them."""
    padded = np.zeros((length, *values.shape[1:]), values.dtype)
    padded[: len(values)] = values
    return padded
