"""Compiled forms of single ops: the engine makes them, dynamic mode uses them; neither knows the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from workbench.framework.op.record import Op
from workbench.framework.values.spec import Spec

CompiledCall = Callable[..., Sequence[Any] | None]
"""`call(*arrays)` gives new arrays, one per output slot; None if it has to be left to the body, which says why."""


class OpCompiler(Protocol):
    """Makes compiled forms."""

    def __call__(
        self, op: Op, attrs: dict[str, Any], ins: Sequence[Spec | None], outs: Sequence[Spec | None]
    ) -> CompiledCall | None:
        """An op on dense operands.

        Args:
            attrs: complete. ins: one per input slot, None for what is absent. outs: one per output slot, None for what
                nobody wants.

        Returns:
            None if there is no such form here.
        """


_loaders: list[Callable[[], OpCompiler]] = []
_loaded: list[OpCompiler] = []


def load_on_demand(load: Callable[[], OpCompiler]) -> None:
    """Note how to get at the compiler, which takes a while to load."""
    _loaders[:] = [load]
    _loaded.clear()


def compiled(
    op: Op, attrs: dict[str, Any], ins: Sequence[Spec | None], outs: Sequence[Spec | None]
) -> CompiledCall | None:
    """The compiled form of an op, None if there is none; see `OpCompiler`."""
    if not _loaded:
        _loaded.extend(load() for load in _loaders)
    return _loaded[0](op, attrs, ins, outs) if _loaded else None
