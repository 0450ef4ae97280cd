"""Values as Python keeps them, each with the ways to make it, to read the number in it and to change it.

A value is text: an expression that makes it, one that reads the number in it, and statements that change it later. They
lie inside each other - a number in an attribute in a list in a closure - so that a case is a path of several steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import NamedTuple


class Change(NamedTuple):
    """A statement that changes a value; its kind is a name of the table that `--kinds` shows."""

    kind: str
    statement: str


class Value:
    """A value of a case.

    Attributes:
        kinds: what it is made of, from the outside to the inside.
        make: an expression that makes one like it, with other numbers each time.
        read: from the path of the value, the expression of a number.
        changes: from the path of the value, what may be done to it.
    """

    def __init__(
        self,
        kinds: list[str],
        make: Callable[[], str],
        read: Callable[[str], str],
        changes: Callable[[str], list[Change]],
    ) -> None:
        self.kinds, self.make, self.read, self.changes = kinds, make, read, changes


class Values:
    """Makes values at random.

    Args:
        random: by what. allowed: the kinds that may occur. holders: what may hold other values, by kind.

    Attributes:
        definitions: of classes and functions that the values need, in a module.
        accesses: the kinds of all ways of reading that were chosen.
    """

    def __init__(self, random: Random, allowed: Callable[[str], bool], holders: Mapping[str, Holder]) -> None:
        self.random, self.allowed, self._holders = random, allowed, holders
        self.accesses: list[str] = []
        self.definitions: list[str] = []
        self._count = 0

    def number(self) -> str:
        return str(self.random.choice((2, 3, 4, 5, 6, 7)))

    def value(self, depth: int) -> Value:
        """Any value; `depth` steps from the number at most."""
        random = self.random
        if depth == 0 or random.random() < 0.15:
            return self._leaf()
        name = random.choice([name for name in self._holders if self.allowed(name)])
        value = self._holders[name](self, self.value(depth - 1))
        value.kinds.insert(0, name)
        return value

    def _leaf(self) -> Value:
        random = self.random
        name = random.choice([name for name in LEAVES if self.allowed(name)])
        make, read = LEAVES[name]
        return Value([name], lambda: make.format(n=self.number()), lambda p: read.format(p=p), lambda p: [])

    def fresh(self, stem: str) -> str:
        self._count += 1
        return f"{stem}{self._count}"

    def define(self, text: str) -> None:
        self.definitions.append(text)

    def attribute(self, path: str, name: str = "v") -> str:
        """One of the ways to read an attribute."""
        ways = {name: text for name, text in ACCESSES.items() if self.allowed(name)}
        chosen = self.random.choice(list(ways))
        self.accesses.append(chosen)
        return ways[chosen].format(p=path, v=name)


Holder = Callable[[Values, Value], Value]

# A number, as an expression of {n}, and how a factor is made of it at {p}.
LEAVES = {
    "an int": ("{n}", "{p}"),
    "a float": ("{n}.5", "{p}"),
    "a bool": ("({n} > 4)", "(2 if {p} else 3)"),
    "a text": ("'a' * {n}", "len({p})"),
    "a NumPy float": ("np.float32({n})", "float({p})"),
    "a NumPy int": ("np.int64({n})", "int({p})"),
    "a fraction": ("Fraction({n}, 2)", "float({p})"),
    "a range": ("range({n})", "len({p})"),
    "a complex number": ("complex(0, {n})", "{p}.imag"),
    "bytes": ("bytes({n})", "len({p})"),
    "a date": ("date(2000, 1, {n})", "{p}.day"),
    "a decimal": ("Decimal({n})", "float({p})"),
    "a lambda": ("(lambda: {n})", "{p}()"),
    "a frozen set": ("frozenset(range({n}))", "len({p})"),
    "a tensor": ("wb.to_tensor({n}.0)", "{p}"),
    "a tensor's value": ("wb.to_tensor({n}.0)", "float({p})"),
    "an array's entry": ("np.array([1.0, {n}.0])", "float({p}[1])"),
    "an int with an attribute": ("Int.of({n})", "({p} + {p}.v)"),
    "a text with an attribute": ("Text.of({n})", "(len({p}) + {p}.v)"),
    "a float with an attribute": ("Float.of({n})", "({p} + {p}.v)"),
    "a frozen dataclass": ("Frozen({n})", "{p}.v"),
    "a named tuple": ("Pair(1, {n})", "{p}.v"),
    "a member of an enum": ("Color({n})", "{p}.value"),
    "a partial": ("partial(int.__add__, {n})", "{p}(1)"),
    "None or a number": ("(None if {n} < 4 else {n})", "(1.5 if {p} is None else {p})"),
    "a type": ("(int, float, str, list, dict, tuple)[{n} - 2]", "len({p}.__name__)"),
    "a function": ("(one, two, three)[{n} % 3]", "{p}()"),
    "an optional function": ("(None if {n} < 4 else three)", "({p} or one)()"),
    "a random number generator": ("Random({n})", "{p}.getrandbits(3)"),
    "a generator": ("count({n})", "next({p})"),
}

# Ways to read an attribute {v} of {p}.
ACCESSES = {
    ".": "{p}.{v}",
    ". ": "{p}.{v}",
    "getattr": "getattr({p}, '{v}')",
    "getattr with a default": "getattr({p}, '{v}', 1)",
    "getattr of a computed name": "getattr({p}, '_{v}'[1:])",
    "getattr of a computed name, with a default": "getattr({p}, ''.join(['{v}']), 1)",
    "hasattr": "({p}.{v} if hasattr({p}, '{v}') else 1)",
    "attrgetter": "attrgetter('{v}')({p})",
    "a function": "take_{v}({p})",
    "a lambda": "(lambda each: each.{v})({p})",
    "a comprehension": "[each.{v} for each in [{p}]][0]",
    "a function with a default argument": "take_{v}_or({p})",
    "try": "tried_{v}({p})",
    "object.__getattribute__": "object.__getattribute__({p}, '{v}')",
    "a dict of arguments": "take_{v}(**{{'each': {p}}})",
    "match": "matched_{v}({p})",
}

HELPERS = """
class Int(int):
    @classmethod
    def of(cls, n):
        one = cls(n)
        one.v = n + 1
        return one

class Text(str):
    @classmethod
    def of(cls, n):
        one = cls('a' * n)
        one.v = n + 1
        return one

class Float(float):
    @classmethod
    def of(cls, n):
        one = cls(n)
        one.v = n + 1
        return one

@dataclass(frozen=True)
class Frozen:
    v: float

class Pair(NamedTuple):
    u: float
    v: float

class Color(Enum):
    A, B, C, D, E, F = 2, 3, 4, 5, 6, 7

def one():
    return 1

def two():
    return 2

def three():
    return 3

def take_v(each):
    return each.v

def take_v_or(each, name='v'):
    return getattr(each, name)

def tried_v(each):
    try:
        return each.v
    except AttributeError:
        return 1

def matched_v(each):
    match each:
        case object(v=v):
            return v
    return 1
"""
