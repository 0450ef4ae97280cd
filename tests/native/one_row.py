"""Running single rows of a tape on arrays, as the interpreter does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from workbench.config import override
from workbench.runtime.native import library
from workbench.runtime.native.control import Control, lines
from workbench.runtime.native.image import Kernels
from workbench.runtime.native.tape import Tape, address
from workbench.runtime.words.codes import AT, CONTROL, END, STATE_WORDS, TABLE


def kernels() -> Kernels:
    """The compiled kernels; skips the test where there are none."""
    with override(cpu_tape=True):
        loaded = library.kernels()
    if loaded is None:
        pytest.skip(f"no compiled kernels: {library.why_not()}")
    return loaded


def run_row(kernel: str, *arguments: Any) -> int:
    """Run one row. Returns the status."""
    tape = Tape(kernels())
    tape.row(kernel, *arguments)
    return run_tape(tape)


def run_inner_row(kernel: str, *arguments: Any) -> int:
    """Run a row that only other kernels write, nothing about it being checked; arrays stand for their addresses."""
    tape = Tape(kernels())
    words = [address(a) if isinstance(a, np.ndarray) else a for a in arguments]
    tape.words.extend((tape.kernels.addresses[kernel], 2 + len(words), *words))
    return run_tape(tape)


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
