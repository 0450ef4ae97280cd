"""Long series in little memory: buckets of equally many values, whose width doubles whenever there are too many."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workbench.notebook.messages import Message, column

LIMIT = 2000  # buckets; even


class Buckets:
    """Mean, lowest and highest of every `width` values of a series that grows.

    A NaN makes the mean of its bucket NaN; the lowest and highest are those of the numbers.

    Attributes:
        taken: values so far; broken: the number, from 1, of the first that is NaN or infinite, None if none is.

    Args:
        limit: at most so many buckets, an even number.
    """

    def __init__(self, limit: int = LIMIT) -> None:
        self.width, self.taken = 1, 0
        self.broken: int | None = None
        self._limit, self._count = limit, 0
        self._columns = np.zeros((3, limit), np.float64)
        self._pending = np.zeros(0, np.float64)

    def add(self, values: Sequence[float] | np.ndarray) -> None:
        """Go on with these values."""
        new = np.asarray(values, np.float64)
        if self.broken is None and not (finite := np.isfinite(new)).all():
            self.broken = self.taken + int(np.argmin(finite)) + 1
        self._pending = np.concatenate([self._pending, new])
        self.taken += len(values)
        while len(self._pending) >= self.width:
            if self._count == self._limit:
                self._halve()
                continue
            filled = min(len(self._pending) // self.width, self._limit - self._count)
            whole, self._pending = np.split(self._pending, [filled * self.width])
            self._append(_summed_up(whole.reshape(filled, self.width)))

    def _append(self, columns: np.ndarray) -> None:
        end = self._count + columns.shape[1]
        self._columns[:, self._count : end] = columns
        self._count = end

    def _halve(self) -> None:
        """Join neighbours."""
        pairs = self._columns.reshape(3, self._limit // 2, 2)
        joined = [pairs[0].mean(1), np.fmin.reduce(pairs[1], 1), np.fmax.reduce(pairs[2], 1)]
        self._count, self.width = self._limit // 2, self.width * 2
        self._columns[:, : self._count] = joined

    def message(self) -> Message:
        """Columns: `step` is the number of the bucket's last value, counted from 1; the newest may be incomplete."""
        steps, *columns = self.columns()
        mean, low, high = (column(values, "float32") for values in columns)
        return {"step": column(steps, "float64"), "mean": mean, "low": low, "high": high, "broken": self.broken}

    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Steps, means, lowest and highest, as in the message."""
        columns = self._columns[:, : self._count]
        steps = np.arange(1, self._count + 1) * self.width
        if len(self._pending):
            columns = np.concatenate([columns, _summed_up(self._pending[np.newaxis])], axis=1)
            steps = np.append(steps, self.taken)
        return steps, columns[0], columns[1], columns[2]


def _summed_up(rows: np.ndarray) -> np.ndarray:
    return np.stack([rows.mean(1), np.fmin.reduce(rows, 1), np.fmax.reduce(rows, 1)])


class Points:
    """Rows of numbers over the steps; of too many, every four of the older half become their lowest and highest.

    Args:
        width: numbers in a row. limit: at most so many rows.
    """

    def __init__(self, width: int, limit: int = LIMIT) -> None:
        self.rows: list[tuple[float, ...]] = []
        self.width, self._limit = width, limit

    def add(self, *row: float) -> None:
        """One more row."""
        assert len(row) == self.width
        self.rows.append(row)
        if len(self.rows) > self._limit:
            half = len(self.rows) // 2
            fours = (self.rows[k : min(k + 4, half)] for k in range(1, half, 4))
            self.rows[1:half] = [row for four in fours for row in _extremes(four)]

    def columns(self) -> np.ndarray:
        """Of shape (width, rows)."""
        return np.asarray(self.rows, np.float64).reshape(-1, self.width).T


def _extremes(rows: list[tuple[float, ...]]) -> list[tuple[float, ...]]:
    """The lowest and the highest, in their order: a sawtooth stays one."""
    if len(rows) < 4:
        return rows[1::2]
    height = [sum(row[1:]) for row in rows]
    low, high = height.index(min(height)), len(rows) - 1 - height[::-1].index(max(height))
    return [rows[k] for k in sorted({low, high})]
