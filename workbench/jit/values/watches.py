"""Watches: values, containers and arrays as they were, to be looked at again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from operator import methodcaller
from types import CellType
from typing import Any, NamedTuple

import numpy as np

from workbench.jit.values.arguments import entries
from workbench.jit.values.expectation import Expectation
from workbench.jit.values.keys import is_by_value, key_of

PLAIN = (int, float, complex, str, bytes, bool, type(None), type(Ellipsis))


class Change(NamedTuple):
    """Something that is not as it was: its name, before and after."""

    name: str
    before: Any
    after: Any

    def __str__(self) -> str:
        if is_plain(self.before) and is_plain(self.after):
            return f"{self.name} was {self.before!r} and is {self.after!r}"
        return f"{self.name} is another object"


Read = Callable[[], Any]  # gives a value as it is now
Expecting = Callable[[Expectation], None]

MISSING = object()


class ValueWatch:
    """Values that are read, and what they were.

    Attributes:
        reads, kept: functions that give them, and what these gave, side by side. names: what users call them.
    """

    def __init__(self) -> None:
        self.reads: list[Read] = []
        self.kept: list[Any] = []
        self.names: list[str] = []
        self._places: set[Any] = set()
        self._quick: list[Expecting] = []

    def add(
        self, name: str, place: Any, read: Read, quick: Expecting | None = None, absent: Expecting | None = None
    ) -> bool:
        """Watch a value; False if that is done already.

        Args:
            place: equal for two functions that read the same.
            quick: adds it to an `Expectation`, which reads it so if it is there. absent: the same, if it is not.
        """
        if place in self._places:
            return False
        self._places.add(place)
        self.reads.append(read)
        self.kept.append(read())
        self.names.append(name)
        self._quick.append((absent if self.kept[-1] is MISSING else quick) or methodcaller("add_result", read))
        return True

    def add_entry(self, label: str, space: Mapping[str, Any], key: str) -> bool:
        """Watch an entry of a namespace, which need not be there; False if that is done already."""
        quick, absent = methodcaller("add_entry", space, key), methodcaller("add_absence", space, key)
        return self.add(label, (id(space), key), partial(space.get, key, MISSING), quick, absent)

    def add_cell(self, label: str, cell: CellType) -> bool:
        """Watch a variable of an enclosing function; False if that is done already."""
        read = partial(getattr, cell, "cell_contents", MISSING)
        return self.add(label, id(cell), read, methodcaller("add_cell", cell))

    def expect_in(self, expectation: Expectation) -> None:
        """Add all values to an expectation, which is to be `kept`."""
        for quick in self._quick:
            quick(expectation)

    def changes(self) -> Iterator[Change]:
        """What is not as it was; a plain value that is equal to another one is the same."""
        for i, (read, kept) in enumerate(zip(self.reads, self.kept, strict=True)):
            now = read()
            if now is kept:
                continue
            if is_same(now, kept):
                self.kept[i] = now
            else:
                yield Change(self.names[i], kept, now)


class ContainerWatch:
    """The entries of a list, dict or set."""

    def __init__(self, label: str, container: Any) -> None:
        self._label, self._container = label, container
        self._kept = entries(container)

    def is_unchanged(self) -> bool:
        """Whether it has the entries it had."""
        now = entries(self._container)
        if len(now) != len(self._kept) or not all(map(is_same, now, self._kept)):
            return False
        self._kept[:] = now
        return True

    def expect_in(self, expectation: Expectation) -> None:
        """Have an expectation look at it."""
        expectation.add_entries(self._container, self._kept, self.is_unchanged)

    def changes(self) -> Iterator[Change]:
        """It, if it is not as it was."""
        if not self.is_unchanged():
            yield Change(f"what is in {self._label}", self._kept, self._container)


class ArrayWatch:
    """The numbers in an array."""

    def __init__(self, label: str, array: np.ndarray) -> None:
        self._label, self._array = label, array
        self._kept = array.tobytes()

    def is_unchanged(self) -> bool:
        """Whether it holds what it held."""
        return self._array.tobytes() == self._kept

    def expect_in(self, expectation: Expectation) -> None:
        """Have an expectation look at it."""
        expectation.add_truth(self.is_unchanged)

    def changes(self) -> Iterator[Change]:
        """It, if it is not as it was."""
        if not self.is_unchanged():
            yield Change(f"what is in {self._label}", self._kept, self._array)


def is_plain(value: Any) -> bool:
    """Whether a value is a number, a text or the like, or a tuple of them: equal ones are the same."""
    return is_by_value(key_of(value))


def is_same(one: Any, other: Any) -> bool:
    """Whether two values are one, or say the same to the bit: 0.0 and -0.0 are two."""
    return one is other or (type(one) is type(other) and key_of(one) == key_of(other))
