"""Values that code reads through others: weak references, context variables, cached properties, `__getattr__`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import cached_property, partial
from io import IOBase
from typing import Any, NamedTuple
from weakref import ReferenceType, WeakKeyDictionary, WeakSet, WeakValueDictionary

from workbench.dygraph.tensor.tensor import Tensor
from workbench.framework.site import Site, is_ours
from workbench.jit.values.captured_tensor import NeedsValue
from workbench.jit.values.libraries import file_of, is_library
from workbench.jit.values.watches import MISSING, is_same

WEAK_CONTAINERS = WeakKeyDictionary, WeakSet, WeakValueDictionary


class Behind(NamedTuple):
    """What stands behind a value.

    Attributes:
        name: what users call it. read: gives what is to stay as it is. value: what code comes to; None if nothing.
    """

    name: str
    read: Callable[[], Any]
    value: Any


def behind(label: str, value: Any) -> Behind | None:
    """What a weak reference or a context variable leads to; None of other values."""
    if isinstance(value, ReferenceType):
        name = f"what {label} refers to"
        return Behind(name, partial(_is_gone, value), value())
    if isinstance(value, ContextVar):
        content = value.get(None)
        return Behind(f"the value of {label}", partial(value.get, MISSING), content)
    return None


def _is_gone(reference: ReferenceType[Any]) -> bool:
    """Which is all that can become of it; who asks for the object itself would keep it alive."""
    return reference() is None


def read_through(value: Any, name: str) -> Callable[[], Any] | None:
    """What reads an attribute that a library's `__getattr__` gives; None if there is none, or another one each time."""
    hook = getattr(type(value), "__getattr__", None)
    if isinstance(value, type | Tensor) or not is_library(getattr(hook, "__globals__", {"__name__": "__main__"})):
        return None
    if is_ours(file_of(type(value))) or name.startswith("__"):
        return None
    read = partial(_attribute, value, name)
    content = read()
    return None if content is MISSING or not is_same(content, read()) else read


def _attribute(value: Any, name: str) -> Any:
    try:
        return getattr(value, name)
    except Exception:  # of the library: what it says here is nothing to the user
        return MISSING


class Caches:
    """Cached properties that code reads. They are filled where it first does; emptied ones are computed anew."""

    def __init__(self) -> None:
        self._read: list[tuple[str, Any, str]] = []

    def note(self, label: str, value: Any, name: str) -> None:
        """A property that is read."""
        self._read.append((label, value, name))

    def filled(self) -> Iterator[tuple[str, dict[str, Any], str]]:
        """Those that have a value now: what users call them, and the entry of a namespace that holds it."""
        for label, value, name in self._read:
            if name in vars(value):
                yield label, vars(value), name
        self._read.clear()


def require_steady(label: str, value: Any, site: Site | None) -> None:
    """Refuse what leads to something else at another time, and does not say to what.

    Raises:
        NeedsValue: an iterator; the table of all modules.
    """
    where = "" if site is None else f"\n  at {site}"
    if value is sys.modules:
        raise NeedsValue(f"a module is looked up in {label} by a name computed at run time; import it{where}")
    if hasattr(type(value), "__next__") and not isinstance(value, IOBase):
        raise NeedsValue(
            f"{label} is an iterator, which goes on when Python reads from it: every run of what is recorded would see "
            f"what it gave now\n  read from it outside of the function, and pass that as an argument{where}"
        )


def getter_of(member: Any) -> Any:
    """The function that a property calls; None of other members of a class."""
    if isinstance(member, property):
        return member.fget
    return member.func if isinstance(member, cached_property) else None
