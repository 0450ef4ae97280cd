"""Numbers that depend on sizes nobody knows yet: planning and lowering compute with them as with whole numbers.

    sizes = Sizes()
    n = sizes.unknown(40)          # 40 is the example the plan is made with
    rows = 8 * n                   # a polynomial, 8 n
    if rows > 64: ...              # decided as the example has it, and noted: "8 n - 65 >= 0"
    Formulas([rows, n * n])([50])  # [400, 2500]

What is decided by comparing goes by the example; unless it is so for all sizes, it is noted as a condition. A number
that leaves for code that takes nothing but whole numbers becomes its example, and that it is this one is a condition,
too. So everything found out is right for other sizes, as long as the conditions hold for them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np

Term = tuple[int, ...]  # the unknowns that are multiplied, by number, in order
Number = Any  # an int, or a Size
_LEAST = 2  # of an unknown dimension: 0 and 1 go other ways, and are planned as they are


class Unsettled(Exception):
    """Something has to be known that is not: which of two pieces of memory comes first."""


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
        turn: of an address, where a piece of memory begins: when that is needed.
    """

    example: int
    least: int
    unit: int = 1
    quotient: tuple[Number, Number] | None = None
    turn: Turn | None = None


class Condition(NamedTuple):
    """What was decided: whether a number is less than 0, or is 0."""

    number: Size
    kind: str
    holds: bool


class Sizes:
    """The unknowns of one plan, and what was decided about them.

    Attributes:
        unknowns: by number. conditions: in the order in which they were met.
        had_to_be_known: whether a number had to become its example.
    """

    def __init__(self) -> None:
        self.unknowns: list[Unknown] = []
        self.had_to_be_known = False
        self._conditions: dict[tuple[str, frozenset[tuple[Term, int]]], Condition] = {}
        self._quotients: dict[Any, Size] = {}

    def unknown(self, example: int) -> Size:
        """A dimension; it is 2 or more."""
        return self._new(Unknown(example, _LEAST))

    def address(self, unit: int, turn: Turn) -> Size:
        """Where a piece of memory begins, a multiple of some unit."""
        return self._new(Unknown(0, 0, unit, None, turn))

    def address_in(self, number: Size) -> int | None:
        """Which address is part of a number, None if none is."""
        return next((n for term in number.terms for n in term if self.unknowns[n].turn is not None), None)

    def _new(self, unknown: Unknown) -> Size:
        self.unknowns.append(unknown)
        return Size(self, {(len(self.unknowns) - 1,): 1}, unknown.example)

    def quotient(self, dividend: Number, divisor: Number) -> Size:
        """What is left of a division that does not come out even."""
        if any(type(n) is Size and self.address_in(n) is not None for n in (dividend, divisor)):
            raise Unsettled(f"{dividend} // {divisor} has to be known")
        key = dividend, divisor
        if key not in self._quotients:
            example = example_of(dividend) // example_of(divisor)
            never_negative = least_of(dividend) is not None and least_of(divisor) is not None
            low = _low_quotient(dividend, divisor) if never_negative else None
            self._quotients[key] = self._new(Unknown(example, low if low is not None else -(1 << 62), 1, key))
        return self._quotients[key]

    @property
    def conditions(self) -> list[Condition]:
        return list(self._conditions.values())

    def decide(self, number: Size, kind: str) -> bool:
        """As the example has it; noted."""
        if self.address_in(number) is not None:
            raise Unsettled(f"{number} has to be known")
        holds = number.example < 0 if kind == "<" else number.example == 0
        key = kind, frozenset(number.terms.items())
        self._conditions.setdefault(key, Condition(number, kind, holds))
        return holds


def _low_quotient(dividend: Number, divisor: Number) -> int | None:
    least = least_of(dividend)
    if least is None or least < 0:
        return None
    return least // divisor if type(divisor) is int else 0


