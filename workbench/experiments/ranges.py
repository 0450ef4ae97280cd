"""The range of values that the runs of a diagram are drawn in, as in assets/src/curves/range.js.

A run that diverged, or a spike, must not flatten all else: it leaves the frame instead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

FAR = 3.0  # times as far from zero as usual: out of the frame
LEAST = 1.0  # nothing nearer to zero than this is far: accuracies may rise from anywhere
FAR_LOG = math.log(100)  # above what is usual, where the scale is logarithmic
WIDER, WIDER_LOG = 5.0, 2.0  # the whole range is shown unless it is so many times as wide
FEW = 0.1  # of the longest run's points: too few to tell what is usual


class Range(NamedTuple):
    """What is shown, and what there is; the same where nothing is far out."""

    shown: tuple[float, float]
    whole: tuple[float, float]


def typical_range(runs: Sequence[Sequence[np.ndarray]], log: bool = False) -> Range | None:
    """The range that shows what is usual.

    Args:
        runs: of every run its means, and the edges of its band if it has one.
        log: for a logarithmic scale, on which only numbers above 0 have a place.

    Returns:
        None where there is no number that has a place.
    """
    found = [[_placed(column, log) for column in columns] for columns in runs]
    found = [columns for columns in found if len(columns[0])]
    if not found:
        return None
    everything = np.concatenate([column for columns in found for column in columns])
    limit = _limit([columns[0] for columns in found], log)
    near = everything[(everything if log else np.abs(everything)) <= limit]
    whole, shown = _ends(everything), _ends(near)
    if _width(whole) <= (WIDER_LOG if log else WIDER) * _width(shown):
        shown = whole
    if log:
        shown, whole = (math.exp(shown[0]), math.exp(shown[1])), (math.exp(whole[0]), math.exp(whole[1]))
    return Range(shown, whole)


def _placed(column: np.ndarray, log: bool) -> np.ndarray:
    values = np.asarray(column, np.float64)
    values = values[np.isfinite(values)]
    return np.log(values[values > 0]) if log else values


def _limit(runs: Sequence[np.ndarray], log: bool) -> float:
    """Of the lower quarter of the runs, so that most of them may have diverged."""
    most = max(map(len, runs))
    sizes = sorted(_usual(values, log) for values in runs if len(values) >= FEW * most)
    found = sizes[(len(sizes) - 1) // 4]
    return found + FAR_LOG if log else max(FAR * found, LEAST)


def _usual(values: np.ndarray, log: bool) -> float:
    """How far from zero a run begins, or the half of its values that lies nearer to its beginning."""
    lower, middle, upper = np.quantile(values, (0.05, 0.5, 0.95)).tolist()
    low, high = ([values[0], lower, middle], [values[0], middle, upper])
    nearer = low if max(low) - min(low) <= max(high) - min(high) else high
    return float(max(nearer if log else map(abs, nearer)))


def _ends(values: np.ndarray) -> tuple[float, float]:
    return float(values.min()), float(values.max())


def _width(ends: tuple[float, float]) -> float:
    return ends[1] - ends[0]
