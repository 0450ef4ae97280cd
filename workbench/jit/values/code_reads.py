"""What code reads: names, and attributes one of another."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType
from typing import NamedTuple

_ATTRIBUTES = "LOAD_ATTR", "LOAD_METHOD"
_WITHOUT_EFFECT = "PUSH_NULL", "PRECALL", "CACHE", "NOP", "RESUME"
_ROOTS = {
    "LOAD_GLOBAL": "global",
    "LOAD_NAME": "global",
    "LOAD_DEREF": "cell",
    "LOAD_CLASSDEREF": "cell",
    "LOAD_FAST": "local",
    "LOAD_FAST_CHECK": "local",
}


class Chain(NamedTuple):
    """A name that is read, with the attributes read one of another, as `cfg.model.width`.

    Attributes:
        kind: "global", "cell" or "local". name: where it begins. path: the attributes.
        stored: the local variable it is assigned to, if it is. line: of the code that reads it.
    """

    kind: str
    name: str
    path: list[str]
    stored: str | None
    line: int

    @property
    def text(self) -> str:
        """As it is written."""
        return ".".join([self.name, *self.path])


def chains(code: CodeType) -> Iterator[Chain]:
    """All that code reads by name, in order."""
    begun: Chain | None = None
    for step in dis.get_instructions(code):
        if begun is not None and step.opname in _ATTRIBUTES:
            begun.path.append(step.argval)
            continue
        if step.opname in _WITHOUT_EFFECT:
            continue
        if begun is not None:
            yield begun._replace(stored=step.argval) if step.opname == "STORE_FAST" else begun
        begun = None
        if (kind := _ROOTS.get(step.opname)) is not None:
            line = step.positions.lineno if step.positions is not None else None
            begun = Chain(kind, step.argval, [], None, line or code.co_firstlineno)
    if begun is not None:
        yield begun


def attribute_names(code: CodeType) -> set[str]:
    """The attributes that code reads, of whatever; with those it may name in a string for `getattr`."""
    steps = list(dis.get_instructions(code))
    names = {step.argval for step in steps if step.opname in _ATTRIBUTES}
    if any(step.opname in _ROOTS and step.argval in ("getattr", "attrgetter", "vars") for step in steps):
        names |= {value for value in code.co_consts if isinstance(value, str) and value.isidentifier()}
    return names
