"""Places in sorted sequences, against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.native.fences import Fenced
from tests.native.kernels.test_sums import SEEDS
from tests.native.one_row import run_row
from workbench.runtime.words.codes import DONE

SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.0, np.inf, -np.inf, np.nan, 1e-40]


def chosen(random: np.random.Generator, *shape: int, dtype: str) -> np.ndarray:
    """Few numbers, so that there are ties."""
    return random.choice(SPECIAL, shape).astype(dtype)


@settings(max_examples=150, deadline=None)
@given(
    rows=st.integers(1, 4), width=st.integers(1, 40), count=st.integers(1, 20), right=st.booleans(),
    dtype=st.sampled_from(["f4", "f8"]), seed=SEEDS,
)  # fmt: skip
def test_ties_infinities_and_nan(rows: int, width: int, count: int, right: bool, dtype: str, seed: int) -> None:
    random, side = np.random.default_rng(seed), "right" if right else "left"
    edges, values = np.sort(chosen(random, rows, width, dtype=dtype), 1), chosen(random, rows, count, dtype=dtype)
    expected = np.stack([np.searchsorted(e, v, side) for e, v in zip(edges, values, strict=True)])
    out = np.full((rows, count), 7)
    assert run_row("searchsorted_rows", edges, values, out, rows, width, count, int(right)) == DONE
    assert np.array_equal(out, expected)
    one = np.full(count, 7)
    assert run_row("searchsorted", edges[0], values[0], one, width, count, int(right)) == DONE
    assert np.array_equal(one, expected[0])


@pytest.mark.parametrize("at_end", [True, False])
def test_it_reads_the_sequence_alone(at_end: bool) -> None:
    """What precedes the first number, or follows the last one, is a page that nobody may touch."""
    edges, values = Fenced(8 * 5, at_end).bytes.view("f8"), Fenced(8 * 3, at_end).bytes.view("f8")
    out = Fenced(8 * 3, at_end).bytes.view("i8")
    edges[...], values[...] = np.arange(5), [-1, 9, np.nan]
    assert run_row("searchsorted", edges, values, out, 5, 3, 0) == DONE
    assert out.tolist() == [0, 5, 5]
