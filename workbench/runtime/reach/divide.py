"""How a row of a kernel divides into blocks: rows of the same kernel that together do the same, in any order.

    @divides("rows", x=(FLOAT, "width"), out=(FLOAT,))
    @reaches("x", "out")
    def sum_rows(x, out, rows, width, count): ...

says that rows of `sum_rows` divide along `rows`, and that from one to the next `x` moves by `4 * width` bytes and `out`
by 4; what is not named stays where it is. It promises that bits do not depend on how a row is divided.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

from workbench.runtime.reach.declare import REACHES

Factor = int | str  # a number, or the parameter that holds it
_FINE = 3  # units per block, where blocks differ by one


class Move(NamedTuple):
    """A pointer, and how many bytes it moves from one to the next: a number times some arguments."""

    pointer: int
    number: int
    factors: tuple[int, ...]


class Division(NamedTuple):
    """A dimension along which rows of a kernel divide.

    Attributes:
        along: the argument that is its size. unit: blocks begin at multiples of that.
        own: pointers to memory for temporaries: what runs at the same time needs its own.
    """

    along: int
    unit: int
    moves: tuple[Move, ...]
    own: tuple[int, ...]


DIVISIONS: dict[str, list[Division]] = {}


def divides(
    along: str, unit: int = 1, own: Sequence[str] = (), **moves: tuple[Factor, ...]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare that rows of a kernel divide along a parameter; of several declarations the lowest is preferred.

    Args:
        moves: by parameter, the factors of the bytes from one to the next.
        own: parameters that point to memory for temporaries.
    """

    def note(extents: Callable[..., Any]) -> Callable[..., Any]:
        at = REACHES[extents.__name__].parameters.index
        moved = tuple(_move(at(name), factors, at) for name, factors in moves.items())
        DIVISIONS.setdefault(extents.__name__, []).append(Division(at(along), unit, moved, tuple(map(at, own))))
        return extents

    return note


def _move(pointer: int, factors: Sequence[Factor], at: Callable[[str], int]) -> Move:
    numbers, names = [f for f in factors if isinstance(f, int)], [f for f in factors if isinstance(f, str)]
    return Move(pointer, prod(numbers), tuple(map(at, names)))


def borders(size: Any, unit: int, most: int) -> list[Any]:
    """Where at most so many blocks of a size begin, at multiples of the unit, and where the last one ends.

    There are fewer where some of them would have much more to do than others.
    """
    units = (size + unit - 1) // unit
    while most > 1 and not (units >= _FINE * most or (type(units) is int and units and units % most == 0)):
        most -= 1
    return [0, *(unit * (units * number // most) for number in range(1, most)), size]
