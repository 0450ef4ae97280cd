"""A sum over processes as kernels are told of it, so that a step of several trainers is one call."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np


class SumRow(NamedTuple):
    """What a row `sum_processes` of a tape is told, see `words.window`.

    Attributes:
        state: of the channel. label: uint8, which collective it is.
        rounds: how many there are; step: elements of one; room: bytes in a slot for every piece.
        pieces, outs: flat arrays of float32, all of one length.
        terms: of every term of the sum its rank and which piece of it.
    """

    state: np.ndarray
    label: np.ndarray
    rounds: int
    step: int
    room: int
    pieces: Sequence[np.ndarray]
    outs: Sequence[np.ndarray]
    terms: Sequence[tuple[int, int]]

    def arguments(self, control: np.ndarray, before: int = 0) -> Iterator[Any]:
        """Of the row.

        Args:
            control: of the threads of the step. before: rounds that were handed in before, and are not taken yet.
        """
        yield from (self.state, control, self.label, self.label.size, self.pieces[0].size, self.step, self.room)
        yield from (before, len(self.pieces), len(self.outs), len(self.terms), *self.pieces, *self.outs)
        for term in self.terms:
            yield from term

    @property
    def is_in_place(self) -> bool:
        """Whether every piece is where its sum will be, and so stays as it is until then."""
        outs = {out.__array_interface__["data"][0] for out in self.outs}
        return all(piece.__array_interface__["data"][0] in outs for piece in self.pieces)
