"""A number that depends on unknowns, and what was decided about such numbers."""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import prod
from typing import Any, NamedTuple

import numpy as np

from workbench.executors.planning.sizes.polynomials import Polynomial, difference, divided, lower_bound, product, total
from workbench.executors.planning.sizes.unknowns import LEAST, Equal, Fixed, Number, Term, Turn, Unknown, Unsettled


class Condition(NamedTuple):
    """What was decided: whether a number is less than 0, or is 0."""

    number: Size
    kind: str
    holds: bool


class Decided(NamedTuple):
    """How much has been decided so far."""

    unknowns: int
    derived: int
    conditions: int
    preferences: int
    known: int


class Sizes:
    """The unknowns of one plan, and what was decided about them.

    Attributes:
        unknowns: by number.
        had_to_be_known: the numbers that had to become their example.
        results: of arithmetic: most of it is done again and again.
    """

    def __init__(self) -> None:
        self.unknowns: list[Unknown] = []
        self.had_to_be_known: list[Size] = []
        self._conditions: _Conditions = {}
        self._preferences: _Conditions = {}
        self._derived: dict[Any, Size] = {}
        self._numbers: dict[frozenset[tuple[Term, int]], Size] = {}
        self._made = 0
        self.results: dict[tuple[str, int, int], Number] = {}

    def unknown(self, example: int) -> Size:
        """A dimension; it is 2 or more."""
        return self._new(Unknown(example, LEAST))

    def address(self, unit: int, turn: Turn) -> Size:
        """Where a piece of memory begins, a multiple of some unit."""
        return self._new(Unknown(0, 0, unit, None, turn))

    def address_in(self, number: Size) -> int | None:
        """Which address is part of a number, None if none is."""
        if number._address == -1:
            number._address = self._address_in(number.terms)
        return number._address

    def _address_in(self, terms: Polynomial) -> int | None:
        unknowns = self.unknowns
        for term in terms:
            for n in term:
                if unknowns[n].turn is not None:
                    return n
        return None

    def _new(self, unknown: Unknown) -> Size:
        self.unknowns.append(unknown)
        return self.number({(len(self.unknowns) - 1,): 1}, unknown.example)

    def number(self, terms: dict[Term, int], example: int) -> Size:
        """The number with these terms: there is one."""
        key = frozenset(terms.items())
        number = self._numbers.get(key)
        if number is None:
            self._made += 1
            number = self._numbers[key] = Size(self, terms, example, self._made, hash(key))
        return number

    def quotient(self, dividend: Number, divisor: Number) -> Size:
        """What is left of a division that does not come out even."""
        if any(type(n) is Size and self.address_in(n) is not None for n in (dividend, divisor)):
            raise Unsettled(f"{dividend} // {divisor} has to be known")
        key = dividend, divisor
        if key not in self._derived:
            example = example_of(dividend) // example_of(divisor)
            never_negative = least_of(dividend) is not None and least_of(divisor) is not None
            low = _low_quotient(dividend, divisor) if never_negative else None
            self._derived[key] = self._new(Unknown(example, low if low is not None else -(1 << 62), 1, key))
        return self._derived[key]

    def negative(self, number: Size) -> Size:
        """1 where a number is less than 0, else 0: nothing is decided, both are right."""
        if self.address_in(number) is not None:
            raise Unsettled(f"whether {number} is negative has to be known")
        key = "negative", number
        if key not in self._derived:
            self._derived[key] = self._new(Unknown(int(number.example < 0), 0, negative=number))
        return self._derived[key]

    @property
    def conditions(self) -> list[Condition]:
        """What has to be so, in the order in which it was decided."""
        return list(self._conditions.values())

    @property
    def preferences(self) -> list[Condition]:
        """What had better be so: otherwise another plan would be quicker, and compute the same."""
        return list(self._preferences.values())

    @property
    def decided(self) -> Decided:
        """What to go back to."""
        return Decided(
            len(self.unknowns), len(self._derived), len(self._conditions), len(self._preferences),
            len(self.had_to_be_known),
        )  # fmt: skip

    def require_open(self) -> None:
        """What was decided leaves all dimensions open.

        Raises:
            Fixed: some number has to be equal to another.
        """
        numbers = [condition.number for condition in self.conditions if condition.kind == "=" and condition.holds]
        dims = frozenset[int]().union(*map(self._dims_in, numbers))
        if numbers:
            raise Fixed(dims) if dims else Unsettled(f"{numbers[0].formula} has to be 0")

    def _dims_in(self, number: Number) -> frozenset[int]:
        """The dimensions of feeds that a number depends on, if only by way of quotients."""
        if type(number) is not Size:
            return frozenset()
        unknowns = {n: self.unknowns[n] for term in number.terms for n in term}
        parts = [part for unknown in unknowns.values() for part in (*(unknown.quotient or ()), unknown.negative)]
        dims = {n for n, unknown in unknowns.items() if unknown.comes_from_outside}
        return frozenset(dims).union(*map(self._dims_in, parts))

    def go_back(self, decided: Decided) -> None:
        """What was decided since then is not so: nothing has been made of it."""
        if len(self.unknowns) > decided.unknowns:
            self._numbers.clear()  # their unknowns will be others
            self.results.clear()
        del self.unknowns[decided.unknowns :], self.had_to_be_known[decided.known :]
        _keep_first(self._derived, decided.derived)
        _keep_first(self._conditions, decided.conditions)
        _keep_first(self._preferences, decided.preferences)

    def decide(self, number: Size, kind: str) -> bool:
        """As the example has it; noted."""
        return self._note(self._conditions, number, kind)

    def prefer(self, number: Size, kind: str) -> bool:
        """The same where the other decision would be right, too, but not as quick."""
        return self._note(self._preferences, number, kind)

    def _require_independent(self, number: Size) -> None:
        """Of a number that is 0.

        Raises:
            Equal: it is the difference of two dimensions.
        """
        (first, count), *rest = number.terms.items()
        if len(rest) == 1 and rest[0][1] == -count and len(first) == len(rest[0][0]) == 1:
            unknowns = first[0], rest[0][0][0]
            if all(self.unknowns[n].comes_from_outside for n in unknowns):
                raise Equal(*sorted(unknowns))

    def _note(self, noted: _Conditions, number: Size, kind: str) -> bool:
        if self.address_in(number) is not None:
            raise Unsettled(f"{number} has to be known")
        holds = number.example < 0 if kind == "<" else number.example == 0
        if holds and kind == "=":
            self._require_independent(number)
        noted.setdefault((kind, number), Condition(number, kind, holds))
        return holds


