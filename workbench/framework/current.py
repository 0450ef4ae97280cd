"""Something that is in force: process-wide, or for the body of a `with` in one thread.

Ctrl-C may come up at the very beginning of an `__exit__` that is written in Python, and what it was to put back then
stays. So it is one call of C code here: it opens a lock, and what is in force is asked of the locks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ContextDecorator
from contextvars import ContextVar
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar
from weakref import ref

Kind = TypeVar("Kind")


class _Body(NamedTuple):
    """The body of a `with`.

    Attributes:
        leaving: ends it; only the interpreter keeps that, and with it what is in force there.
        outer: the body around it.
    """

    leaving: ref[Any]
    outer: _Body | None

    def values(self) -> dict[Any, Any] | None:
        """{Current: what is in force}; None if the body has ended."""
        leaving = self.leaving()
        return leaving.values if leaving is not None and leaving.lock.locked() else None


class Current(Generic[Kind]):
    """What is in force.

    Args:
        name: for debuggers. default: outside of all `with` bodies.

    Attributes:
        default: what is in force outside of all of them.
        entered: gives the body that was entered last in this thread, which may have ended. As long as it gives the same
            one and `is_outside`, the default is in force.
    """

    def __init__(self, name: str, default: Kind) -> None:
        self.default = default
        self._inner: ContextVar[_Body | None] = ContextVar(name, default=None)
        self.entered: Callable[[], object] = self._inner.get

    def get(self) -> Kind:
        """What is in force here: in the innermost body of this thread, else in the process."""
        body = self._inner.get()
        while body is not None:
            leaving = body.leaving()  # `values`, at once: this is asked for every op that is built
            if leaving is not None and leaving.lock.locked():
                value: Kind = leaving.values[self]
                return value
            body = body.outer
        return self.default

    def switch(self, new: Kind) -> Kind:
        """Put `new` in its place, within a body until its end; returns what it replaces."""
        old, body = self.get(), self._innermost()
        values = None if body is None else body.values()
        if body is None or values is None:
            self.default = new
        else:
            values[self] = new
        return old

    def is_outside(self) -> bool:
        """Whether all bodies that were entered have ended."""
        return self._innermost() is None

    def replaced(self, new: Kind) -> Replaced:
        """Have `new` in force inside the `with` body, in this thread (and its context) only."""
        return Replaced((self, new))

    def begin(self, leaving: Any) -> None:
        """What `leaving` has for this is in force as soon as its lock is closed."""
        self._inner.set(_Body(ref(leaving), self._innermost()))

    def _innermost(self) -> _Body | None:
        body = self._inner.get()
        while body is not None and body.values() is None:
            body = body.outer
        return body


class _Entering:
    """`__enter__` as a C function; what Python does for it is done when it is looked up."""

    def __get__(self, guard: Replaced | None, owner: type) -> Callable[..., Any]:
        return guard._begin() if guard is not None else lambda guard: guard._begin()()


class _Leaving:
    def __get__(self, guard: Replaced | None, owner: type) -> Callable[..., Any]:
        return guard._take() if guard is not None else lambda guard, *error: guard._take()(*error)


class Replaced(ContextDecorator):
    """For a `with` body in which others are in force.

    Args:
        others: pairs of a Current and what is in force.
    """

    def __init__(self, *others: tuple[Current[Any], Any]) -> None:
        self._others = others
        self._leaving: Any = None

    __enter__: Any = _Entering()
    __exit__: Any = _Leaving()

    def _begin(self) -> Callable[[], Any]:
        lock = threading.Lock()
        leaving: Any = partial(lock.__exit__)
        leaving.lock, leaving.values = lock, dict(self._others)
        for current, _ in self._others:
            current.begin(leaving)
        self._leaving = leaving
        return lock.__enter__

    def _take(self) -> Any:
        leaving, self._leaving = self._leaving, None
        return leaving

    def _recreate_cm(self) -> Replaced:
        return Replaced(*self._others)
