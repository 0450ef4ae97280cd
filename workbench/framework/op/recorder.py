"""Recorders: the one crossing between a public function and what records or computes it.

The current *recorder* decides what applying an op means: a static recorder appends to the current block of
the default program, a dynamic one computes at once. No op asks which mode it is in.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol

from workbench.errors import PreconditionNotMet


class Recorder(Protocol):
    """What stands behind the call of an op."""

    name: str

    def record(self, op: Any, inputs: tuple[Any, ...], attrs: dict[str, Any], name: str | None) -> Any:
        """Handle one op (an `Op`); `inputs` in slot order (None for absent, lists for list slots), `attrs` complete.

        Returns the outputs in slot order: one value, or a tuple if the op has several output slots.
        """

    def record_into(self, op: Any, inputs: dict[str, Any], outputs: dict[str, Any], attrs: dict[str, Any]) -> Any:
        """Handle an op that writes existing values: an update, which replaces what it reads.

        Args:
            inputs, outputs: by slot; absent ones are left out.

        Returns:
            the operator where one was appended, else None.
        """


_default: Recorder | None = None
_override: ContextVar[Recorder | None] = ContextVar("workbench_recorder", default=None)


def current_recorder() -> Recorder:
    """The recorder in force: the innermost `recording`, else the process-wide mode."""
    found = _override.get() or _default
    if found is None:
        raise PreconditionNotMet("no recorder is installed; import workbench (not a sub-module alone)")
    return found


def set_mode(recorder: Recorder) -> None:
    """Make `recorder` the process-wide one (`enable_static`, `disable_static`)."""
    global _default
    _default = recorder


def has_mode() -> bool:
    """Whether `set_mode` was ever called."""
    return _default is not None


@contextmanager
def recording(recorder: Recorder) -> Iterator[Recorder]:
    """Use `recorder` inside the `with` body, in this thread (and its context) only."""
    token = _override.set(recorder)
    try:
        yield recorder
    finally:
        _override.reset(token)
