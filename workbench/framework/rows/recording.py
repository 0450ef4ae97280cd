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

Values of different kinds broadcast: an element with what belongs to its row, to its place in the row, or to all.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

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
COUNT, AT, PICK = "row_count", "at_label", "row_pick"


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
    if part.function == AT:
        return Per.ELEMENT
    met = {kinds[id(arg)] for arg in part.args} - {Per.ALL}
    if not met:
        return Per.ALL
    return met.pop() if len(met) == 1 else Per.ELEMENT
