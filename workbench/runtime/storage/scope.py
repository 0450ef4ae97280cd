"""Scopes: names to values, in a tree (rules E-11, E-13)."""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

from workbench import between
from workbench.errors import InvalidType, NotFound, PreconditionNotMet, Unavailable, did_you_mean
from workbench.framework.current import Current, Replaced
from workbench.framework.site import Site
from workbench.framework.values.place import Place
from workbench.runtime.storage.tensor import LoDTensor, moves
from workbench.runtime.undisturbed import hands

_POLL = 0.05  # seconds between looks at the keyboard
_PATIENCE = 600.0  # seconds; far longer than another thread's step
_FORK_PATIENCE = 2.0  # seconds


class Owner(NamedTuple):
    """The program that initialised a variable: its `origin`, its name and where its first operator was built.

    `program` gives the program itself as long as somebody keeps it; `family` is the name of what it is a copy of.
    """

    origin: int
    name: str
    site: Site | None
    program: Callable[[], Any]
    family: str = ""


class InitialValue(NamedTuple):
    """How a startup program makes the first value of a variable.

    Attributes:
        ops: type and attributes of the operators that it comes from; not where they stand, nor their random stream.
        seed: of the program, 0 where nothing is drawn.
        reads: the persistable variables that it is made of.
        update: types of the update operators that keep it as their state, once a program that has some was trained.
        schedule: what gives a learning rate its values, None if nothing does.
    """

    ops: tuple[tuple[str, dict[str, Any]], ...]
    seed: int
    reads: tuple[str, ...] = ()
    update: tuple[str, ...] = ()
    schedule: Any = None


