"""What a user reads when there is no memory for values that are computed at once: while a program is built, of data."""

from __future__ import annotations

from types import TracebackType

from workbench.errors import EnforceNotMet, NoMemory, add_line, described, located
from workbench.framework.outside import is_from_outside
from workbench.framework.site import caller
from workbench.framework.values.spec import Spec, size_of

_BEYOND_ARRAYS = (  # how NumPy refuses what no memory could hold
    "Maximum allowed",
    "array is too big",
    "too large to convert",
)


def is_refused_memory(error: BaseException) -> bool:
    """Whether an exception says that there is no memory, or that no array is so large."""
    if isinstance(error, EnforceNotMet):
        return False
    if isinstance(error, ValueError | OverflowError):
        return any(words in str(error) for words in _BEYOND_ARRAYS)
    return isinstance(error, MemoryError)


def sized(spec: Spec) -> str:
    """`float32[2, 3] of 24 bytes`."""
    return f"{spec} of {size_of(spec.shape) * spec.dtype.itemsize:,} bytes"


class MemoryFor:
    """`with MemoryFor(what):` a refusal of memory for what is computed inside is told as one of `what`, with the line.

    Args:
        about: is described behind `what`, if it comes to that.

    Raises:
        NoMemory: there is none.
    """

    __slots__ = ("_about", "_what")

    def __init__(self, what: str, about: object = None) -> None:
        self._what, self._about = what, about

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: TracebackType | None) -> None:
        if isinstance(error, NoMemory):
            add_line(error, f"for {self._text()}")
        elif isinstance(error, Exception) and is_refused_memory(error) and not is_from_outside(error):
            text = f"no memory for {self._text()}: {str(error) or type(error).__name__}\n  at {caller()}"
            raise located(NoMemory(text)) from None

    def _text(self) -> str:
        return self._what if self._about is None else f"{self._what} {described(self._about)}"
