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
REACH = 10.0  # times as large as usual: a run that stays within it is one of the others, on another level
STEADY = 100.0  # times as far from zero as at its beginning: a run has diverged
FAR_LOG = math.log(100)  # above what is usual, where the scale is logarithmic; for whole runs, too
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
    placed = [[_placed(column, log) for column in columns] for columns in runs]
    placed = [columns for columns in placed if len(columns[0])]
    if not placed:
        return None
    everything = np.concatenate([column for columns in placed for column in columns])
    limit = _limit([columns[0] for columns in placed], log)
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
    """What is far from where most runs begin, from the lower quarter of them, and from most of those that have not
    left their beginning far behind: the others may have diverged.

    A run that stays within reach of these is shown whole, and is one of them to the next larger one.
    """
    most = max(map(len, runs))
    long = [values for values in runs if len(values) >= FEW * most]
    sizes, starts = sorted(_usual(values, log) for values in long), sorted(_size(values[:1], log) for values in long)
    level = max(sizes[(len(sizes) - 1) // 4], starts[(len(starts) - 1) // 2], _steady_level(long, log))
    limit = level + FAR_LOG if log else max(FAR * level, LEAST)
    for extent, usual in sorted((_size(values, log), _usual(values, log)) for values in runs):
        if extent > (level + FAR_LOG if log else REACH * level):
            break
        level, limit = max(level, usual), max(limit, extent)
    return limit


def _steady_level(runs: Sequence[np.ndarray], log: bool) -> float:
    """Of one run alone nobody can say whether it has diverged."""
    levels = [(_size(values[:1], log), _top(values, log)) for values in runs]
    tops = sorted(top for start, top in levels if top <= (start + FAR_LOG if log else STEADY * start))
    return tops[(len(tops) - 1) // 2] if len(runs) > 1 and tops else -math.inf


def _top(values: np.ndarray, log: bool) -> float:
    """How far from zero a run goes, but for single spikes."""
    return float(np.quantile(values if log else np.abs(values), 0.95))


def _size(values: np.ndarray, log: bool) -> float:
    """How far from zero the farthest value is."""
    return float((values if log else np.abs(values)).max())


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
