"""Expectation: whether many values are the objects they were, asked in one expression of Python, which makes the feed.

It is asked before every step that is run again; nothing that goes through the values one by one is as quick.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from workbench.framework.current import Current

Feeding = Callable[[Sequence[Any]], dict[str, Any] | None]


class Expectation:
    """Values that are compared with what is expected of them.

    Args:
        feeds: what the arguments are called; values of theirs are compared, too.
    """

    def __init__(self, feeds: Sequence[str]) -> None:
        self._feeds, self._count = tuple(feeds), len(feeds)
        self._terms: list[str] = []
        self._names: dict[str, Any] = {}

    def add_result(self, read: Callable[[], Any]) -> None:
        """What a function gives."""
        self._add(f"{self._named(read)}()")

    def add_attribute(self, subject: Any, attribute: str) -> None:
        """An attribute, whose name is not the user's."""
        self._add(f"{self._named(subject)}.{attribute}")

    def add_entry(self, space: Mapping[Any, Any], key: Any) -> None:
        """An entry of a mapping; its key may be any object and is no part of the text."""
        number = len(self._terms)
        self._names[f"n{number}"] = key
        self._add(f"{self._named(space)}[n{number}]")

    def add_current(self, current: Current[Any], is_outside: bool) -> None:
        """What is in force; where no `with` body is, that none is entered, and the default: two values."""
        if is_outside:
            self.add_result(current.entered)
            self.add_attribute(current, "default")
        else:
            self.add_result(current.get)

    def add_attribute_of_all(self, attribute: str) -> None:
        """An attribute of every argument."""
        for number in range(self._count):
            self._add(f"a{number}.{attribute}")

    def _named(self, subject: Any) -> str:
        name = f"s{len(self._terms)}"
        self._names[name] = subject
        return name

    def _add(self, term: str) -> None:
        self._terms.append(f"{term} is k{len(self._terms)}")

    def compiled(self) -> Feeding:
        """A function of the arguments: the array of each by its name; None unless all values are the very objects
        expected of them.

        It raises ValueError of another number of arguments, and what reading a value raises that is not there.
        """
        arguments = "".join(f"a{number}, " for number in range(self._count))
        arrays = ", ".join(f"f{number}: a{number}.array" for number in range(self._count))
        unchanged = " and ".join(self._terms) or True
        text = f"def feed(args):\n    ({arguments}) = args\n    return {{{arrays}}} if {unchanged} else None\n"
        self._names.update((f"f{number}", name) for number, name in enumerate(self._feeds))
        exec(compile(text, "<expectation>", "exec"), self._names)
        feed: Feeding = self._names.pop("feed")  # whose globals they are: nothing is to hold itself
        return feed

    def expect(self, values: Sequence[Any]) -> None:
        """What is expected from now on, in the order in which values were added."""
        self._names.update(zip((f"k{number}" for number in range(len(self._terms))), values, strict=True))
