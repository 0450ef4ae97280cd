"""Expectation: whether many values are the objects they were, asked in one expression of Python, which makes the feed.

It is asked before every step that is run again; nothing that goes through the values one by one is as quick.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from operator import is_
from types import CellType, FunctionType
from typing import Any

from workbench.executors.feeding.feed_plan import Fed, FeedPlan
from workbench.framework.current import Current

_DEVICES = FeedPlan._fields.index("devices")  # by number, which is quicker

_FEW = 4  # things, up to which they are compared one by one

Feeding = Callable[[Sequence[Any]], Fed | None]


class Expectation:
    """Values that are compared with what is expected of them.

    Args:
        feeds: what the arguments are called; values of theirs are compared, too.
    """

    def __init__(self, feeds: Sequence[str]) -> None:
        self._feeds, self._count = tuple(feeds), len(feeds)
        self._first: list[str] = []
        self._terms: list[str] = []
        self._last: list[str] = []
        self._names: dict[str, Any] = {}
        self._cells: dict[str, CellType] = {}

    def add_equality(self, one: Any, attribute: str, other: Any, other_attribute: str, limit: Any = None) -> None:
        """Two attributes that are to be equal, and less than `limit.until`; asked before all that is to be the same."""
        text = f"{self._named(other)}.{other_attribute} == {self._named(one)}.{attribute}"
        self._first.append(text if limit is None else f"{text} < {self._named(limit)}.until")

    def add_refresh(self, parts: Sequence[Any], refresh: Callable[[Any], None]) -> None:
        """What is called first of all, if there are any parts then."""
        text = self._named(parts)
        self._first.insert(0, f"not ({text} and {self._named(refresh)}({text}))")

    def add_truth(self, ask: Callable[[], bool]) -> None:
        """That a function says so."""
        self._last.append(f"{self._named(ask)}()")

    def add_entries(self, container: Any, kept: list[Any], ask: Callable[[], bool]) -> None:
        """The entries of a container, for a dict its keys and values: the same objects, or `ask` says they are as good.

        Args:
            kept: the entries as they are to be; looked at again in every call.
        """
        text, count = self._named(container), len(container)
        if not count:
            self._last.append(f"not {text}")
            return
        entries, same = self._named(kept), f"len({text}) == {count} and "
        if not isinstance(container, dict):
            same += f"all(map({self._named(is_)}, {text}, {entries}))"
        elif count <= _FEW and all(type(key) is str for key in container):
            values = [f"{text}[{self._named(key)}] is {entries}[{count + i}]" for i, key in enumerate(container)]
            same = " and ".join([f"[*{text}] == {self._named([*container])}", *values])  # the names in order, first
        else:
            same += f"all(map({self._named(is_)}, [*{text}, *{text}.values()], {entries}))"
        self._last.append(f"({same} or {self._named(ask)}())")

    def add_cell(self, cell: CellType) -> None:
        """What is in a variable of an enclosing function, which is read as one of those."""
        name = f"c{len(self._cells)}"
        self._cells[name] = cell
        self._add(name)

    def add_result(self, read: Callable[[], Any]) -> None:
        """What a function gives."""
        self._add(f"{self._named(read)}()")

    def add_attribute(self, subject: Any, attribute: str) -> None:
        """An attribute, whose name is not the user's."""
        self._add(f"{self._named(subject)}.{attribute}")

    def add_entry(self, space: Mapping[Any, Any], key: Any) -> None:
        """An entry of a mapping; its key may be any object and is no part of the text."""
        self._add(f"{self._named(space)}[{self._named(key)}]")

    def add_absence(self, space: Mapping[Any, Any], key: Any) -> None:
        """That a mapping has no such entry."""
        self._terms.append(f"{self._named(key)} not in {self._named(space)}")

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

    def add_identities(self, args: Sequence[Any]) -> None:
        """That the arguments which are one object, and those which are several, are so again."""
        count = len(args)
        if count > _FEW and len(set(map(id, args))) == count:
            self._last.append(f"len({{*map(id, args)}}) == {count}")
            return
        for one, other in itertools.combinations(range(count), 2):
            self._first.append(f"a{one} {'is' if args[one] is args[other] else 'is not'} a{other}")

    def _named(self, subject: Any) -> str:
        name = f"s{len(self._names)}"
        self._names[name] = subject
        return name

    def _add(self, term: str) -> None:
        self._terms.append(f"{term} is k{len(self._terms)}")

    def compiled(self) -> Feeding:
        """A function of the arguments: what is fed of them, the array of each by its name; None unless all values are
        there and the very objects expected of them, or if there is another number of arguments.
        """
        arguments = "".join(f"a{number}, " for number in range(self._count))
        arrays = ", ".join(f"f{number}: a{number}.array" for number in range(self._count))
        unchanged = " and ".join([*self._first, *self._terms, *self._last]) or True
        text = (
            f"def around({', '.join(self._cells)}):\n"
            " def feed(args):\n"
            "  try:\n"
            f"   ({arguments}) = args\n"
            f"   return fed(plan, [{{{arrays}}}] * plan[{_DEVICES}]) if {unchanged} else None\n"
            "  except (AttributeError, KeyError, NameError, ValueError):\n"
            "   return None\n"
            " return feed\n"
        )
        self._names.update(((f"f{number}", name) for number, name in enumerate(self._feeds)), fed=Fed)
        exec(compile(text, "<expectation>", "exec"), self._names)
        # Popped, for these are the globals of the function: nothing is to hold itself.
        code = self._names.pop("around")(*self._cells).__code__
        return FunctionType(code, self._names, "feed", None, tuple(self._cells[name] for name in code.co_freevars))

    def expect(self, values: Sequence[Any], plan: FeedPlan) -> None:
        """What is expected from now on, in the order in which values were added; of what plan the feed is then."""
        self._names["plan"] = plan
        self._names.update(zip((f"k{number}" for number in range(len(self._terms))), values, strict=True))