def overlap(a: tuple[Number, Number], b: tuple[Number, Number]) -> bool:
    """Whether two stretches of memory, each from its first byte to the one past its last, may have a byte in common."""
    if type(a[0]) is int and type(b[0]) is int:
        return bool(a[0] < b[1] and b[0] < a[1])
    ours, others = (None if type(begin) is int else begin.sizes.address_in(begin) for begin, _ in (a, b))
    if ours != others:
        if ours is None or others is None:
            return False  # what has an address already is no part of an arena
        unknowns = (a[0] if type(a[0]) is Size else b[0]).sizes.unknowns
        return bool(unknowns[ours].turn.may_meet(unknowns[others].turn))
    return bool(a[0] < b[1] and b[0] < a[1])


def example_of(number: Number) -> int:
    """What a number is in the example."""
    return number.example if type(number) is Size else int(number)


def least_of(number: Number) -> int | None:
    """A bound it is never below, if one is known."""
    return number if type(number) is int else number.least


class Size:
    """A whole number that depends on unknowns: a polynomial with whole coefficients."""

    __slots__ = ("_hash", "_least", "example", "sizes", "terms")
    __array_ufunc__ = None  # beside numbers of NumPy it is Python that computes

    def __init__(self, sizes: Sizes, terms: dict[Term, int], example: int) -> None:
        self.sizes, self.terms, self.example = sizes, terms, example
        self._hash: int | None = None
        self._least: int | str | None = ""

    # Arithmetic

    def __add__(self, other: Number) -> Number:
        if type(other) is Size:
            return self._sum(other.terms, self.example + other.example)
        if not isinstance(other, int | np.integer):
            return self._as_int() + other
        return self._sum({(): int(other)}, self.example + int(other)) if other else self

    __radd__ = __add__

    def _sum(self, more: Mapping[Term, int], example: int) -> Number:
        terms = self.terms.copy()
        for term, count in more.items():
            total = terms.get(term, 0) + count
            if total:
                terms[term] = total
            else:
                terms.pop(term, None)
        return _number(self.sizes, terms, example)

    def __neg__(self) -> Size:
        return Size(self.sizes, {term: -count for term, count in self.terms.items()}, -self.example)

    def __sub__(self, other: Number) -> Number:
        return self + -other

    def __rsub__(self, other: Number) -> Number:
        return -self + other

    def __mul__(self, other: Number) -> Number:
        if isinstance(other, int | np.integer):
            factor = int(other)
            if factor == 1 or not factor:
                return self if factor else 0
            return Size(self.sizes, {t: n * factor for t, n in self.terms.items()}, self.example * factor)
        if type(other) is not Size:
            return self._as_int() * other
        terms: dict[Term, int] = {}
        for a, count_a in self.terms.items():
            for b, count_b in other.terms.items():
                term = tuple(sorted(a + b))
                terms[term] = terms.get(term, 0) + count_a * count_b
        return _number(self.sizes, {t: n for t, n in terms.items() if n}, self.example * other.example)

    __rmul__ = __mul__

    def __floordiv__(self, divisor: Number) -> Number:
        if type(divisor) is int:
            if divisor <= 0:
                return (-self) // -divisor
            even = {term: count // divisor for term, count in self.terms.items() if count % divisor == 0}
            rest = {term: count for term, count in self.terms.items() if count % divisor}
            value = sum(count * divisor * self._value(term) for term, count in even.items())
            quotient: Number = _number(self.sizes, even, value // divisor)
            if rest:
                left = _number(self.sizes, rest, self.example - value)
                quotient += left // divisor if type(left) is int else _rounded_down(left, divisor)
            return quotient
        exact = _divided(self, divisor)
        return self.sizes.quotient(self, divisor) if exact is None else exact

    def _value(self, term: Term) -> int:
        return prod(self.sizes.unknowns[n].example for n in term)

    def __rfloordiv__(self, dividend: Number) -> Number:
        return self.sizes.quotient(dividend, self)

    def __mod__(self, divisor: Number) -> Number:
        if type(divisor) is int:
            unknowns = self.sizes.unknowns
            rest = {t: n for t, n in self.terms.items() if n * prod(unknowns[k].unit for k in t) % divisor}
            left = _number(self.sizes, rest, sum(n * self._value(t) for t, n in rest.items()))
            return left % divisor if type(left) is int else left - left // divisor * divisor
        return self - self // divisor * divisor

    def __rmod__(self, dividend: Number) -> Number:
        return dividend - self.sizes.quotient(dividend, self) * self

    def __divmod__(self, divisor: Number) -> tuple[Number, Number]:
        return self // divisor, self % divisor

    def __pow__(self, exponent: int) -> Number:
        return prod([self] * exponent)

    def __abs__(self) -> Number:
        return -self if self < 0 else self

    # What becomes a whole number

    def _as_int(self) -> int:
        """The example; that it is this one is a condition from now on."""
        self.sizes.had_to_be_known = True
        self.sizes.decide(self - self.example, "=")
        return self.example

    def __index__(self) -> int:
        return self._as_int()

    __int__ = __index__

    def __float__(self) -> float:
        return float(self._as_int())

    def __truediv__(self, other: Any) -> Any:
        return self._as_int() / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / self._as_int()

    # Comparisons

    @property
    def least(self) -> int | None:
        """A bound it is never below, None if none is seen."""
        if isinstance(self._least, str):
            self._least = _least(self)
        return self._least

    def _is_negative(self) -> bool:
        least = self.least
        if least is not None and least >= 0:
            return False
        most = (-self).least
        if most is not None and most > 0:
            return True
        return self.sizes.decide(self, "<")

    def __lt__(self, other: Number) -> bool:
        difference = self - other
        return difference < 0 if type(difference) is int else difference._is_negative()

    def __gt__(self, other: Number) -> bool:
        difference = other - self
        return difference < 0 if type(difference) is int else difference._is_negative()

    def __le__(self, other: Number) -> bool:
        return not self > other

    def __ge__(self, other: Number) -> bool:
        return not self < other

    def __eq__(self, other: object) -> bool:
        if type(other) is not Size and not isinstance(other, int):
            return other is not None and not isinstance(other, str) and bool(self._as_int() == other)
        difference = self - other
        if type(difference) is int:
            return difference == 0
        if self.sizes.address_in(difference) is not None:
            return False  # in different pieces of memory
        least, most = difference.least, (-difference).least
        if (least is not None and least > 0) or (most is not None and most > 0):
            return False
        return self.sizes.decide(difference, "=")

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(self.terms.items()))
        return self._hash

    def __bool__(self) -> bool:
        return self != 0

    def __repr__(self) -> str:
        return str(self.example)

    def __format__(self, form: str) -> str:
        return format(self.example, form)

    @property
    def formula(self) -> str:
        """The polynomial as text."""
        return " + ".join(f"{count} {' '.join(f'n{n}' for n in term)}".strip() for term, count in self.terms.items())


def _number(sizes: Sizes, terms: dict[Term, int], example: int) -> Number:
    if not terms:
        return 0
    if len(terms) == 1 and () in terms:
        return terms[()]
    return Size(sizes, terms, example)


def _rounded_down(dividend: Size, divisor: int) -> Number:
    """The quotient of what does not come out even; of no negative numbers, of which more is known."""
    if ((-dividend).least or -1) >= 0:
        return -((divisor - 1 - dividend) // divisor)
    return dividend.sizes.quotient(dividend, divisor)


def _divided(dividend: Size, divisor: Number) -> Number | None:
    """The quotient if the divisor is one term, at least 1, and goes into every one of the dividend's."""
    if type(divisor) is not Size or len(divisor.terms) != 1 or (divisor.least or 0) < 1:
        return None
    ((by, count_by),) = divisor.terms.items()
    terms: dict[Term, int] = {}
    for term, count in dividend.terms.items():
        left = _without(term, by)
        if left is None or count % count_by:
            return None
        terms[left] = count // count_by
    return _number(dividend.sizes, terms, dividend.example // divisor.example)


def _without(term: Term, part: Term) -> Term | None:
    """A product without some of its factors; None if it does not have them."""
    left = list(term)
    for n in part:
        if n not in left:
            return None
        left.remove(n)
    return tuple(left)


def _least(size: Size) -> int | None:
    """A lower bound: every term that is taken away is set against larger ones that contain it."""
    unknowns = size.sizes.unknowns
    if any(unknowns[n].least < 0 for term in size.terms for n in term):
        return None
    added = {term: count for term, count in size.terms.items() if count > 0 and term}
    for term, count in sorted(size.terms.items(), key=lambda item: -len(item[0])):
        if count > 0 or not term:
            continue
        missing = -count
        for larger in added:
            rest = _without(larger, term)
            times = prod(unknowns[n].least for n in rest) if rest is not None else 0
            if times and missing > 0:
                used = min(added[larger], -(-missing // times))
                added[larger] -= used
                missing -= used * times
        if missing > 0:
            return None
    return size.terms.get((), 0) + sum(n * prod(unknowns[k].least for k in t) for t, n in added.items())


class Formulas:
    """Many numbers that are worked out at once.

    Args:
        sizes: whose unknowns they depend on. numbers: ints and Sizes.
    """

    def __init__(self, sizes: Sizes, numbers: Sequence[Number]) -> None:
        terms: dict[Term, int] = {}
        counts: list[int] = []
        columns: list[int] = []
        starts: list[int] = []
        for number in numbers:
            starts.append(len(counts))
            for term, count in (number.terms if type(number) is Size else {(): int(number)}).items():
                columns.append(terms.setdefault(term, len(terms)))
                counts.append(count)
        self._counts, self._columns = np.array(counts, np.int64), np.array(columns, np.intp)
        self._starts = np.array(starts, np.intp)
        factors = max(map(len, terms), default=0)  # 1, which is behind all unknowns, fills shorter products up
        padded = [(*term, *[len(sizes.unknowns)] * (factors - len(term))) for term in terms]
        self._terms = np.array(padded, np.intp).reshape(len(terms), factors)

    def __call__(self, unknowns: Sequence[int]) -> np.ndarray:
        """int64, one for every number.

        Args:
            unknowns: what they are, by number.
        """
        if not len(self._starts):
            return np.zeros(0, np.int64)
        values = np.array([*unknowns, 1], np.int64)[self._terms].prod(axis=1, dtype=np.int64)
        return np.add.reduceat(self._counts * values[self._columns], self._starts)


class Conditions:
    """Whether what was decided for the example is right for other sizes."""

    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        conditions = sizes.conditions
        self._formulas = Formulas(sizes, [c.number for c in conditions])
        self._less = np.array([c.kind == "<" for c in conditions], bool)
        self._holds = np.array([c.holds for c in conditions], bool)

    @cached_property
    def _quotients(self) -> list[tuple[int, Number, Number]]:
        unknowns = enumerate(self.sizes.unknowns)
        return [(n, *unknown.quotient) for n, unknown in unknowns if unknown.quotient is not None]

    def complete(self, given: Mapping[int, int]) -> list[int]:
        """All unknowns, from those that come from outside; where memory begins is 0."""
        values = [given.get(n, 0) for n in range(len(self.sizes.unknowns))]
        for n, dividend, divisor in self._quotients:
            values[n] = at(dividend, values) // at(divisor, values)
        return values

    def hold(self, values: Sequence[int]) -> bool:
        """Whether all that was decided is right for these unknowns."""
        least = all(values[n] >= u.least for n, u in enumerate(self.sizes.unknowns) if u.quotient is None)
        if not least or not len(self._less):
            return least
        numbers = self._formulas(values)
        return bool((np.where(self._less, numbers < 0, numbers == 0) == self._holds).all())


def at(number: Number, values: Sequence[int]) -> int:
    """What a number is for these unknowns."""
    if type(number) is not Size:
        return int(number)
    total: int = sum(count * prod([values[n] for n in term]) for term, count in number.terms.items())
    return total
