"""How a row of a kernel divides into blocks: rows of the same kernel that together do the same, in any order.

    @divides("rows", x=(FLOAT, "width"), out=(FLOAT,))
    @reaches("x", "out")
    def sum_rows(x, out, rows, width, count): ...

says that rows of `sum_rows` divide along `rows`, and that from one to the next `x` moves by `4 * width` bytes and `out`
by 4; what is not named stays where it is. It promises that bits do not depend on how a row is divided, and that of data
the kernel declines the calls of the op say what is wrong: they do not do them either.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, NamedTuple

from workbench.runtime.reach.declare import REACHES

Factor = int | str  # a number, or the parameter that holds it
OfTable = Callable[[Any], int]
Declare = Callable[[Callable[..., Any]], Callable[..., Any]]


class Division(NamedTuple):
    """A dimension along which rows of a kernel divide.

    Attributes:
        size: of the arguments of a row, the size of that dimension.
        sized: the argument that tells it, of another size. at: which argument that is.
        unit: of the arguments; blocks begin at multiples of that. least: of the arguments; no block is smaller.
        moves: pointers, and of the arguments, by how many bytes they move from one to the next.
    """

    size: Callable[[Sequence[Any]], Any]
    sized: Callable[[Sequence[Any], Any], Any]
    at: int
    unit: Callable[[Sequence[Any]], int]
    least: Callable[[Sequence[Any]], int]
    moves: tuple[tuple[int, Callable[[Sequence[Any]], Any]], ...]

    def borders(self, arguments: Sequence[Any], most: int, threads: int) -> list[Any]:
        """Where at most so many blocks of a row begin, and where the last one ends."""
        return borders(self.size(arguments), self.unit(arguments), most, threads, self.least(arguments))


DIVISIONS: dict[str, list[Division]] = {}
OWN: dict[str, set[int]] = {}  # by kernel, pointers to memory for temporaries: rows that run at the same time need own


def owns(*pointers: str) -> Declare:
    """Declare which parameters point to memory for temporaries."""

    def note(extents: Callable[..., Any]) -> Callable[..., Any]:
        at = REACHES[extents.__name__].parameters.index
        OWN.setdefault(extents.__name__, set()).update(map(at, pointers))
        return extents

    return note


def divides(along: str, unit: int = 1, least: int = 0, **moves: tuple[Factor, ...]) -> Declare:
    """Declare that rows of a kernel divide along a parameter; of several declarations the lowest is preferred.

    Args:
        unit: where blocks may begin. least: no block is smaller.
        moves: by parameter, the factors of the bytes from one to the next.
    """

    def note(extents: Callable[..., Any]) -> Callable[..., Any]:
        at = REACHES[extents.__name__].parameters.index
        place = at(along)
        moved = tuple((at(name), _product(factors, at)) for name, factors in moves.items())
        division = Division(
            lambda arguments: arguments[place], lambda _, size: size, place, lambda _: unit, lambda _: least, moved
        )
        DIVISIONS.setdefault(extents.__name__, []).append(division)
        return extents

    return note


def divides_by_table(word: int, unit: Factor | OfTable = 1, **moves: OfTable) -> Declare:
    """The same of a kernel that is told its sizes by a table, its first argument.

    Args:
        word: of the table. unit: no block is smaller; a parameter or the table has it where rows differ.
        moves: by parameter, of the table, the bytes from one to the next.
    """

    def sized(arguments: Sequence[Any], size: int) -> Any:
        table = arguments[0].copy()
        table[word] = size
        return table

    def note(extents: Callable[..., Any]) -> Callable[..., Any]:
        at = REACHES[extents.__name__].parameters.index
        moved = tuple((at(name), lambda arguments, of=of: of(arguments[0])) for name, of in moves.items())
        units = _product((unit,), at) if isinstance(unit, Factor) else lambda arguments: unit(arguments[0])
        division = Division(lambda arguments: int(arguments[0][word]), sized, 0, units, units, moved)
        DIVISIONS.setdefault(extents.__name__, []).append(division)
        return extents

    return note


def _product(factors: Sequence[Factor], at: Callable[[str], int]) -> Callable[[Sequence[Any]], Any]:
    number = prod(f for f in factors if isinstance(f, int))
    indexes = [at(f) for f in factors if isinstance(f, str)]
    return lambda arguments: number * prod(arguments[index] for index in indexes)


def borders(size: Any, unit: int, most: int, threads: int, least: int = 0) -> list[Any]:
    """Where at most so many blocks of a size begin, at multiples of the unit, and where the last one ends.

    There are as many for every thread, so that none has more than one unit more to do than others; fewer only where
    units are few.

    Args:
        least: no block is smaller.
    """
    units = (size + unit - 1) // unit
    count = most - most % threads if most > threads else most
    while count > 1 and not (_is_enough(units, count) and _is_enough(size, least * count)):
        count -= threads if count > threads else 1
    return [0, *(unit * (units * number // count) for number in range(1, count)), size]


def _is_enough(size: Any, least: int) -> bool:
    """Whether a size is large enough; one that is open had better be: else blocks are small, or some are empty."""
    return bool(size >= least) if type(size) is int else not least or size.is_preferably_at_least(least)
