"""The vocabulary of row programs, and their bodies as expressions.

A *row* is what a reduction combines into one number: a vector of class scores, the pixels of a channel. The body of a
row program is written once, with an argument `rows` that offers every scalar function of element-wise bodies
(`rows.exp`, `rows.where`, …), Python's operators, and

    rows.sum(x), rows.mean(x), rows.prod(x), rows.max(x), rows.min(x)   one number per row
    rows.top(x)                                           the largest number; if there is a NaN, that or any other
    rows.count                                            how many elements a row has
    rows.at(label, ignored)                               true at the place of a row that an integer names
    rows.pick(x, label, ignored)                          that element of every row, 0 where the label is ignored
    rows.place(value, label, ignored)                     the value at that place, 0 elsewhere
    rows.across(x)                                        one number per place: the sum over all rows
    rows.running_sum(x), running_prod, running_max, running_min, running_logsumexp
                                                          what there is of a reduction up to every element
    rows.recur(a, b)                                      h with h[k] = a[k] h[k - 1] + b[k], h being 0 in front
    rows.last_place(mask)                                 the last place so far where it is true, 0 before; an integer
    rows.before(x, first), rows.after(x, last)            the elements beside those of an input, and what lies outside

Values of different kinds broadcast: an element with what belongs to its row, to its place in the row, or to all.

What runs along a row does so along one axis, with `reverse=True` from its end on. With `exclusive=True` the element
itself is left out, and the first one gets what the reduction begins with.
"""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple

import numpy as np

from workbench.framework.expr.expr import Expr, Recording, in_order


class Per(Enum):
    """How many numbers a value of a row program has."""

    ELEMENT = "one per element"
    ROW = "one per row"
    PLACE = "one per place in a row"
    ALL = "one"


FOLDS = ("row_sum", "row_prod", "row_max", "row_min", "row_top")
ACROSS = "across_sum"
SUMS, PRODUCTS, LARGEST, SMALLEST = "running_sum", "running_prod", "running_max", "running_min"
RECURRENCE, LAST_PLACE = "recur", "last_place"
SCANS = (SUMS, PRODUCTS, LARGEST, SMALLEST, RECURRENCE, LAST_PLACE)
COUNT, AT, PICK, BESIDE = "row_count", "at_label", "row_pick", "beside"


class ScanWay(NamedTuple):
    """Which way a scan goes, and what every element gets of it: the `value` of its expression."""

    reverse: bool = False
    exclusive: bool = False


class Beside(NamedTuple):
    """How far beside every element another one lies, -1 or 1, and the number that is there at the end of the row."""

    step: int
    outside: float


