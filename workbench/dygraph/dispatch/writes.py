"""PreparedWrite: an op that writes tensors there are, as a tape on their memory where kernels take them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from functools import partial
from itertools import chain
from operator import call, setitem
from threading import get_ident
from typing import Any

import numpy as np

from workbench.dygraph.overwrites import all_written, here
from workbench.dygraph.tensor.tensor import Tensor
from workbench.framework.expr.numpy_functions import numpy_xp
from workbench.framework.op.compiled import compiled_write
from workbench.framework.op.record import Op
from workbench.framework.op.write import OpWrite
from workbench.framework.quiet import quiet
from workbench.runtime.undisturbed import Call, undisturbed


class PreparedWrite:
    """An `OpWrite` on the arrays its tensors have now.

    Args:
        write: what is applied. given: the inputs that change, by slot; they are copied into memory of its own.
        attrs: complete.
    """

    def __init__(self, write: OpWrite, given: dict[str, Tensor | None], attrs: dict[str, Any]) -> None:
        self._write, self._op, self._attrs = write, write.op, attrs
        self._fixed = [(t, t.memory()) for t in write.outputs.values()]
        self._fixed += [(t, t.array) for slot, t in write.inputs.items() if slot not in given]
        self._kinds = {slot: t.kind for slot, t in given.items() if t is not None}
        self._outs = [_memory(write.outputs.get(slot.name)) for slot in self._op.outputs]
        self._written = [out for out in self._outs if out is not None]
        self._thread = get_ident()
        self._buffers = {slot: np.empty_like(t.array) for slot, t in given.items() if t is not None and t.is_dense()}
        self._calls = self._compiled() if len(self._buffers) == len(self._kinds) else None

    def _compiled(self) -> Sequence[Call] | None:
        return compiled_write(self._op, self._attrs, self._arrays(self._buffers), self._outs)

    def _arrays(self, given: dict[str, Any]) -> list[Any]:
        inputs = self._write.inputs
        return [given[slot.name] if slot.name in given else _array(inputs.get(slot.name)) for slot in self._op.inputs]

    def fits(self, given: dict[str, Tensor | None]) -> bool:
        """Whether all tensors have the arrays they had, and the given ones are of the same kind."""
        for slot, kind in self._kinds.items():
            t = given.get(slot)
            if t is None or t.kind is not kind:
                return False
        return self._thread == get_ident() and all(t.array is array for t, array in self._fixed)

    @property
    def name(self) -> str:
        """Of the op."""
        return self._op.type

    @property
    def written(self) -> list[Any]:
        """The arrays that are written to."""
        return self._written

    def calls(self, given: dict[str, Any]) -> list[Call] | None:
        """What writes, as C functions; None where Python has a part in it."""
        if self._calls is None:
            return None
        taken = [partial(setitem, buffer, ..., given[slot].array) for slot, buffer in self._buffers.items()]
        return [*taken, *self._calls]

    def run(self, given: dict[str, Any]) -> None:
        """Write."""
        arrays = self._arrays({slot: _array(t) for slot, t in given.items()})
        quiet.run(_general, self._op, self._outs, arrays, self._attrs)


def write_all(writes: Sequence[tuple[PreparedWrite, dict[str, Any]]]) -> None:
    """Write, one after the other; where Ctrl-C comes, nothing, or it comes behind all of it."""
    calls_of_each = [prepared.calls(given) for prepared, given in writes]
    spot = here(3)
    for prepared, _ in writes:  # before it is done: who has noted too much asks for a clone, who has not computes wrong
        all_written(prepared.written, prepared.name, spot)
    if None not in calls_of_each:
        quiet.run(deque, map(call, chain.from_iterable(calls_of_each)), 0)  # type: ignore[arg-type]
        return
    undisturbed(partial(_write_each, writes, calls_of_each))


def _write_each(
    writes: Sequence[tuple[PreparedWrite, dict[str, Any]]], calls_of_each: Sequence[list[Call] | None]
) -> None:
    for (prepared, given), calls in zip(writes, calls_of_each, strict=True):
        if calls is None:
            prepared.run(given)
        else:
            quiet.run(deque, map(call, calls), 0)


def _general(op: Op, outs: list[Any], arrays: list[Any], attrs: dict[str, Any]) -> None:
    """Compute all results, then store them."""
    results = op.forward(numpy_xp, *arrays, **attrs)
    for out, result in zip(outs, results if len(op.outputs) > 1 else [results], strict=True):
        if out is not None:
            np.copyto(out, result)


def _memory(tensor: Tensor | None) -> Any:
    return None if tensor is None else tensor.memory()


def _array(tensor: Any) -> Any:
    return None if tensor is None else tensor.array
