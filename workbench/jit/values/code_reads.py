"""What code reads: names, and attributes one of another."""

from __future__ import annotations

import dis
from collections.abc import Iterator, Sequence
from importlib.util import resolve_name
from types import CodeType
from typing import NamedTuple

from workbench.framework.site import Site
from workbench.jit.values.captured_tensor import NeedsValue

_ATTRIBUTES = "LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR", "IMPORT_FROM"
_NOTHING = "PRECALL", "CACHE", "NOP", "RESUME"
_WITHOUT_EFFECT = "PUSH_NULL", *_NOTHING
_SUBSCRIPTS = "BINARY_SUBSCR", "BINARY_OP", "STORE_SUBSCR", "DELETE_SUBSCR"
_ASKING = "getattr", "hasattr", "attrgetter", "__getattribute__"
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
    """The attributes that code reads, of whatever; with those it may name in a string for `getattr`.

    Where entries of namespaces are read, or names are computed at run time, `__dict__` is among them: that is all there
    are. Where `type` is read, `__class__` is.
    """
    steps = _steps(code)
    names = {step.argval for step in steps if step.opname in _ATTRIBUTES}
    if any(step.argval == "vars" for step in steps if step.opname in _ROOTS) or _computes_names(steps):
        names.add("__dict__")
    if any(step.argval == "type" for step in steps if step.opname in _ROOTS):
        names.add("__class__")
    return names | asked_names(code)


def asked_names(code: CodeType) -> set[str]:
    """The attributes that code may name in a string, for `getattr` or `hasattr`: they need not be there."""
    if not any(step.argval in _ASKING for step in _steps(code) if step.opname in (*_ROOTS, *_ATTRIBUTES)):
        return set()
    return {value for value in code.co_consts if isinstance(value, str) and value.isidentifier()}


def _computes_names(steps: Sequence[dis.Instruction]) -> bool:
    """Whether `getattr` or `hasattr` is called with a name that is no text in the code, for all that can be seen."""
    for i, step in enumerate(steps):
        if step.opname in _ROOTS and step.argval in _ASKING[:2] and not _is_named(steps[i + 1 :]):
            return True
    return any(step.argval == "attrgetter" for step in steps)


def _is_named(steps: Sequence[dis.Instruction]) -> bool:
    """Whether the second argument of a call, which is all that these steps begin with, is a text."""
    depth = 0
    begins: dict[int, int] = {}
    for i, step in enumerate(steps):
        if step.opname.startswith("CALL") and step.arg == depth and depth in (2, 3):
            second = begins[2]
            ends = begins[3] if depth == 3 else i
            return steps[second].opname == "LOAD_CONST" and ends == second + 1 and isinstance(steps[second].argval, str)
        if step.opcode in dis.hasjrel or step.opcode in dis.hasjabs:
            return False
        before, depth = depth, depth + dis.stack_effect(step.opcode, step.arg, jump=False)
        if depth == before + 1 and depth > before:
            begins[depth] = i
        elif depth > before:
            return False
    return False


def _steps(code: CodeType) -> list[dis.Instruction]:
    return [step for step in dis.get_instructions(code) if step.opname not in _NOTHING]


def global_names(code: CodeType) -> Iterator[tuple[str, Site]]:
    """The entries of `globals()` that code reads or writes.

    Raises:
        NeedsValue: it does not say which.
    """
    steps = _steps(code)
    for i, step in enumerate(steps):
        if step.opname != "LOAD_GLOBAL" or step.argval != "globals":
            continue
        line = step.positions.lineno if step.positions is not None else None
        site = Site(code.co_filename, line or code.co_firstlineno)
        name = _entry_named(steps[i + 2 : i + 5])
        if name is None:
            raise NeedsValue(
                "globals() is read here with names computed at run time: every run of the recording would see the "
                "values of this moment\n  read them by name, or pass them as arguments\n"
                f"  at {site}"
            )
        yield name, site


def _entry_named(steps: Sequence[dis.Instruction]) -> str | None:
    """The text in `[text]` or `.get(text`, which is what code goes on with."""
    if steps and steps[0].opname in _ATTRIBUTES and steps[0].argval == "get":
        key, is_read = steps[1], steps[2].opname.startswith(("CALL", "LOAD"))
    else:
        key, is_read = steps[0], steps[1].opname in _SUBSCRIPTS
    return key.argval if is_read and key.opname == "LOAD_CONST" and isinstance(key.argval, str) else None


def imported(code: CodeType, package: str | None) -> Iterator[str]:
    """Modules that code imports, by their full names; of what it takes from one, those that may be modules, too."""
    steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    for level, names, step in zip(steps, steps[1:], steps[2:], strict=False):
        if step.opname != "IMPORT_NAME":
            continue
        name = step.argval
        if level.argval and package:  # `from ..name import …`
            name = resolve_name("." * level.argval + name, package)
        yield name
        yield from (f"{name}.{each}" for each in names.argval or ())