_Conditions = dict[tuple[str, "Size"], Condition]


def _keep_first(entries: dict[Any, Any], count: int) -> None:
    for key in list(entries)[count:]:
        del entries[key]


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


def number_of(unknown: Size) -> int:
    """Of an unknown."""
    ((term, _),) = unknown.terms.items()
    return term[0]


def least_of(number: Number) -> int | None:
    """A bound it is never below, if one is known."""
    return number if type(number) is int else number.least


def is_at_least(number: Number, least: int) -> Number:
    """1 or 0, which may depend on sizes that are open: no decision."""
    if type(number) is not Size:
        return int(number >= least)
    less = number - least
    low, high = least_of(less), least_of(-less)
    if low is not None and low >= 0:
        return 1
    return 0 if high is not None and high > 0 else 1 - number.sizes.negative(less)


def _of_known(function: Callable[[int, Any], Any]) -> Callable[[Size, Any], Any]:
    """What bits of a number are used for: of one that is known."""
    return lambda size, other: function(size._as_int(), other)


class Size:
    """A whole number that depends on unknowns: a polynomial with whole coefficients."""

    __slots__ = ("_address", "_hash", "_least", "_may_be_nothing", "_sign", "example", "number", "sizes", "terms")
    __array_ufunc__ = None  # beside numbers of NumPy it is Python that computes

    def __init__(self, sizes: Sizes, terms: dict[Term, int], example: int, number: int, hash_: int) -> None:
        self.sizes, self.terms, self.example, self.number = sizes, terms, example, number
        self._hash = hash_
        self._address: int | None = -1  # not looked for yet
        self._least: int | str | None = ""
        self._sign = 0  # see `_settled_sign`; not looked at yet
        self._may_be_nothing: bool | None = None

    # Arithmetic. Where another number is an int, it stands for itself in the key of a result.

    def __add__(self, other: Number) -> Number:
        kind = type(other)
        if kind is Size:
            key = "+", self.number, other.number
        elif kind is int:
            if not other:
                return self
            key = "+int", self.number, other
        else:
            return self + int(other) if isinstance(other, int | np.integer) else self._as_int() + other
        results = self.sizes.results
        result = results.get(key)
        if result is None:
            more: Polynomial = other.terms if kind is Size else {(): other}
            example = example_of(other)
            result = results[key] = _number(self.sizes, total(self.terms, more), self.example + example)
        return result

    __radd__ = __add__

    def __neg__(self) -> Size:
        return self * -1

    def __sub__(self, other: Number) -> Number:
        if type(other) is not Size:
            return self + -other
        key, results = ("-", self.number, other.number), self.sizes.results
        result = results.get(key)
        if result is None:
            terms = difference(self.terms, other.terms)
            result = results[key] = _number(self.sizes, terms, self.example - other.example)
        return result

    def __rsub__(self, other: Number) -> Number:
        return self * -1 + other

    def __mul__(self, other: Number) -> Number:
        kind = type(other)
        if kind is int:
            if other == 1 or not other:
                return self if other else 0
            key = "*int", self.number, other
        elif kind is Size:
            key = "*", self.number, other.number
        else:
            return self * int(other) if isinstance(other, int | np.integer) else self._as_int() * other
        results = self.sizes.results
        result = results.get(key)
        if result is None:
            more: Polynomial = other.terms if kind is Size else {(): other}
            example = example_of(other)
            result = results[key] = _number(self.sizes, product(self.terms, more), self.example * example)
        return result

    __rmul__ = __mul__

    def __floordiv__(self, divisor: Number) -> Number:
        if type(divisor) is not int:
            return self._divided_by(divisor)
        key, results = ("//int", self.number, divisor), self.sizes.results
        result = results.get(key)
        if result is None:
            result = results[key] = self._divided_by(divisor)
        return result

    def _divided_by(self, divisor: Number) -> Number:
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
        self.sizes.had_to_be_known.append(self)
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

    __and__, __rand__ = _of_known(operator.and_), _of_known(operator.and_)
    __or__, __ror__ = _of_known(operator.or_), _of_known(operator.or_)
    __xor__, __rxor__ = _of_known(operator.xor), _of_known(operator.xor)
    __lshift__, __rshift__ = _of_known(operator.lshift), _of_known(operator.rshift)

    # Comparisons

    @property
    def least(self) -> int | None:
        """A bound it is never below, None if none is seen."""
        least = self._least
        if type(least) is str:
            least = self._least = lower_bound(self.terms, self.sizes.unknowns)
        return least  # type: ignore[return-value]

    def _is_negative(self) -> bool:
        if self._sign == 0:
            self._sign = self._settled_sign()
        return self._sign < 0 if self._sign != 2 else self.sizes.decide(self, "<")

    def _settled_sign(self) -> int:
        """-1 if it is less than 0 whatever the unknowns are, 1 if it never is, 2 if that depends on them."""
        least = self.least
        if least is not None and least >= 0:
            return 1
        most = (-self).least
        return -1 if most is not None and most > 0 else 2

    def __lt__(self, other: Number) -> bool:
        if type(other) is int and (low := self.least) is not None and low >= other:
            return False
        more: Number = 0 if other is self else self - other
        return more < 0 if type(more) is int else more._is_negative()

    def __gt__(self, other: Number) -> bool:
        if type(other) is int and (low := self.least) is not None and low > other:
            return True
        more: Number = 0 if other is self else other - self
        return more < 0 if type(more) is int else more._is_negative()

    def is_preferably_at_least(self, other: Number) -> bool:
        """Whether it is in the example; where another size is not, what follows from that is not the quickest way."""
        more: Number = self - other
        if type(more) is int:
            return more >= 0
        if more.least is not None and more.least >= 0:
            return True
        return not self.sizes.prefer(more, "<")

    def __le__(self, other: Number) -> bool:
        return not self > other

    def __ge__(self, other: Number) -> bool:
        return not self < other

    def __eq__(self, other: object) -> bool:
        if other is self:
            return True
        kind = type(other)
        if kind is int and (low := self.least) is not None and low > other:  # type: ignore[operator]
            return False
        if kind is not Size and not isinstance(other, int):
            return other is not None and not isinstance(other, str) and bool(self._as_int() == other)
        more = self - other
        return more == 0 if type(more) is int else more._is_nothing()

    def _is_nothing(self) -> bool:
        if self._may_be_nothing is None:
            never = self.sizes.address_in(self) is not None  # then it tells pieces of memory apart
            never = never or any(least is not None and least > 0 for least in (self.least, (-self).least))
            self._may_be_nothing = not never
        return self._may_be_nothing and self.sizes.decide(self, "=")

    def __hash__(self) -> int:
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
    return sizes.number(terms, example)


def _rounded_down(dividend: Size, divisor: int) -> Number:
    """The quotient of what does not come out even; of no negative numbers, of which more is known."""
    if ((-dividend).least or -1) >= 0:
        return -((divisor - 1 - dividend) // divisor)
    return dividend.sizes.quotient(dividend, divisor)


def _divided(dividend: Size, divisor: Size) -> Number | None:
    """The quotient if it comes out even whatever the unknowns are."""
    if (divisor.least or 0) < 1:
        return None
    terms = divided(dividend.terms, divisor.terms)
    return None if terms is None else _number(dividend.sizes, terms, dividend.example // divisor.example)