class ScopeVariable:
    """A named holder of one value.

    Attributes:
        name: its name in the scope.
        owner: the startup program that gave it its first value; None if it was set or loaded.
        initial: how that program made the value.
    """

    __slots__ = ("initial", "name", "owner", "tensor")

    def __init__(self, name: str) -> None:
        self.name = name
        self.owner: Owner | None = None
        self.initial: InitialValue | None = None
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
        is_held_here: (the root's counts) whether it is this thread.
        step: (the root's counts) the state of the innermost step on the values, while one is under way.

    Example:
        >>> wb.enable_static()
        >>> scope = static.Scope()
        >>> with static.scope_guard(scope):
        ...     found = static.global_scope() is scope
        >>> found
        True
    """

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        self.lock_by(threading.RLock())
        self.vars: dict[str, ScopeVariable] = {}
        self.kids: list[Scope] = []
        self.step: Any = None
        if parent is None:
            _roots.add(self)

    def lock_by(self, lock: Any) -> None:
        """Have another lock, which nobody holds."""
        self.lock = lock
        self.is_held_here: Callable[[], bool] = (
            lock._is_owned
        )  # what `Condition` asks: nothing public tells whose it is

    def var(self, name: str) -> ScopeVariable:
        """The variable of this scope, made if it does not exist."""
        variable = self.vars.get(name)
        if variable is None:
            variable = self.vars[name] = ScopeVariable(name)
        return variable

    def find_var(self, name: str) -> ScopeVariable | None:
        """The variable of this scope or of the nearest ancestor that has it, None if none does."""
        scope: Scope | None = self
        while scope is not None:
            variable = scope.vars.get(name)
            if variable is not None:
                return variable
            scope = scope.parent
        return None

    def find_var_locally(self, name: str) -> ScopeVariable | None:
        """The variable of this scope itself."""
        return self.vars.get(name)

    def get(self, name: str) -> ScopeVariable:
        """Like `find_var`, raising NotFound with the closest name."""
        variable = self.find_var(name)
        if variable is None:
            raise NotFound(f"the scope has no variable {name!r}.{did_you_mean(name, self.vars)}")
        return variable

    def new_scope(self) -> Scope:
        """A child that sees this scope's variables."""
        kid = Scope(self)
        self.kids.append(kid)
        return kid

    def drop_kids(self) -> None:
        """Forget all children."""
        self.kids.clear()
        moves.happen()

    def erase(self, names: list[str]) -> None:
        """Forget variables of this scope."""
        for name in names:
            self.vars.pop(name, None)
        moves.happen()

    def local_var_names(self) -> list[str]:
        """The names of this scope's own variables."""
        return list(self.vars)

    @property
    def root(self) -> Scope:
        """The outermost ancestor, where persistable variables live."""
        scope = self
        while scope.parent is not None:
            scope = scope.parent
        return scope

    def in_use(self, patience: float = _PATIENCE) -> Any:
        """A lock, free just now, for a `with` body in which no other thread's step changes a value.

        The `with` is the lock's own, because nothing interrupts that between taking and noting it. What its body has to
        write whole goes through `runtime.undisturbed`.

        Raises:
            Unavailable: another thread kept the values for itself for `patience` seconds.
            PreconditionNotMet: within what must not be disturbed, such as a commit or the restoring of a checkpoint.
        """
        if threading.get_ident() in hands:
            raise PreconditionNotMet(
                "values are being written in the middle of a step or of a checkpoint; what runs there - a finaliser, a "
                "schedule that is given its state - cannot run a step or drop temporaries"
            )
        root = self if self.parent is None else self.root
        lock, held = root.lock, root.is_held_here()
        try:
            if not lock.acquire(False):
                _acquire(lock, patience)
            lock.release()
        except BaseException:
            if root.is_held_here() and not held:
                lock.release()  # Ctrl-C came in between
            raise
        return lock

    def come_to_rest(self, seconds: float) -> None:
        """Wait at most so long for a step of another thread; for none that stayed in the parent of this process."""
        lock = self.root.lock
        if not isinstance(lock, _Torn) and lock.acquire(timeout=seconds):
            lock.release()

    def __repr__(self) -> str:
        return f"Scope({len(self.vars)} variables, {len(self.kids)} kids)"


def _acquire(lock: Any, patience: float) -> None:
    deadline = time.monotonic() + patience
    while not lock.acquire(timeout=_POLL):
        if time.monotonic() >= deadline:
            raise Unavailable(f"the variables of the scope have been in use by another thread for {patience:g} s")
        between.visit()


class _Torn:
    """The lock of values that a child process has got in the middle of a step of another thread."""

    def acquire(self, *args: Any, **options: Any) -> bool:
        """Refuse."""
        raise PreconditionNotMet(
            "this process was forked while another thread was in the middle of a step, and its values may be half of "
            "one step and half of the next; fork between steps, start the process by 'spawn', or use a new Scope"
        )

    _is_owned = __enter__ = acquire

    def __exit__(self, *error: object) -> None:
        """Nothing was taken."""


class _Forks:
    """A process is forked between steps: whoever forks waits for them, for a while."""

    def __init__(self) -> None:
        self._held: dict[int, list[tuple[Scope, bool]]] = {}

    def before(self) -> None:
        """Take the locks of all values, but of those that are torn already."""
        deadline = time.monotonic() + _FORK_PATIENCE
        held = self._held[threading.get_ident()] = []
        for scope in [root for root in _roots if not isinstance(root.lock, _Torn)]:
            held.append((scope, scope.lock.acquire(timeout=max(deadline - time.monotonic(), 0.0))))

    def in_parent(self) -> None:
        """Give them back."""
        for scope, is_held in self._held.pop(threading.get_ident(), ()):
            if is_held:
                scope.lock.release()

    def in_child(self) -> None:
        """The locks there belong to threads that are not."""
        for scope, is_held in self._held.pop(threading.get_ident(), ()):
            scope.lock_by(threading.RLock() if is_held else _Torn())
        self._held.clear()


_roots: weakref.WeakSet[Scope] = weakref.WeakSet()
_forks = _Forks()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_forks.before, after_in_parent=_forks.in_parent, after_in_child=_forks.in_child)
_current: Current[Scope] = Current("workbench_scope", Scope())


def global_scope() -> Scope:
    """The scope executors use unless told otherwise.

    Example:
        >>> wb.enable_static()
        >>> y = static.nn.fc(static.data("x", [None, 4]), 2, weight_attr="w")
        >>> executor = static.Executor()
        >>> startup = executor.run(static.default_startup_program())
        >>> static.global_scope().find_var("w").get_tensor().shape()
        [4, 2]
    """
    return _current.get()


def scope_guard(scope: Scope) -> Replaced:
    """Make `scope` the global one inside the `with` body, in this thread.

    Raises:
        InvalidType: not a Scope.

    Example:
        >>> wb.enable_static()
        >>> scope = static.Scope()
        >>> with static.scope_guard(scope):
        ...     found = static.global_scope()
        >>> found is scope
        True
    """
    if not isinstance(scope, Scope):
        raise InvalidType(f"scope_guard takes a Scope, got {scope!r}")
    return _current.replaced(scope)
