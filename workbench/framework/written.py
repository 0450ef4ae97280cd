"""What is written down and read back by files above its own.

A Program does not know how its text or its JSON looks; printers, parsers and serializers stand above it. They note
here what they write and read, and are loaded when a form is asked for that nobody has noted yet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from workbench.errors import NotFound

TEXT, JSON = "text", "json"

F = TypeVar("F", bound=Callable[..., Any])

_writers: dict[tuple[type, str], Callable[..., str]] = {}
_readers: dict[tuple[type, str], Callable[..., Any]] = {}
_libraries: list[Callable[[], object]] = []


def load_on_demand(library: Callable[[], object]) -> None:
    """Have `library()`, an import, called when a form is asked for that nobody has noted yet."""
    _libraries.append(library)


def writes(kind: type, form: str = TEXT) -> Callable[[F], F]:
    """Note a function that writes things of a class down: `(thing, **details) -> str`."""

    def note(function: F) -> F:
        _writers[kind, form] = function
        return function

    return note


def reads(kind: type, form: str) -> Callable[[F], F]:
    """Note a function that makes a thing of a class of what was written: `(data) -> thing`."""

    def note(function: F) -> F:
        _readers[kind, form] = function
        return function

    return note


def written(thing: object, form: str = TEXT, **details: Any) -> str:
    """A thing in a form, by the function noted for its class.

    Raises:
        NotFound: nothing writes such things in this form.
    """
    return _find(_writers, type(thing), form)(thing, **details)


def read(kind: type, form: str, data: str | bytes) -> Any:
    """A thing of a class from what was written.

    Raises:
        NotFound: nothing reads such things in this form.
    """
    return _find(_readers, kind, form)(data)


def _find(noted: dict[tuple[type, str], Callable[..., Any]], kind: type, form: str) -> Callable[..., Any]:
    for load in (None, *_libraries):
        if load is not None:
            load()
        for base in kind.__mro__:
            if (base, form) in noted:
                return noted[base, form]
    raise NotFound(f"a {kind.__name__} has no form {form!r}")
