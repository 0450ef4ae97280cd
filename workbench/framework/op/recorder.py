"""Recorders: the one crossing between a public function and what records or computes it.

The current *recorder* decides what applying an op means: a static recorder appends to the current block of
the default program, a dynamic one computes at once. No op asks which mode it is in.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from workbench.config import get_flag
from workbench.errors import PreconditionNotMet
from workbench.framework.current import Current, Replaced


class Recorder(Protocol):
    """What stands behind the call of an op.

    Attributes:
        zero_dim: a result without dimensions has shape [] here, not [1], unless FLAGS_scalar_shape says otherwise.
        is_eager: ops are computed when they are applied, so that Python can look at values.
    """

    name: str
    zero_dim: bool
    is_eager: bool

    def record(self, op: Any, inputs: tuple[Any, ...], attrs: dict[str, Any], name: str | None) -> Any:
        """Handle one op (an `Op`), called with these `inputs` in slot order (None for absent, lists for list slots;
        trailing ones may be missing, see `Op.every_input`) and `attrs` (those that were given, see `Op.complete`).

        Returns the outputs in slot order: one value, or a tuple if the op has several output slots.
        """

    def record_into(self, write: Any, given: dict[str, Any]) -> Any:
        """Handle an op that writes values there are (an `OpWrite`).

        Args:
            given: the inputs that change, by slot.

        Returns:
            the operator where one was appended, else None.
        """

    def on_variables(self, function: Any, *given: Any) -> Any:
        """`function` of what stands for `given` in a program; only where ops are not computed at once.

        Args:
            given: tensors, nested ones too, and functions of tensors; what they are given and return is treated alike.
        """

    def role_guard(self, role: int, pair: Sequence[Any]) -> AbstractContextManager[None]:
        """What is recorded in the `with` body belongs to an update, that of `pair` (parameter and gradient) if given.

        Called by updates of tensors.
        """

    def begin_update(self, optimizer: Any, pairs: Sequence[Any]) -> None:
        """An optimizer is about to update tensors, given with their gradients."""


recorder_in_force: Current[Recorder | None] = Current("workbench_recorder", None)


def current_recorder() -> Recorder:
    """The recorder in force: the innermost `recording`, else the process-wide mode."""
    recorder = recorder_in_force.get()
    if recorder is None:
        raise PreconditionNotMet("no recorder is installed; import workbench (not a sub-module alone)")
    return recorder


def zero_dim() -> bool:
    """Whether results without dimensions have shape [], as in Paddle since 2.5, or [1], as before.

    Dynamic mode and programs captured from it say [], other programs [1]; FLAGS_scalar_shape chooses for both.
    """
    chosen = get_flag("FLAGS_scalar_shape")
    return current_recorder().zero_dim if chosen == "auto" else chosen == "zero_dim"


def set_mode(recorder: Recorder) -> None:
    """Make `recorder` the process-wide one (`enable_static`, `disable_static`)."""
    recorder_in_force.default = recorder


def has_mode() -> bool:
    """Whether `set_mode` was ever called."""
    return recorder_in_force.default is not None


def recording(recorder: Recorder) -> Replaced:
    """Use `recorder` inside the `with` body, in this thread (and its context) only."""
    return recorder_in_force.replaced(recorder)
