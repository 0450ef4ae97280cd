"""`apply`: the one crossing between a public function and what records or computes it.

The current *recorder* decides what applying an op means: a static recorder appends to the current block of
the default program, a dynamic one computes at once. No op asks which mode it is in.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Protocol

from workbench.errors import PreconditionNotMet

if TYPE_CHECKING:
    from workbench.framework.op.record import Op


class Recorder(Protocol):
    """What stands behind `apply`."""

    name: str

    def record(self, op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any], name: str | None) -> Any:
        """Handle one op; `inputs` in slot order (None for absent, lists for list slots), `attrs` complete.

        Returns the outputs in slot order: one value, or a tuple if the op has several output slots.
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


def apply(op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any], name: str | None = None) -> Any:
    """Apply `op` to tensors under the current recorder.

    Args:
        op: the op record.
        inputs: one entry per input slot, missing trailing ones are None.
        attrs: attributes that differ from the defaults.
        name: the layer name outputs are counted under, or None.

    Raises:
        NotFound: an unknown attribute. InvalidArgument, InvalidType: what `infer` refuses.
    """
    missing = len(op.inputs) - len(inputs)
    if missing < 0:
        raise TypeError(f"op {op.type!r} takes {len(op.inputs)} inputs, got {len(inputs)}")
    if missing:
        inputs = inputs + (None,) * missing
    for slot, value in zip(op.inputs, inputs):
        if value is None and not slot.optional:
            raise TypeError(f"op {op.type!r} needs its input {slot.name}")
    return current_recorder().record(op, inputs, op.complete(attrs), name)
