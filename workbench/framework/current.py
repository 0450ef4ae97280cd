"""Something that is in force: process-wide, or for the body of a `with` in one thread."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Generic, TypeVar

Kind = TypeVar("Kind")


class Current(Generic[Kind]):
    """What is in force.

    Args:
        name: for debuggers. default: outside of all `with` bodies.
    """

    def __init__(self, name: str, default: Kind) -> None:
        self._default = default
        self._inner: ContextVar[Kind | None] = ContextVar(name, default=None)

    def get(self) -> Kind:
        """What is in force here: in the innermost body of this thread, else in the process."""
        found = self._inner.get()
        return self._default if found is None else found

    def switch(self, new: Kind) -> Kind:
        """Put `new` in its place, within a body until its end; returns what it replaces."""
        old = self.get()
        if self._inner.get() is None:
            self._default = new
        else:
            self._inner.set(new)
        return old

    @contextmanager
    def replaced(self, new: Kind) -> Iterator[None]:
        """Have `new` in force inside the `with` body, in this thread (and its context) only."""
        token = self._inner.set(new)
        try:
            yield
        finally:
            self._inner.reset(token)
