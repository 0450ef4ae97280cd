"""Kernels of sparse gradients: what tells how many rows there are says no more than there is room for."""

from __future__ import annotations

from typing import Any

from workbench.runtime.reach.declare import FLOAT, WORD, reaches
from workbench.runtime.words.rows import DIGITS


@reaches("ids", "g", "numbers", "values", "counted")
def rows_of(
    ids: Any, g: Any, numbers: Any, values: Any, counted: Any, count: int, height: int, width: int, padding: int
) -> Any:  # fmt: skip
    values_bytes = FLOAT * count * width
    return WORD * count, values_bytes, WORD * count, values_bytes, WORD


@reaches("numbers", "values", "counted", "to_numbers", "to_values", "to_counted")
def join_rows(
    numbers: Any, values: Any, counted: Any, to_numbers: Any, to_values: Any, to_counted: Any, is_first: int,
    most: int, room: int, width: int,
) -> Any:  # fmt: skip
    return WORD * most, FLOAT * most * width, WORD, WORD * room, FLOAT * room * width, WORD


@reaches("numbers", "values", "counted", "order", "other", "tally", "merged", "sums", "kept")
def merge_rows(
    numbers: Any, values: Any, counted: Any, order: Any, other: Any, tally: Any, merged: Any, sums: Any, kept: Any,
    most: int, width: int,
) -> Any:  # fmt: skip
    many, much = WORD * most, FLOAT * most * width
    return many, much, WORD, many, many, WORD * DIGITS, many, much, WORD


@reaches("values", "numbers", "counted", "out")
def put_rows(values: Any, numbers: Any, counted: Any, out: Any, most: int, height: int, width: int) -> Any:
    return FLOAT * most * width, WORD * most, WORD, FLOAT * height * width
