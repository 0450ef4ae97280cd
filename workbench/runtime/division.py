"""How a row of a kernel divides into blocks: rows of the same kernel that together do the same, in any order.

A kernel names the dimensions along which its rows divide; how far pointers move from one block to the next follows from
the shapes that it declares for them. It promises that bits do not depend on how a row is divided, and that of data the
kernel declines the calls of the op say what is wrong: they do not do them either.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

Function = Callable[[str], Callable[..., Any]]


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


def divisions_of(declared: Sequence[Mapping[str, Any]], function: Function) -> list[Division]:
    """The divisions a kernel declares.

    Args:
        function: makes a function of the arguments of an expression of them.
    """
    return [_division(one, function) for one in declared]


def _division(one: Mapping[str, Any], function: Function) -> Division:
    at, word, least = one["at"], one["word"], one["least"]
    unit = _of_all(function(one["unit"]))
    moves = tuple((index, _of_all(function(distance))) for index, distance in one["moves"])
    if word is None:
        return Division(lambda arguments: arguments[at], lambda _, size: size, at, unit, lambda _: least, moves)

    def sized(arguments: Sequence[Any], size: int) -> Any:
        table = arguments[at].copy()
        table[word] = size
        return table

    return Division(lambda arguments: int(arguments[at][word]), sized, at, unit, unit, moves)


def _of_all(function: Callable[..., Any]) -> Callable[[Sequence[Any]], Any]:
    return lambda arguments: function(*arguments)


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
