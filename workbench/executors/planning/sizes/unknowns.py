"""What numbers of a plan may depend on: dimensions nobody knows yet, addresses, quotients of such."""

from __future__ import annotations

from typing import Any, NamedTuple

Term = tuple[int, ...]  # the unknowns that are multiplied, by number, in order
Number = Any  # an int, or a Size
LEAST = 2  # of an unknown dimension: 0 and 1 go other ways, and are planned as they are


class Unsettled(Exception):
    """Something has to be known that is not: which of two pieces of memory comes first."""


class Equal(Unsettled):
    """Two dimensions that were thought to be independent have to be equal.

    Attributes:
        unknowns: which ones, by number.
    """

    def __init__(self, first: int, second: int) -> None:
        super().__init__(f"n{first} and n{second} have to be equal")
        self.unknowns = first, second


class Fixed(Unsettled):
    """Dimensions that were thought to be open have to be as they are in the example, or to be what others are.

    Attributes:
        unknowns: which ones, by number.
    """

    def __init__(self, unknowns: frozenset[int]) -> None:
        super().__init__(f"{', '.join(f'n{n}' for n in sorted(unknowns))} have to be as in the example")
        self.unknowns = unknowns


class Turn(NamedTuple):
    """When a piece of memory is needed. Pieces that take turns in one room may lie in the same bytes.

    Attributes:
        room: None: it shares bytes with no other. first, last: from when until when.
    """

    room: Any = None
    first: int = 0
    last: int = 0

    def may_meet(self, other: Turn) -> bool:
        """Whether both may have bytes in common."""
        apart = self.last < other.first or other.last < self.first
        return self.room is not None and self.room == other.room and apart


class Unknown(NamedTuple):
    """What a number may depend on.

    Attributes:
        example: what it is in the example. least: it is never less. unit: it is a multiple of that.
        quotient: of what it is the quotient, rounded down, as (dividend, divisor); None of what comes from outside.
        negative: it is 1 where this is less than 0, else 0; None of what is something else.
        turn: of an address, where a piece of memory begins: when that is needed.
    """

    example: int
    least: int
    unit: int = 1
    quotient: tuple[Number, Number] | None = None
    turn: Turn | None = None
    negative: Number = None

    @property
    def comes_from_outside(self) -> bool:
        """Whether it is a dimension of a feed."""
        return self.quotient is None and self.negative is None and self.turn is None
