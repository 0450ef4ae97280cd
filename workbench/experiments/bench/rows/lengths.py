"""Sequences of many lengths, one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle
from typing import Any

import numpy as np

from workbench.builders.data import data
from workbench.experiments.bench.row import BenchRow
from workbench.experiments.bench.workloads import SEED, attention, normalised, started, token_fc
from workbench.ops.loss.losses import square_error_cost
from workbench.ops.math.reductions.reduce import mean
from workbench.ops.nn.activation import gelu
from workbench.optimizer.rules.adam import Adam

BATCH, WIDTH = 8, 64
LENGTHS = range(10, 50)
MIDDLE = 30


class Sequences:
    """Two blocks of attention; every step has the next of the lengths, until there are none left.

    Args:
        lengths: of one step after the other.

    Attributes:
        training: with the batch of the last step.
    """

    def __init__(self, lengths: Iterator[int]) -> None:
        rng = np.random.default_rng(SEED)
        self._feeds = {n: {"x": rng.standard_normal((BATCH, n, WIDTH)).astype(np.float32)} for n in LENGTHS}
        self.training, self._lengths = started(_body, self._feeds[MIDDLE], 1), lengths

    def step(self) -> np.ndarray:
        """Its loss.

        Raises:
            StopIteration: there was none left.
        """
        self.training.feed = self._feeds[next(self._lengths)]
        return self.training.step()


def _body() -> Any:
    x = data("x", [None, None, WIDTH])
    hidden = x
    for _ in range(2):
        hidden = normalised(hidden + attention(hidden, heads=4))
        hidden = normalised(hidden + token_fc(gelu(token_fc(hidden, 4 * WIDTH)), WIDTH))
    loss = mean(square_error_cost(hidden, x))
    Adam(1e-3).minimize(loss)
    return loss


def one_length() -> Sequences:
    """The middle one, again and again."""
    return Sequences(cycle([MIDDLE]))


def seen_lengths() -> Sequences:
    """All in turn, each of which has had steps before."""
    sequences = Sequences(cycle(LENGTHS))
    for _ in range(2 * len(LENGTHS)):
        sequences.step()
    return sequences


def new_lengths() -> Sequences:
    """Each once, in an order that is no order."""
    return Sequences(iter(np.random.default_rng(SEED).permutation(LENGTHS).tolist()))


ROWS = (
    BenchRow(
        "lengths",
        f"{len(LENGTHS)} lengths in turn, 2 blocks of attention, {WIDTH} wide, batch {BATCH}, Adam",
        "3 ms for a new length, 1.1 of one length for lengths that were seen",
        {"one length": one_length, "seen": seen_lengths, "new": new_lengths},
        {"torch": "torch_lengths.py"},
    ),
)
