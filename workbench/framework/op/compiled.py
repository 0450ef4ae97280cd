"""Compiled forms of single ops: the engine makes them, dynamic mode uses them; neither knows the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from workbench.framework.op.record import Op
from workbench.framework.values.spec import Spec

CompiledCall = Callable[..., Sequence[Any] | None]
"""`call(*arrays)` gives new arrays, one per output slot; None if it has to be left to the body, which says why."""

CompiledWrite = Sequence[Callable[[], Any]]
"""C functions which, called in order, compute an op into arrays there are. They run no Python code."""


class OpCompiler(Protocol):
    """Makes compiled forms."""

    def compiled_op(
        self, op: Op, attrs: dict[str, Any], ins: Sequence[Spec | None], outs: Sequence[Spec | None]
    ) -> CompiledCall | None:
        """An op on dense operands.

        Args:
            attrs: complete. ins: one per input slot, None for what is absent. outs: one per output slot, None for what
                nobody wants.

        Returns:
            None if there is no such form here.
        """

    def compiled_write(
        self, op: Op, attrs: dict[str, Any], ins: Sequence[Any], outs: Sequence[Any]
    ) -> CompiledWrite | None:
        """An op that writes floating arrays there are, which may be those it reads.

        Args:
            attrs: complete. ins, outs: arrays, one per slot; None for what is absent, or not wanted.

        Returns:
            None if there is no such form here. It serves the thread that asked for it.
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
    compiler = _compiler()
    return None if compiler is None else compiler.compiled_op(op, attrs, ins, outs)


def compiled_write(op: Op, attrs: dict[str, Any], ins: Sequence[Any], outs: Sequence[Any]) -> CompiledWrite | None:
    """What computes an op into arrays there are, None if there is no compiled form; see `OpCompiler`."""
    compiler = _compiler()
    return None if compiler is None else compiler.compiled_write(op, attrs, ins, outs)


def _compiler() -> OpCompiler | None:
    if not _loaded:
        _loaded.extend(load() for load in _loaders)
    return _loaded[0] if _loaded else None
