"""Element-wise work as rows of a tape that are run at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.native.one_row import kernels, run_tape
from workbench.executors.lowering.operands import Scratch
from workbench.executors.lowering.tape.rules import computed_in
from workbench.executors.lowering.tape.vector_code import Unsuitable, VectorCode, dtype_for
from workbench.framework.expr.expr import Expr
from workbench.framework.expr.lowered import Lowered, lower
from workbench.runtime.native.tape import Tape

Op = tuple[Lowered, list[Any], list[Any]]


def form_of(body: Callable[..., Any], arrays: Sequence[np.ndarray]) -> Lowered:
    """A body of element-wise functions for arrays of these dtypes."""
    dtypes = [computed_in(a.dtype) for a in arrays]
    outputs = body(*[Expr("input", value=i, dtype=d) for i, d in enumerate(dtypes)])
    return lower(list(outputs) if isinstance(outputs, tuple) else [outputs], dtypes)


def run(shape: tuple[int, ...], ops: Sequence[Op], joined: bool = True) -> list[bool]:
    """Run ops as rows of a tape, joined where that is possible.

    Returns: which of them have a native form; the others are left out.
    """
    tape, scratch, done = Tape(kernels()), Scratch(), []
    pending: VectorCode | None = None

    def end() -> None:
        if pending is not None:
            pending.emit(tape, lambda floats: scratch((floats,), np.float32))
        scratch.restart()

    for op in ops:
        dtype = dtype_for(op[0], [*op[1], *op[2]])
        if joined and pending is not None and pending.accepts(shape, len(op[0].steps), dtype) and _added(pending, op):
            done.append(True)
            continue
        end()
        pending = VectorCode(shape, dtype)
        done.append(_added(pending, op))
        pending = pending if done[-1] else None
    end()
    assert run_tape(tape) == 0
    return done


def compute(body: Callable[..., Any], *arrays: np.ndarray) -> np.ndarray:
    """The single result of a body, an array like the first one."""
    out = np.empty_like(arrays[0])
    assert run(out.shape, [(form_of(body, arrays), list(arrays), [out])]) == [True]
    return out


def _added(code: VectorCode, op: Op) -> bool:
    try:
        code.add(*op)
    except Unsuitable:
        return False
    return True
