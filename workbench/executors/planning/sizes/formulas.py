"""Numbers that depend on sizes, and decisions about them, worked out all at once for given sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from math import prod

import numpy as np

from workbench.executors.planning.sizes.size import Condition, Size, Sizes
from workbench.executors.planning.sizes.unknowns import Number, Term, Unknown


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
        self._fixed = np.array([0 if type(number) is Size else number for number in numbers], np.int64)
        self._open = np.array([place for place, number in enumerate(numbers) if type(number) is Size], np.intp)
        for place in self._open:
            starts.append(len(counts))
            for term, count in numbers[place].terms.items():
                columns.append(terms.setdefault(term, len(terms)))
                counts.append(count)
        self._counts, self._columns = np.array(counts, np.int64), np.array(columns, np.intp)
        self._starts = np.array(starts, np.intp)
        factors = max(map(len, terms), default=0)  # 1, which is behind all unknowns, fills shorter products up
        padded = [(*term, *[len(sizes.unknowns)] * (factors - len(term))) for term in terms]
        self._factors = np.array(padded, np.intp).reshape(len(terms), factors).T.copy()

    def __call__(self, unknowns: Sequence[int]) -> np.ndarray:
        """int64, one for every number.

        Args:
            unknowns: what they are, by number.
        """
        numbers = self._fixed.copy()
        if len(self._open):
            known = np.array([*unknowns, 1], np.int64)
            values = known[self._factors[0]]
            for factor in self._factors[1:]:
                values *= known[factor]
            numbers[self._open] = np.add.reduceat(self._counts * values[self._columns], self._starts)
        return numbers


class Decisions:
    """Whether other sizes decide as the example does.

    Attributes:
        numbers: what was decided about.
    """

    def __init__(self, conditions: Sequence[Condition]) -> None:
        self.numbers = [c.number for c in conditions]
        self._less = np.array([c.kind == "<" for c in conditions], bool)
        self._holds = np.array([c.holds for c in conditions], bool)

    def are_alike(self, numbers: np.ndarray) -> bool:
        """Whether they do.

        Args:
            numbers: what was decided about, for other sizes.
        """
        return bool((np.where(self._less, numbers < 0, numbers == 0) == self._holds).all())


class Conditions(Decisions):
    """Whether what was decided for the example is right for other sizes."""

    def __init__(self, sizes: Sizes) -> None:
        super().__init__(sizes.conditions)
        self.sizes = sizes
        self._least = [(n, u.least) for n, u in enumerate(sizes.unknowns) if u.comes_from_outside]

    @cached_property
    def _derived(self) -> list[tuple[int, Unknown]]:
        return [(n, u) for n, u in enumerate(self.sizes.unknowns) if u.quotient is not None or u.negative is not None]

    def complete(self, given: Mapping[int, int]) -> list[int] | None:
        """All unknowns, from those that come from outside; where memory begins is 0.

        Returns:
            None where something is divided by 0: an array is empty that was not when the plan was made.
        """
        values = [given.get(n, 0) for n in range(len(self.sizes.unknowns))]
        for n, unknown in self._derived:
            if unknown.quotient is None:
                values[n] = int(at(unknown.negative, values) < 0)
                continue
            dividend, divisor = (at(number, values) for number in unknown.quotient)
            if not divisor:
                return None
            values[n] = dividend // divisor
        return values

    def hold(self, values: Sequence[int], numbers: np.ndarray) -> bool:
        """Whether all that was decided is right for these unknowns.

        Args:
            numbers: what was decided about, for them.
        """
        return all(values[n] >= least for n, least in self._least) and self.are_alike(numbers)


def at(number: Number, values: Sequence[int]) -> int:
    """What a number is for these unknowns."""
    if type(number) is not Size:
        return int(number)
    total: int = sum(count * prod([values[n] for n in term]) for term, count in number.terms.items())
    return total
