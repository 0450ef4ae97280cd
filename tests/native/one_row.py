"""Running single rows of a tape on arrays, as the interpreter does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from workbench.config import override
from workbench.framework.op.record import Op
from workbench.framework.rows.kernel import LINES
from workbench.ops.math.reductions.reduce import REDUCE_SUM
from workbench.runtime.native import library
from workbench.runtime.native.control import Control, lines
from workbench.runtime.native.image import Kernels
from workbench.runtime.native.tape import Pointer, Tape, address
from workbench.runtime.row_kernels import row_kernel
from workbench.runtime.words.codes import AT, CONTROL, END, STATE_WORDS, TABLE


def kernels() -> Kernels:
    """The compiled kernels; skips the test where there are none."""
    with override(cpu_tape=True):
        loaded = library.kernels()
    if loaded is None:
        pytest.skip(f"no compiled kernels: {library.why_not()}")
    return loaded


def reduction(op: Op, x: np.ndarray, out: np.ndarray, sizes: tuple[int, ...], layout: str = LINES) -> tuple[Any, ...]:
    """What a row of a reduction says: its kernel, and its arguments.

    Args:
        sizes: of lines, (how many, how long); of columns, (outer, height, how many).
    """
    program = op.rows
    assert program is not None
    kernel = row_kernel(program, program.forms[0], layout, False)
    told = (1, sizes[0] * sizes[1], *sizes) if layout == LINES else (*sizes, sizes[2])
    return (kernel.name, x, out, None, *told)


def sum_rows(x: Any, out: Any, rows: int, width: int) -> tuple[Any, ...]:
    """A row that adds up lines."""
    return reduction(REDUCE_SUM, x, out, (rows, width))


def run_row(kernel: str, *arguments: Any) -> int:
    """Run one row. Returns the status."""
    tape = Tape(kernels())
    tape.row(kernel, *arguments)
    return run_tape(tape)


def run_inner_row(kernel: str, *arguments: Any) -> int:
    """Run a row that only other kernels write, nothing about it being checked; arrays stand for their addresses."""
    tape = Tape(kernels())
    words = [address(a) if isinstance(a, np.ndarray) else _word(a) for a in arguments]
    tape.words.extend((tape.kernels.addresses[kernel], 2 + len(words), *words))
    return run_tape(tape)


def _word(given: Any) -> int:
    if type(given) is Pointer:
        return given.address
    return 0 if given is None else np.float64(given).view(np.int64).item() if type(given) is float else given


def run_tape(tape: Tape, control: Control | None = None) -> int:
    """Run a tape to its end, or to the first row that does not do its work.

    Args:
        control: of a step that has begun; if not given, of a new one.
    """
    if control is None:
        control = Control(tape.kernels)
        control.begin()
    table = np.array(tape.words, np.int64)
    state = lines(STATE_WORDS)
    state[TABLE], state[AT], state[END], state[CONTROL] = address(table), 0, len(tape), control.address
    status: int = control.run(address(state))
    assert status or state[AT] == len(tape)
    return status
