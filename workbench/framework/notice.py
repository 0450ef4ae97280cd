"""Notices: something a user asked for has no effect, or was decided for them; told at the user's own line."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress

from workbench.errors import InvalidType, did_you_mean
from workbench.framework.site import is_ours

Speak = Callable[[str], object]


class Notice(UserWarning):
    """Nothing is wrong with the results; `warnings.simplefilter("ignore", Notice)` silences all of them."""


def tell_anyway(message: str) -> None:
    """`tell` that cannot fail: where warnings are errors it prints. For threads in which nobody could do anything."""
    try:
        tell(message)
    except Notice:
        with suppress(Exception):
            print(message, file=sys.stderr)


def tell(message: str) -> None:
    """Warn with a `Notice` that points at the nearest line which is not workbench's own."""
    level, frame = 2, sys._getframe(1)
    while frame.f_back is not None and is_ours(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, Notice, stacklevel=level)


def tell_without_effect(owner: str, given: Mapping[str, bool]) -> None:
    """Say which options that were given have no effect here.

    Args:
        given: by name, whether the option is another than its default.
    """
    names = [name for name, is_given in given.items() if is_given]
    if names:
        tell(f"{owner}: {', '.join(names)} {'has' if len(names) == 1 else 'have'} no effect here")


def tell_unused(owner: str, given: Iterable[str], known: Collection[str]) -> None:
    """Say which keywords were given that Paddle knows and that have no effect here.

    Raises:
        InvalidType: one that Paddle does not know either.
    """
    for name in given:
        if name not in known:
            raise InvalidType(f"{owner} takes no {name!r}.{did_you_mean(name, known)}")
    tell_without_effect(owner, dict.fromkeys(given, True))


def say(text: str) -> None:
    """A line for people to read that no line of theirs has caused: on standard error, or where a notebook shows it."""
    _speak[-1](text)


def speak_through(speak: Speak) -> Callable[[], None]:
    """Have such lines said another way from now on.

    Returns:
        what takes that back.
    """
    _speak.append(speak)
    return lambda: _speak.remove(speak) if speak in _speak else None


def _on_stderr(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


_speak: list[Speak] = [_on_stderr]
