"""Rows: the gradient of a table of which only some rows were read.

A dense gradient of an embedding is almost all zeros. `Rows` keeps the rows that were read and their
gradients; a row may occur several times, which means the sum. Paddle calls it SelectedRows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from workbench.errors import InvalidArgument

_TOGETHER = 16  # values of a row


class Patch(NamedTuple):
    """What an update makes of some rows of a table; the others stay.

    Attributes:
        rows: int64 `[k]`, each at most once. values: `[k, ...]`, the rows' new values.
    """

    rows: Any
    values: Any


class Rows:
    """A sparse gradient of shape `[height, ...]`.

    Attributes:
        rows: int64 `[k]`, which row each value belongs to; unsorted, repeats allowed.
        values: `[k, ...]`.
        height: number of rows of the table.

    Raises:
        InvalidArgument: `rows` is not one-dimensional, or its length is not that of `values`.
    """

    __slots__ = ("height", "rows", "values")

    def __init__(self, rows: Any, values: Any, height: int) -> None:
        if len(rows.shape) != 1 or not values.shape or values.shape[0] != rows.shape[0]:
            raise InvalidArgument(
                "rows and values of a sparse gradient do not belong together\n"
                "  expected: rows [k] and values [k, ...]\n"
                f"  got:      rows {list(rows.shape)} and values {list(values.shape)}"
            )
        self.rows, self.values, self.height = rows, values, height

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the dense gradient."""
        return (self.height, *self.values.shape[1:])

    @property
    def ndim(self) -> int:
        return int(self.values.ndim)

    @property
    def dtype(self) -> Any:
        """The NumPy dtype of the values."""
        return self.values.dtype

    @property
    def nbytes(self) -> int:
        """Bytes held, indices included."""
        return int(self.rows.nbytes + self.values.nbytes)

    def astype(self, dtype: Any) -> Rows:
        """The same rows with values of another dtype."""
        return Rows(self.rows, self.values.astype(dtype), self.height)

    def scale(self, factor: Any) -> Rows:
        """Every value times `factor` (a number, or an array of one element), in the same dtype."""
        return Rows(self.rows, (self.values * factor).astype(self.values.dtype), self.height)

    def merge(self, xp: Any) -> Rows:
        """The same gradient with every row once, in ascending order.

        The values of a row are added in the order they occur, so equal inputs give equal bits; float16 and
        bfloat16 are added in float32.

        Raises:
            InvalidArgument: a row lies outside the table.
        """
        if self.rows.shape[0] == 0:
            return self
        order = xp.argsort(self.rows, kind="stable")
        rows = self.rows[order]
        self._require_inside(int(rows[0]), int(rows[-1]))
        first = xp.concatenate([xp.ones(1, bool), rows[1:] != rows[:-1]])
        starts = xp.flatnonzero(first)
        if starts.shape[0] == rows.shape[0]:
            return Rows(rows, self.values[order], self.height)
        values = self.values[order]
        wide = values.astype("float32") if values.dtype.itemsize < 4 else values
        return Rows(rows[starts], _summed(xp, wide, starts).astype(values.dtype), self.height)

    def require_inside(self) -> None:
        """Go on only if all rows are rows of the table.

        Raises:
            InvalidArgument: one is not.
        """
        if self.rows.shape[0]:
            self._require_inside(int(self.rows.min()), int(self.rows.max()))

    def _require_inside(self, low: int, high: int) -> None:
        if low < 0 or high >= self.height:
            wrong = low if low < 0 else high
            raise InvalidArgument(
                f"a sparse gradient has row {wrong}\n  expected: 0 <= row < {self.height}\n  got:      {wrong}"
            )

    def to_dense(self, xp: Any) -> Any:
        """The gradient as an array `[height, ...]`.

        Raises:
            InvalidArgument: a row lies outside the table.
        """
        merged = self.merge(xp)
        dense = xp.zeros(self.shape, self.values.dtype)
        dense[merged.rows] = merged.values
        return dense

    def __repr__(self) -> str:
        return f"Rows({self.rows.shape[0]} of {self.height}, {self.values.dtype}{list(self.values.shape)})"


def _summed(xp: Any, values: Any, starts: Any) -> Any:
    """The sum of every stretch of `values`, added one after the other (`reduceat` would add in pairs).

    The second of all stretches, then the third …; what is long is then summed by itself.
    """
    counts = xp.concatenate([starts[1:], xp.asarray([values.shape[0]])]) - starts
    totals = values[starts]
    for nth in range(1, _TOGETHER):
        more = xp.flatnonzero(counts > nth)
        if more.shape[0] == 0:
            return totals
        totals[more] += values[starts[more] + nth]
    for n in xp.flatnonzero(counts > _TOGETHER).tolist():
        begin = int(starts[n])
        totals[n] = values[begin : begin + int(counts[n])].cumsum(axis=0)[-1]
    return totals


def concat(xp: Any, parts: Sequence[Rows]) -> Rows:
    """The sum of sparse gradients of one table: rows and values one after the other, not merged (G-32).

    Raises:
        InvalidArgument: no part, or parts of tables of different shapes.
    """
    if not parts:
        raise InvalidArgument("the sum of sparse gradients needs at least one")
    if any(p.shape != parts[0].shape for p in parts):
        shapes = " and ".join(str(list(p.shape)) for p in parts)
        raise InvalidArgument(f"sparse gradients to be added belong to tables of different shapes: {shapes}")
    if len(parts) == 1:
        return parts[0]
    return Rows(xp.concatenate([p.rows for p in parts]), xp.concatenate([p.values for p in parts]), parts[0].height)


def add(xp: Any, parts: Sequence[Any]) -> Any:
    """The sum of arrays and sparse gradients in order: sparse if all are, otherwise an array.

    Raises:
        InvalidArgument: no part, or parts of different shapes.
    """
    if all(isinstance(p, Rows) for p in parts):
        return concat(xp, parts)
    total = None
    for part in parts:
        array = part.to_dense(xp) if isinstance(part, Rows) else part
        if total is not None and array.shape != total.shape:
            raise InvalidArgument(
                f"gradients to be added have different shapes: {list(total.shape)} and {list(array.shape)}"
            )
        total = array if total is None else total + array
    return total


def dense(xp: Any, gradient: Any) -> Any:
    """A gradient as an array, sparse or not."""
    return gradient.to_dense(xp) if isinstance(gradient, Rows) else gradient
