"""Kernels, which rows of a tape name, and entries, which Python calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Kernel(NamedTuple):
    """A body and the numba types of its arguments."""

    body: Callable[..., Any]
    types: tuple[Any, ...]


KERNELS: dict[str, Kernel] = {}
ENTRIES: dict[str, Kernel] = {}

Declaration = Callable[[Callable[..., Any]], Callable[..., Any]]


def kernel(*types: Any) -> Declaration:
    """Declare what a row can name, under the function's name.

    Args:
        types: of its arguments, which are the words of the row in order: FLOATS, INTS and BYTES are addresses, INT
            and REAL numbers.

    The body returns a status of `native.words`, DONE if it did its work.
    """
    return _into(KERNELS, types)


def entry(*types: Any) -> Declaration:
    """Declare what Python calls with these arguments; it returns an int64."""
    return _into(ENTRIES, types)


def _into(table: dict[str, Kernel], types: tuple[Any, ...]) -> Declaration:
    def note(body: Callable[..., Any]) -> Callable[..., Any]:
        if body.__name__ in KERNELS or body.__name__ in ENTRIES:
            raise ValueError(f"two kernels are named {body.__name__!r}")
        table[body.__name__] = Kernel(body, types)
        return body

    return note
