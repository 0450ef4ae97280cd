"""What a function prints while it is recorded appears once, though it runs once more for a branch that is rewritten."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from workbench.jit.values.captured_tensor import BranchOnValue

_lately: deque[HeldBack] = deque(maxlen=16)  # `print` of another thread, not holding its stream, may still be at it


class HeldBack:
    """A stream that keeps what one thread writes until it is let out.

    Args:
        stream: where it goes then, and what others write goes at once.
    """

    def __init__(self, stream: Any) -> None:
        self._stream, self._thread = stream, threading.get_ident()
        self._kept: list[str] = []
        self._holds = True

    def write(self, text: str) -> int:
        """As of any text stream."""
        if self._holds and threading.get_ident() == self._thread:
            self._kept.append(text)
            return len(text)
        written: int = self._stream.write(text)
        return written

    def writelines(self, lines: Iterable[str]) -> None:
        """As of any text stream."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Somebody wants it to be seen now, a debugger for one."""
        self.let_out()
        self._stream.flush()

    def let_out(self) -> None:
        """Write what was kept, and keep nothing any more."""
        self._holds = False
        kept, self._kept = self._kept, []
        if kept:
            self._stream.write("".join(kept))

    def drop(self) -> None:
        """Forget what was kept, and keep nothing any more."""
        self._holds, self._kept = False, []

    def settled(self) -> Any:
        """This one without those beneath that keep nothing any more; what is beneath if it keeps nothing itself."""
        self._stream = _settled(self._stream)
        return self if self._holds else self._stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


class _Silenced(HeldBack):
    """A stream that lets nothing out of what one thread writes."""

    def flush(self) -> None:
        """There is nothing to be seen."""


@contextmanager
def printed_never() -> Iterator[None]:
    """What the `with` body prints does not appear."""
    if sys.stdout is None:
        yield
        return
    silenced: Any = _Silenced(_settled(sys.stdout))
    _lately.append(silenced)
    sys.stdout = silenced
    try:
        yield
    finally:
        silenced.drop()
        sys.stdout = _settled(sys.stdout)


@contextmanager
def printed_once() -> Iterator[None]:
    """What the `with` body prints appears when it has ended; not where a branch was met for which it runs once more."""
    if sys.stdout is None:
        yield
        return
    held: Any = HeldBack(_settled(sys.stdout))
    _lately.append(held)
    sys.stdout = held
    try:
        yield
    except BranchOnValue:
        held.drop()
        raise
    finally:
        held.let_out()
        sys.stdout = _settled(sys.stdout)  # another thread may have begun since, and still be at it


def _settled(stream: Any) -> Any:
    return stream.settled() if isinstance(stream, HeldBack) else stream
