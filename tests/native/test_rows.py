"""A row of the tape: what the interpreter hands to kernels, and what comes back."""

from __future__ import annotations

import numpy as np

from tests.native.one_row import kernels, run_row, run_tape, sum_rows
from workbench.runtime.native.blas import gemm_address
from workbench.runtime.native.tape import Tape
from workbench.runtime.words.codes import DECLINED, DONE, PAUSED


def test_a_row_gets_addresses_and_numbers() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.random((5, 7), np.float32), rng.random((7, 3), np.float32)
    c = np.ones((5, 3), np.float32)
    loops = 1, 0, 0, 0, 1, 0, 0, 0
    assert run_row("gemm_batch", a, 111, 7, b, 111, 3, c, 3, 5, 3, 7, 1, gemm_address(4), *loops) == DONE
    np.testing.assert_allclose(c, a @ b + 1, rtol=1e-6)


def test_a_kernel_that_declines_stops_the_tape() -> None:
    numbers, total = np.float32([1, 1, 2]), np.zeros(1, np.float32)
    tape = Tape(kernels())
    tape.row("require_equal", numbers, numbers, 3, 1)
    tape.row(*sum_rows(numbers, total, 1, 3))
    assert run_tape(tape) == DECLINED
    assert total[0] == 0


def test_a_look_up_comes_back() -> None:
    assert run_row("look_up") == PAUSED