class RowRecording:
    """A `rows` that builds expressions."""

    count = Expr(COUNT)

    def __getattr__(self, name: str) -> Any:
        return getattr(Recording, name)

    def sum(self, x: Any) -> Expr:
        return _added_up("row_sum", x)

    def mean(self, x: Any) -> Any:
        total: Any = self.sum(x)
        return total / self.count

    def prod(self, x: Any) -> Expr:
        return _added_up("row_prod", x)

    def max(self, x: Any) -> Expr:
        return Expr("row_max", (x,), dtype=x.dtype)

    def min(self, x: Any) -> Expr:
        return Expr("row_min", (x,), dtype=x.dtype)

    def top(self, x: Any) -> Expr:
        return Expr("row_top", (x,), dtype=x.dtype)

    def across(self, x: Any) -> Expr:
        return _added_up(ACROSS, x)

    def running_sum(self, x: Any, reverse: bool = False, exclusive: bool = False) -> Expr:
        return _running(SUMS, ScanWay(reverse, exclusive), x)

    def running_prod(self, x: Any, reverse: bool = False, exclusive: bool = False) -> Expr:
        return _running(PRODUCTS, ScanWay(reverse, exclusive), x)

    def running_max(self, x: Any, reverse: bool = False, exclusive: bool = False) -> Expr:
        return _running(LARGEST, ScanWay(reverse, exclusive), x)

    def running_min(self, x: Any, reverse: bool = False, exclusive: bool = False) -> Expr:
        return _running(SMALLEST, ScanWay(reverse, exclusive), x)

    def running_logsumexp(self, x: Any, reverse: bool = False) -> Any:
        """log(h) above the largest number so far, to which h, a sum of exponentials, is brought down at every step."""
        top: Any = self.running_max(x, reverse)
        before: Any = self.running_max(x, reverse, exclusive=True)
        shrunk, grown = self.where(before == top, 0.0, before - top), self.where(x == top, 0.0, x - top)
        return top + self.log(self.recur(self.exp(shrunk), self.exp(grown), reverse))

    def recur(self, a: Any, b: Any, reverse: bool = False) -> Expr:
        return _running(RECURRENCE, ScanWay(reverse), a, b)

    def last_place(self, mask: Any) -> Expr:
        return Expr(LAST_PLACE, (mask,), ScanWay(), np.int64)

    def before(self, x: Expr, first: float) -> Expr:
        return _beside(x, Beside(-1, first))

    def after(self, x: Expr, last: float) -> Expr:
        return _beside(x, Beside(1, last))

    def at(self, label: Expr, ignored: Expr) -> Expr:
        return Expr(AT, (label, ignored), dtype=bool)

    def pick(self, x: Any, label: Expr, ignored: Expr) -> Expr:
        return Expr(PICK, (x, label, ignored))

    def place(self, value: Any, label: Expr, ignored: Expr) -> Any:
        return Recording.where(self.at(label, ignored), value, 0.0)


def _added_up(function: str, x: Expr) -> Expr:
    """A sum or a product.

    Raises:
        TypeError: of truth values, which NumPy adds up to a truth value.
    """
    if x.dtype == bool:
        raise TypeError("rows.sum, rows.mean, rows.prod and rows.across take numbers: (x > 0).astype(x.dtype)")
    return Expr(function, (x,))


def _running(function: str, way: ScanWay, *operands: Expr) -> Expr:
    """A scan.

    Raises:
        TypeError: of truth values.
    """
    if any(x.dtype == bool for x in operands):
        raise TypeError(f"rows.{function} takes numbers: (x > 0).astype(x.dtype)")
    return Expr(function, operands, way, operands[0].dtype)


def _beside(x: Expr, where: Beside) -> Expr:
    """Another element of an input.

    Raises:
        TypeError: of what is computed, which is nowhere yet.
    """
    if x.function != "input":
        raise TypeError("rows.before and rows.after take inputs as they are")
    return Expr(BESIDE, (x,), where, x.dtype)


def operand(position: int, is_integer: bool) -> Expr:
    """An input of a program."""
    return Expr("input", value=position, dtype=np.int64 if is_integer else np.float32)


def number(name: str, is_integer: bool) -> Expr:
    """An attribute whose value a kernel is told when it runs."""
    return Expr("number", value=name, dtype=np.int64 if is_integer else np.float32)


def kinds_of(results: list[Expr], inputs: tuple[Per, ...]) -> dict[int, Per]:
    """The kind of every part of expressions, by the part's id.

    Args:
        inputs: the kind of every input.
    """
    kinds: dict[int, Per] = {}
    for part in in_order(results):
        kinds[id(part)] = _kind(part, kinds, inputs)
    return kinds


def _kind(part: Expr, kinds: dict[int, Per], inputs: tuple[Per, ...]) -> Per:
    if part.function == "input":
        return inputs[part.value]
    if part.function in (*FOLDS, PICK):
        return Per.ROW
    if part.function == ACROSS:
        return Per.PLACE
    if part.function in (AT, BESIDE, *SCANS):
        return Per.ELEMENT
    met = {kinds[id(arg)] for arg in part.args} - {Per.ALL}
    if not met:
        return Per.ALL
    return met.pop() if len(met) == 1 else Per.ELEMENT
