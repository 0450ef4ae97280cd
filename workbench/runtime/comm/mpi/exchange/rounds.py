"""What a collective puts into the slots of a window, and what it makes of what the others put there.

A collective goes in rounds of as many elements as fit into a slot. In every round each process puts a stretch of each
of its pieces there; when all have, everybody takes what is its due: the stretches added up in a fixed order
(`Folding`), or copied to where they belong (`Copying`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from workbench.runtime.comm.mpi.exchange.threads import described
from workbench.runtime.comm.mpi.memory.slots import put
from workbench.runtime.comm.mpi.memory.window import Window, label_of
from workbench.runtime.words.window import SLOT_BYTES, SLOTS

Views = list[list[np.ndarray]]  # by rank and piece: a stretch of what lies in a slot


class Source(NamedTuple):
    """A piece that some process puts into the slots."""

    rank: int
    piece: int


class Taking(Protocol):
    """What one process does with a stretch `[begin, end)` of everybody's pieces."""

    def take(self, views: Views, begin: int, end: int) -> None:
        """Done again after an interruption, it gives the same."""


class Folding:
    """Pieces joined by a binary operation, from the left.

    Args:
        order: the pieces.
        ufunc: `numpy.add`, `numpy.maximum` …
        outs: flat arrays that get the result. divisor: what it is divided by at the end, 1 if it is not.
    """

    def __init__(self, order: Sequence[Source], ufunc: Any, outs: Sequence[np.ndarray], divisor: int = 1) -> None:
        self._order, self._ufunc, self._outs, self._divisor = order, ufunc, outs, divisor

    def take(self, views: Views, begin: int, end: int) -> None:
        if not self._outs:
            return
        first, *copies = [out[begin:end] for out in self._outs]
        rank, piece = self._order[0]
        value = views[rank][piece]
        if len(self._order) == 1:
            first[...] = value
        for rank, piece in self._order[1:]:
            value = self._ufunc(value, views[rank][piece], first)
        if self._divisor != 1:
            np.divide(first, self._divisor, first)
        for copy in copies:
            copy[...] = first


class Copying:
    """Pieces copied into flat arrays."""

    def __init__(self, targets: Sequence[tuple[Source, np.ndarray]]) -> None:
        self._targets = targets

    def take(self, views: Views, begin: int, end: int) -> None:
        for (rank, piece), out in self._targets:
            out[begin:end] = views[rank][piece]


class Rounds:
    """One collective as rounds over the slots of a window.

    Args:
        pieces: what this process puts there, flat arrays of one length; None, or none, where it has nothing to give.
        most: how many pieces the process with the most has.
        length, dtype: of every piece.
        taking: what is due to this process.
        title: of the collective; `mark` is the number that stands for it, in its `label`.
        thread: the mark of the thread that calls it, see `threads`; 0 where the order does not depend on threads.

    Attributes:
        described: the title, with the thread if it counts.
        count: how many rounds there are; step: elements of one. room: bytes there are in a slot for every piece.
    """

    def __init__(
        self,
        window: Window,
        pieces: Sequence[np.ndarray | None],
        most: int,
        length: int,
        dtype: np.dtype[Any],
        taking: Taking,
        title: str,
        thread: int = 0,
    ) -> None:
        self._window, self._pieces, self._taking = window, pieces, taking
        self.length, self._dtype = length, dtype
        self.room = SLOT_BYTES // max(most, 1) // 64 * 64
        self.step = max(self.room // max(dtype.itemsize, 1), 1)
        self._starts = [self.room * i for i in range(most)]
        self.count = max(1, -(-length // self.step))
        given = max((i for i, piece in enumerate(pieces) if piece is not None), default=None)
        filled = 0 if given is None else self._starts[given] + min(self.step, length) * dtype.itemsize
        self.described, self.thread = described(title) if thread else title, thread
        self.label = label_of(title, filled, self.described)
        self.mark = int.from_bytes(self.label[:8], "little")
        self._views: dict[tuple[int, int], Views] = {}

    def post(self, number: int, slot: int) -> None:
        """Put this process's stretches of a round there."""
        begin, end, views = self._stretch(number, slot)
        own = self._window.own
        mine = views[self._window.rank]
        for piece, view in zip(self._pieces, mine):
            if piece is not None:
                put(view, piece[begin:end])
        own.put_label(slot, self.label, self.thread)

    def take(self, number: int, slot: int) -> None:
        """Take what is due of a round that all have posted."""
        begin, end, views = self._stretch(number, slot)
        self._taking.take(views, begin, end)

    def _stretch(self, number: int, slot: int) -> tuple[int, int, Views]:
        begin = number * self.step
        end = min(begin + self.step, self.length)
        key = slot, end - begin
        views = self._views.get(key)
        if views is None:
            if len(self._views) > 2 * SLOTS:
                self._views.clear()
            views = self._views[key] = self._window.typed(slot, self._dtype, self._starts, end - begin)
        return begin, end, views
