"""A few random programs in half precision, in every mode, within their bounds. More: `fuzz.precision`."""

from __future__ import annotations

import numpy as np
import pytest

import workbench as wb
from tests.fuzz.precision import Bounded, LowProgram, Result, _wrong, random_program, run, run_all

SEED, COUNT = 0, 12


def test_results_are_within_their_bounds_in_every_mode(capsys: pytest.CaptureFixture[str]) -> None:
    counts = run_all(SEED, range(COUNT))
    assert not any(word.isupper() for word in counts), capsys.readouterr().out
    assert counts["within the bound"] > 0.9 * COUNT, counts


def test_bounds_are_close_enough_to_tell_one_dtype_from_another() -> None:
    """What bfloat16 gives is beyond the bounds of float16 in many programs; a bound adds up what may cancel."""
    beyond = 0
    for index in range(COUNT):
        fine, coarse = (_all_in(random_program(SEED, index), dtype) for dtype in ("float16", "bfloat16"))
        x, w = (array.astype("float16").astype(float) for array in fine.fed())
        exact, roundoff = fine.bound(x, w)
        assert roundoff == 2.0**-11
        beyond += bool((abs(run(coarse, "dynamic", 1, x, w).value - exact.value) > exact.error).any())
    assert beyond > COUNT / 3


def _all_in(program: LowProgram, dtype: str) -> LowProgram:
    steps = tuple(step._replace(dtype=dtype) if step.dtype else step for step in program.steps)
    return program._replace(dtypes=(dtype, dtype), steps=steps, amp="")


def test_what_is_beyond_is_told() -> None:
    exact = Bounded(np.ones((1, 2)), np.full((1, 2), 0.25))
    inside, outside = (Result(np.array([[1.0, value]]), "float16", ()) for value in (1.2, 1.3))
    assert not _wrong(inside, inside, exact)
    assert "1.3 at (0, 1)" in _wrong(outside, inside, exact).replace("np.int64(0)", "0").replace("np.int64(1)", "1")
    assert "float16" in _wrong(inside._replace(dtype="float32"), inside, exact)
    assert _wrong(Result(np.array([[1.0, np.nan]]), "float16", ()), inside, exact)


def test_float16_and_bfloat16_meet_in_float32() -> None:
    one, other = wb.ones([2], "float16"), wb.ones([2], "bfloat16")
    for result in (one + other, other * one, one - other):
        assert result.dtype.name == "float32"
