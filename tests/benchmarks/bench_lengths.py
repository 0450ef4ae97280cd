"""Steps of sequences of many lengths, visit by visit, beside a program that has one length only.

    python -m tests.benchmarks.bench_lengths [--visits N] [--order shuffled|ascending|descending|uniform]

Every visit goes through all lengths once, in an order that changes from visit to visit if it is shuffled. Prints the
mean, the median and the longest step of each visit in milliseconds, and the mean as a multiple of the steps of engines
that have one length each, averaged over the same lengths. Under `uniform` lengths are drawn by chance, so that steps of
new lengths and of lengths seen before come mixed; there a line is one hundred steps. The first of all does not count.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from itertools import chain, cycle

import numpy as np

from workbench.experiments.bench.rows.lengths import LENGTHS, Sequences

_STEADY = range(LENGTHS.start, LENGTHS.stop, 3)  # the lengths of which there are engines of their own
_WARM, _COUNTED = 40, 30
_LONG = 20.0  # milliseconds


def order_of(kind: str, visit: int) -> list[int]:
    """The lengths of one visit."""
    rng = np.random.default_rng(visit)
    if kind == "uniform":
        return rng.choice(LENGTHS, 100).tolist()
    if kind == "shuffled":
        return rng.permutation(LENGTHS).tolist()
    return sorted(LENGTHS, reverse=kind == "descending")


def milliseconds(sequences: Sequences) -> float:
    """One step."""
    start = time.perf_counter()
    sequences.step()
    return (time.perf_counter() - start) * 1e3


def steady(length: int) -> float:
    """The median step of an engine that never sees another length."""
    sequences = Sequences(cycle([length]))
    for _ in range(_WARM):
        sequences.step()
    return float(np.median([milliseconds(sequences) for _ in range(_COUNTED)]))


def visits(kind: str, count: int) -> Iterator[list[float]]:
    """The steps of every visit."""
    orders = [order_of(kind, visit) for visit in range(count)]
    sequences = Sequences(chain.from_iterable(orders))
    for order in orders:
        yield [milliseconds(sequences) for _ in order]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--visits", type=int, default=6)
    parser.add_argument("--order", default="shuffled", choices=["shuffled", "ascending", "descending", "uniform"])
    given = parser.parse_args()
    alone = float(np.mean([steady(length) for length in _STEADY]))
    print(f"one length: {alone:.2f} ms")
    print(f"{'visit':>5s}{'mean':>8s}{'ratio':>7s}{'median':>8s}{'longest':>9s}{'over 20 ms':>12s}")
    for visit, every in enumerate(visits(given.order, given.visits), 1):
        times = np.array(every if visit > 1 else every[1:])
        mean, late = times.mean(), np.count_nonzero(times > _LONG)
        print(
            f"{visit:5d}{mean:8.2f}{mean / alone:7.2f}{np.median(times):8.2f}{times.max():9.1f}{late:12d}", flush=True
        )


if __name__ == "__main__":
    main()
