"""Scopes: names to values, in a tree (rules E-11, E-13)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from workbench import between
from workbench.errors import InvalidType, NotFound, Unavailable, did_you_mean
from workbench.framework.place import Place
from workbench.framework.site import Site
from workbench.runtime.interrupt import deferred_interrupt
from workbench.runtime.tensor import LoDTensor, Moves

_POLL = 0.05  # seconds between looks at the keyboard
_PATIENCE = 600.0  # seconds; far longer than another thread's step


class Owner(NamedTuple):
    """The program that initialised a variable: its `origin`, its name and where its first operator was built.

    `program` gives the program itself as long as somebody keeps it.
    """

    origin: int
    name: str
    site: Site | None
    program: Callable[[], Any]


class ScopeVariable:
    """A named holder of one value.

    Attributes:
        name: its name in the scope.
        owner: the startup program that gave it its first value; None if it was set or loaded.
    """

    __slots__ = ("name", "owner", "tensor")

    def __init__(self, name: str) -> None:
        self.name = name
        self.owner: Owner | None = None
        self.tensor = LoDTensor()

    def get_tensor(self) -> LoDTensor:
        """The tensor; use its `set` and `numpy.array(tensor)`."""
        return self.tensor

    def set(self, value: Any, place: Place | None = None) -> None:
        """Shorthand for `get_tensor().set(value, place)`."""
        self.tensor.set(value, place)

    def __repr__(self) -> str:
        return f"ScopeVariable({self.name}: {self.tensor!r})"


class Scope:
    """A set of variables that also sees those of its ancestors.

    Attributes:
        lock: (the root's counts) held by a thread that changes values, or copies several that belong together.
    """

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        self.lock = threading.RLock()
        self.vars: dict[str, ScopeVariable] = {}
        self.kids: list[Scope] = []

    def var(self, name: str) -> ScopeVariable:
        """The variable of this scope, made if it does not exist."""
        found = self.vars.get(name)
        if found is None:
            found = self.vars[name] = ScopeVariable(name)
        return found

    def find_var(self, name: str) -> ScopeVariable | None:
        """The variable of this scope or of the nearest ancestor that has it, None if none does."""
        scope: Scope | None = self
        while scope is not None:
            found = scope.vars.get(name)
            if found is not None:
                return found
            scope = scope.parent
        return None

    def find_var_locally(self, name: str) -> ScopeVariable | None:
        """The variable of this scope itself."""
        return self.vars.get(name)

    def get(self, name: str) -> ScopeVariable:
        """Like `find_var`, raising NotFound with the closest name."""
        found = self.find_var(name)
        if found is None:
            raise NotFound(f"the scope has no variable {name!r}.{did_you_mean(name, self.vars)}")
        return found

    def new_scope(self) -> Scope:
        """A child that sees this scope's variables."""
        kid = Scope(self)
        self.kids.append(kid)
        return kid

    def drop_kids(self) -> None:
        """Forget all children."""
        self.kids.clear()
        Moves.count += 1

    def erase(self, names: list[str]) -> None:
        """Forget variables of this scope."""
        for name in names:
            self.vars.pop(name, None)
        Moves.count += 1

    def local_var_names(self) -> list[str]:
        """The names of this scope's own variables."""
        return list(self.vars)

    @property
    def root(self) -> Scope:
        """The outermost ancestor, where persistable variables live (E-11)."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    @contextmanager
    def exclusive(self, patience: float = _PATIENCE) -> Iterator[None]:
        """Inside the `with` body no other thread's step changes a value; for bodies that take a short time.

        Ctrl-C ends the wait for another thread; in the body it is held back.

        Raises:
            Unavailable: another thread kept the values for itself for `patience` seconds.
        """
        lock = self.root.lock
        with deferred_interrupt() as interrupted:
            _acquire(lock, patience, interrupted)
            try:
                yield
            finally:
                lock.release()

    def in_use(self, patience: float = _PATIENCE) -> Any:
        """A lock, free just now, for a `with` body in which no other thread's step changes a value.

        The `with` is the lock's own, because nothing interrupts that between taking and noting it.

        Raises:
            Unavailable: another thread kept the values for itself for `patience` seconds.
        """
        lock: Any = self.root.lock
        owned = lock._is_owned()
        try:
            if not lock.acquire(False):
                _acquire(lock, patience, lambda: False)
            lock.release()
        except BaseException:
            if lock._is_owned() and not owned:
                lock.release()  # Ctrl-C came in between
            raise
        return lock

    def __repr__(self) -> str:
        return f"Scope({len(self.vars)} variables, {len(self.kids)} kids)"


def _acquire(lock: Any, patience: float, interrupted: Callable[[], bool]) -> None:
    deadline = time.monotonic() + patience
    while not lock.acquire(timeout=_POLL):
        if interrupted():
            raise KeyboardInterrupt
        if time.monotonic() >= deadline:
            raise Unavailable(f"the variables of the scope have been in use by another thread for {patience:g} s")
        between.visit()


_global = Scope()
_current: ContextVar[Scope | None] = ContextVar("workbench_scope", default=None)


def global_scope() -> Scope:
    """The scope executors use unless told otherwise."""
    return _current.get() or _global


@contextmanager
def scope_guard(scope: Scope) -> Iterator[None]:
    """Make `scope` the global one inside the `with` body, in this thread.

    Raises:
        InvalidType: not a Scope.
    """
    if not isinstance(scope, Scope):
        raise InvalidType(f"scope_guard takes a Scope, got {scope!r}")
    token = _current.set(scope)
    try:
        yield
    finally:
        _current.reset(token)
