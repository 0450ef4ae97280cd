"""Expectation: whether many values are the objects they were, asked in one expression of Python.

It is asked before every step that is run again; nothing that goes through the values one by one is as quick.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Comparing = Callable[[Sequence[Any]], bool]


class Expectation:
    """Values that are compared with what is expected of them.

    Args:
        count: of how many arguments values are compared, too.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._terms: list[str] = []
        self._names: dict[str, Any] = {}

    def add(self, subject: Any, reading: str) -> None:
        """A value that is read of a subject by what stands behind it: `.name`, `['key']` or `()`."""
        name = f"s{len(self._terms)}"
        self._names[name] = subject
        self._add(name + reading)

    def add_attribute_of_all(self, attribute: str) -> None:
        """An attribute of every argument."""
        for number in range(self._count):
            self._add(f"a{number}.{attribute}")

    def _add(self, term: str) -> None:
        self._terms.append(f"{term} is k{len(self._terms)}")

    def compiled(self) -> Comparing:
        """A function of the arguments, True where all values are the very objects expected of them.

        It raises ValueError of another number of arguments, and what reading a value raises that is not there.
        """
        arguments = "".join(f"a{number}, " for number in range(self._count))
        text = f"def compare(args):\n    ({arguments}) = args\n    return {' and '.join(self._terms) or True}\n"
        exec(compile(text, __file__, "exec"), self._names)
        compare: Comparing = self._names["compare"]
        return compare

    def expect(self, values: Sequence[Any]) -> None:
        """What is expected from now on, in the order in which values were added."""
        self._names.update(zip((f"k{number}" for number in range(len(self._terms))), values, strict=True))
