"""A line search for the strong Wolfe conditions: far enough down, and flat enough there."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

SUFFICIENT, FLATTENED = 1e-4, 0.9  # c1 and c2 of the conditions
_LIMIT = 25  # evaluations
_TOLERANCE = 1e-9

Vector = np.ndarray
Evaluate = Callable[[float], tuple[float, Vector]]


class LinePoint(NamedTuple):
    """A point on the line: how far, the loss, its slope along the line, and its gradient."""

    length: float
    loss: float
    slope: float
    gradient: Vector


class Found(NamedTuple):
    """Where a search has ended."""

    length: float
    loss: float
    gradient: Vector
    evaluations: int


def strong_wolfe(at: Evaluate, direction: Vector, length: float, loss: float, gradient: Vector, slope: float) -> Found:
    """A length at which the loss has fallen enough and its slope is small enough.

    Args:
        at: loss and gradient for a length. direction: of the line. length: the first to try.
        loss, gradient, slope: at the start.

    Source: Nocedal and Wright, "Numerical Optimization", 2nd ed., algorithms 3.5 and 3.6.
    """
    search = _Search(at, direction, LinePoint(0.0, loss, slope, gradient))
    low, high = search.bracket(length)
    best = low if high is None else search.zoom(low, high)
    return Found(best.length, best.loss, best.gradient, search.evaluations)


class _Search:
    def __init__(self, at: Evaluate, direction: Vector, start: LinePoint) -> None:
        self._at, self._direction, self._start = at, direction, start
        self._widest = float(np.abs(direction).max())
        self.evaluations = 0

    def _point(self, length: float) -> LinePoint:
        self.evaluations += 1
        loss, gradient = self._at(length)
        return LinePoint(length, loss, float(gradient @ self._direction), gradient)

    def _too_high(self, point: LinePoint) -> bool:
        return point.loss > self._start.loss + SUFFICIENT * point.length * self._start.slope

    def _is_flat(self, point: LinePoint) -> bool:
        return abs(point.slope) <= -FLATTENED * self._start.slope

    def bracket(self, length: float) -> tuple[LinePoint, LinePoint | None]:
        """Two points with a good one between them, the lower first; or a good one alone."""
        before, point = self._start, self._point(length)
        while True:
            if self._too_high(point) or (self.evaluations > 1 and point.loss >= before.loss):
                return (before, point) if before.loss <= point.loss else (point, before)
            if self._is_flat(point):
                return point, None
            if point.slope >= 0:
                return (before, point) if before.loss <= point.loss else (point, before)
            if self.evaluations >= _LIMIT:
                return (self._start, point) if self._start.loss <= point.loss else (point, self._start)
            least = point.length + 0.01 * (point.length - before.length)
            further = cubic_minimum(before, point, least, point.length * 10)
            before, point = point, self._point(further)

    def zoom(self, low: LinePoint, high: LinePoint) -> LinePoint:
        """Narrow two points down to a good one."""
        stuck = False
        while self.evaluations < _LIMIT:
            left, right = sorted((low.length, high.length))
            if (right - left) * self._widest < _TOLERANCE:
                break
            length = cubic_minimum(low, high, left, right)
            margin = 0.1 * (right - left)
            if min(right - length, length - left) < margin:
                if stuck or length >= right or length <= left:
                    length = right - margin if abs(length - right) < abs(length - left) else left + margin
                    stuck = False
                else:
                    stuck = True
            else:
                stuck = False
            point = self._point(length)
            if self._too_high(point) or point.loss >= low.loss:
                high = point
                if high.loss < low.loss:
                    low, high = high, low
                continue
            if self._is_flat(point):
                return point
            if point.slope * (high.length - low.length) >= 0:
                high = low
            low = point
        return low


def cubic_minimum(one: LinePoint, other: LinePoint, least: float, most: float) -> float:
    """Where the cubic through two points with their slopes is lowest, within bounds; their middle if nowhere."""
    left, right = (one, other) if one.length <= other.length else (other, one)
    if right.length == left.length:
        return (least + most) / 2
    d1 = left.slope + right.slope - 3 * (left.loss - right.loss) / (left.length - right.length)
    square = d1 * d1 - left.slope * right.slope
    if not square >= 0:
        return (least + most) / 2
    d2 = square**0.5
    width = right.length - left.length
    spread = right.slope - left.slope + 2 * d2
    if spread == 0:
        return (least + most) / 2
    return min(max(right.length - width * (right.slope + d2 - d1) / spread, least), most)
