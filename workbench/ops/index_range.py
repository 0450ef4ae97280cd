"""Labels and indices are data: a wrong one has to be reported before it reads or writes somewhere else."""

from __future__ import annotations

from typing import Any

from workbench.errors import InvalidArgument


class OutOfRange(InvalidArgument):
    """An index or label names nothing.

    Attributes:
        position: where it stands in the array of indices. value: what it is.
    """

    position: tuple[int, ...] = ()
    value = 0


def require_in_range(xp: Any, what: str, index: Any, size: int, ignore: int | None = None) -> None:
    """Check that every entry of an integer array lies in [0, size).

    Args:
        what: who asks and for what, e.g. `"embedding: id"`.
        index: integer array of any shape.
        size: one more than the largest allowed entry.
        ignore: one further value that is allowed.

    Raises:
        OutOfRange: naming the first wrong value, its position and the allowed range.
    """
    if not index.size or (int(index.min()) >= 0 and int(index.max()) < size):
        return
    wrong = (index < 0) | (index >= size)
    if ignore is not None:
        wrong = wrong & (index != ignore)
        if not bool(wrong.any()):
            return
    position = tuple(int(i) for i in xp.argwhere(wrong)[0])
    also = "" if ignore is None else f", or {ignore} (ignored)"
    error = OutOfRange(
        f"{what} {int(index[position])} at position {list(position)} is out of range\n"
        f"  expected: an integer in [0, {size}){also}\n"
        f"  got:      {int(index[position])}"
    )
    error.position, error.value = position, int(index[position])
    raise error
