"""Switching between the modes. Dynamic mode is the default, as in Paddle 2.x."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from workbench.dygraph.dispatch.recorder import dynamic_recorder
from workbench.dygraph.tensor.making import require_cpu
from workbench.framework.op.recorder import has_mode, recording, set_mode
from workbench.framework.program import guard

_is_chosen = False  # by the program itself, be it the default


def enable_static() -> None:
    """From now on ops append to the default main program.

    Example:
        >>> wb.enable_static()
        >>> wb.in_dynamic_mode()
        False
    """
    _choose(guard.static_recorder)


def disable_static(place: Any = None) -> None:
    """From now on ops compute at once.

    Args:
        place: None or a `CPUPlace`.

    Raises:
        Unimplemented: another place.

    Example:
        >>> wb.disable_static()
        >>> wb.in_dynamic_mode()
        True
    """
    require_cpu(place)
    _choose(dynamic_recorder)


def _choose(recorder: Any) -> None:
    global _is_chosen
    _is_chosen = True
    set_mode(recorder)


def default_mode() -> None:
    """Dynamic mode, as in Paddle 2.x, unless a mode was chosen before (workbench is imported again)."""
    if not has_mode():
        set_mode(dynamic_recorder)


def static_by_default() -> None:
    """Static mode, as in Paddle 1.x, unless the program has chosen one: what it begins to use builds programs."""
    if not _is_chosen:
        set_mode(guard.static_recorder)


def in_dynamic_mode() -> bool:
    """Whether ops compute at once.

    Example:
        >>> wb.in_dynamic_mode()
        True
    """
    return not guard.in_static_mode()


@contextmanager
def dynamic_guard(place: Any = None) -> Iterator[None]:
    """Ops compute at once inside the `with` body (Paddle's `base.dygraph.guard`).

    Example:
        >>> wb.enable_static()
        >>> with wb.base.dygraph.guard():
        ...     print(wb.in_dynamic_mode())
        True
        >>> wb.in_dynamic_mode()
        False
    """
    require_cpu(place)
    with recording(dynamic_recorder):
        yield
