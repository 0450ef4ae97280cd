"""The exceptions workbench raises, and how a message about an op is put together.

    EnforceNotMet (RuntimeError)            Paddle 1.8's class: the engine refused or failed
    ├── InvalidArgument   (ValueError)      a value, shape, dtype or option is wrong
    │   ├── InvalidType   (TypeError)       the wrong kind of object
    │   └── InvalidForm   (AssertionError)  a list or dict where the other was due, or of the wrong length
    ├── NotFound          (LookupError)     a name is unknown
    ├── AlreadyExists                       a name is taken
    ├── PreconditionNotMet                  something has to be done first
    ├── Unimplemented     (NotImplementedError)
    ├── Unavailable                         a device, library or peer is missing
    │   ├── NoMemory      (MemoryError)     there is none for values
    │   └── ExecutionTimeout  (TimeoutError)  a wait ended before what it waited for
    │       └── PeerTimeout                 another process did not come in time
    ├── Aborted                             given up because something else failed
    │   └── PeerFailed                      it failed in another process
    └── ExecutionError                      an op failed while a program ran

Programs written for Paddle 1.8 catch `EnforceNotMet`, programs written for 2.x catch the built-in
classes; every class here is both.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from workbench.framework.habits import name_here


class EnforceNotMet(RuntimeError):
    """The engine refused a request or failed while serving it.

    Attributes:
        located: the message names the op that failed and the line that built it.
        node: of the graph, where one failed; None elsewhere.
        rule: of an op's shapes and dtypes, where one was broken; None elsewhere.
    """

    located = False
    node: Any = None
    rule: ShapeError | None = None


class InvalidArgument(EnforceNotMet, ValueError):
    """A value, shape, dtype or option is wrong."""


class InvalidType(InvalidArgument, TypeError):
    """An object of the wrong kind was passed."""


class InvalidForm(InvalidArgument, AssertionError):
    """A list or dict where the other was due, or of the wrong length; Paddle asserts it."""


class NotFound(EnforceNotMet, LookupError):
    """A name is unknown."""


class AlreadyExists(EnforceNotMet):
    """A name is already taken by something else."""


class PreconditionNotMet(EnforceNotMet):
    """Something has to be done first; the message says what."""


class Unimplemented(EnforceNotMet, NotImplementedError):
    """A known request that workbench does not serve."""


class Unavailable(EnforceNotMet):
    """A device, library or peer is missing; the message says how to get it."""


class NoMemory(Unavailable, MemoryError):
    """There is no memory for values; the message says for which, and the line that asks for them."""


class ExecutionTimeout(Unavailable, TimeoutError):
    """A wait reached its deadline; the message names what or whom it waited for."""


class Aborted(EnforceNotMet):
    """Work was given up because something else failed; the message says what."""


class PeerTimeout(ExecutionTimeout):
    """Other processes did not come to a collective in time; the message names them.

    Attributes:
        ranks: those that were missing.
    """

    def __init__(self, message: str, ranks: Iterable[int] = ()) -> None:
        super().__init__(message)
        self.ranks = tuple(ranks)


class PeerFailed(Aborted):
    """Another process of the group failed or is gone; the message names it and, where it said so, why.

    Attributes:
        ranks: those that failed.
    """

    def __init__(self, message: str, ranks: Iterable[int] = ()) -> None:
        super().__init__(message)
        self.ranks = tuple(ranks)


class ExecutionError(EnforceNotMet):
    """An op failed while a program ran. The original exception is the cause."""


class ShapeError(InvalidArgument):
    """Raised by an op's `infer` rule: the inputs do not fit together.

    Args:
        what: the rule that is broken, in words ("inner dimensions must be equal").
        expected, got: the two sides of the comparison.
    """

    def __init__(self, what: str, expected: object = None, got: object = None) -> None:
        self.what, self.expected, self.got = what, expected, got
        super().__init__(self.text())

    def text(self) -> str:
        """The message: what is wrong, then what was expected and what came."""
        parts = [self.what]
        if self.expected is not None:
            parts.append(f"  expected: {self.expected}")
        if self.got is not None:
            parts.append(f"  got:      {self.got}")
        return "\n".join(parts)


class DtypeError(ShapeError, TypeError):
    """Raised by an op's `infer` rule: a dtype is not accepted."""


def described(value: Any) -> str:
    """A value in a few words for a message: arrays by shape and dtype, dicts by their keys, never their numbers."""
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"an array {value.dtype}{list(value.shape)}"
    if isinstance(value, Mapping):
        return f"a dict with keys {one_of(map(str, value))}" if value else "an empty dict"
    if isinstance(value, list | tuple):
        inside = ", ".join(dict.fromkeys(described(item) for item in itertools.islice(value, 5)))
        return f"a {type(value).__name__} of {len(value)}: {inside}" if value else f"an empty {type(value).__name__}"
    text = repr(value)
    return text if len(text) <= 100 else f"{type(value).__name__} {text[:100]}…"


def did_you_mean(name: Any, known: Iterable[str]) -> str:
    """` Did you mean 'x'?` for the closest known name, else, and for what is no name, an empty string."""
    if not isinstance(name, str):
        return ""
    candidates = itertools.islice((n for n in known if len(n) <= 100), 5000)  # the search is slow
    close = difflib.get_close_matches(name[:100], list(candidates), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


def suggesting(module: str, known: Iterable[str]) -> Callable[[str], Any]:
    """The `__getattr__` of a module that proposes one of its public names for an unknown one."""

    def __getattr__(name: str) -> Any:
        hint = "" if name.startswith("_") else name_here(module, name) or did_you_mean(name, known)
        raise AttributeError(f"module {module!r} has no attribute {name!r}.{hint}")

    return __getattr__


def one_of(names: Iterable[str], limit: int = 12) -> str:
    """A short listing of names for a message."""
    names = sorted(names)
    if not names:
        return "(none)"
    shown = ", ".join(repr(n) for n in names[:limit])
    return shown if len(names) <= limit else f"{shown} … ({len(names)} in all)"


def add_line(error: EnforceNotMet, line: str) -> None:
    """Add a line to the message of an error that somebody else raised."""
    error.args = (f"{error}\n  {line}", *error.args[1:])


def located(error: EnforceNotMet) -> EnforceNotMet:
    """Mark an error whose message names the op that failed and the line that built it."""
    error.located = True
    return error
