"""What an error of a step says about the feed: rows that do not match, and where in the whole batch a bad one is.

An op knows neither: it sees its inputs on one device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.errors import InvalidArgument, add_line
from workbench.executors.feeding.feed_plan import Fed
from workbench.framework.program.program import Program
from workbench.graph.ssa import values_of


def note_rows(error: InvalidArgument, program: Program, rows: Mapping[str, int]) -> None:
    """Say so if feeds whose number of rows is free came with different ones.

    Args:
        rows: how many of every feed, on all devices together.
    """
    block = program.global_block()
    free = {name: count for name, count in rows.items() if (block.var(name).shape or (0,))[0] < 0}
    if len(set(free.values())) > 1:
        listed = ", ".join(f"{name!r} {count}" for name, count in free.items())
        add_line(error, f"the feeds have different numbers of rows: {listed}")


def note_feed(error: InvalidArgument, program: Program, fed: Fed) -> None:
    """The same for a step on several devices; and which row of the batch an index out of range is in."""
    note_rows(error, program, {name: sum(counts) for name, counts in fed.rows.items()})
    position = getattr(error.__cause__, "position", ())
    if not (position and error.node is not None and fed.is_divided):
        return
    for value in values_of(error.node.inputs):
        if value.name in fed.rows and _holds(fed, value, error.__cause__):
            row = sum(fed.rows[value.name][: value.place]) + position[0]
            add_line(error, f"in the whole batch that is row {row} of {value.name!r}")
            return


def _holds(fed: Fed, value: Any, error: Any) -> bool:
    """Whether a fed value is the array in which a position was found."""
    array = fed.per_device[value.place][value.name]
    index: Sequence[int] = error.position
    return array.ndim == len(index) and all(map(int.__lt__, index, array.shape)) and array[tuple(index)] == error.value
