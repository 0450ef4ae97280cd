"""What is said about the rows of a feed: that those of two do not match, and where in the whole batch a bad one is.

An op knows neither: it sees its inputs on one device.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from workbench.errors import EnforceNotMet, InvalidArgument, add_line
from workbench.executors.feeding.feed_plan import Fed
from workbench.framework.notice import tell
from workbench.framework.program.program import Program
from workbench.framework.program.reading.sized_block import SizedBlock
from workbench.graph.ssa import values_of

T = TypeVar("T")


def note_rows(error: InvalidArgument, program: Program, rows: Mapping[str, int]) -> None:
    """Say so if feeds whose number of rows is free came with different ones.

    Args:
        rows: how many of every feed, on all devices together.
    """
    free = _free(program, rows)
    if len(set(free.values())) > 1:
        listed = ", ".join(f"{name!r} {count}" for name, count in free.items())
        add_line(error, f"the feeds have different numbers of rows: {listed}")


def tell_rows_apart(program: Program, rows: Mapping[str, Sequence[int]]) -> None:
    """Say so if feeds are split in different proportions, where no op may notice.

    Of 4 images and 3 labels two devices get 2 and 2 of one, 1 and 2 of the other: the first device's label is
    broadcast. Of 4 images and 64 rows of tokens they get 2 and 2, 32 and 32: each what belongs to its images.

    Args:
        rows: how many of every feed each device gets.
    """
    free = list(_free(program, rows).items())
    for (first, sizes), (other, others) in pairwise(free):
        if any(sizes[0] * other_size != others[0] * size for size, other_size in zip(sizes, others, strict=True)):
            tell(
                f"{first!r} is split into {list(sizes)} rows and {other!r} into {list(others)}: rows that belong "
                "together are on different devices; feed batches of one size, or a list of dicts, one per device"
            )
            return
    _tell_broadcast(program, rows)


def _tell_broadcast(program: Program, rows: Mapping[str, Sequence[int]]) -> None:
    """Say so if every device takes its rows, and one device would refuse them all.

    Of 6 rows and 2 two devices get 3 and 1 each: added up, the one is broadcast, as in Paddle's ParallelExecutor.
    """
    free = _free(program, rows)
    ones = [name for name, sizes in free.items() if len(sizes) > 1 and set(sizes) == {1}]
    more = [name for name, sizes in free.items() if max(sizes, default=0) > 1]
    if not ones or not more:
        return
    if _refusal(program, {name: sum(sizes) for name, sizes in free.items()}) is None:
        return
    if any(_refusal(program, dict(zip(free, sizes, strict=True))) for sizes in zip(*free.values(), strict=True)):
        return  # the step says so itself
    first, other = more[0], ones[0]
    tell(
        f"{first!r} has {sum(free[first])} rows and {other!r} {len(free[other])}, one per device, which is broadcast "
        "there: one device would refuse them; feed batches of one size, or a list of dicts, one per device"
    )


def _refusal(program: Program, rows: Mapping[str, int]) -> EnforceNotMet | None:
    """What an op says where feeds have so many rows."""
    block = program.global_block()
    specs = {name: block.spec(name) for name in rows}
    try:
        SizedBlock(block, {name: spec.with_shape((rows[name], *spec.shape[1:])) for name, spec in specs.items()})
    except EnforceNotMet as error:
        return error
    return None


def _free(program: Program, rows: Mapping[str, T]) -> dict[str, T]:
    """Of feeds whose number of rows is free."""
    block = program.global_block()
    return {name: count for name, count in rows.items() if (block.var(name).shape or (0,))[0] < 0}


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
