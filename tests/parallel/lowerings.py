"""The two lowerings of a plan in tests: which of them runs, and how near their numbers are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from workbench.runtime.native import library

in_both = pytest.mark.usefixtures("lowering")
"""A test that runs twice, as NumPy calls and on the tape: promises hold in both."""
on_tapes = pytest.mark.usefixtures("tape")
"""A test that runs on the tape: only kernels change the scope in the commit, NumPy computes aside."""
as_calls = pytest.mark.usefixtures("calls")
"""A test that runs as NumPy calls: it looks into single calls, or demands NumPy's own bits."""


def on_tape() -> bool:
    """Whether executors that are made now use compiled kernels."""
    return library.kernels() is not None


def same_numbers(computed: Any, expected: Any, what: str = "") -> None:
    """Steps make the numbers NumPy makes: its bits as calls, on the tape the same but for roundings.

    Kernels add up in another order, and their functions are within two units in the last place; a few steps of
    training keep that below the bound here.
    """
    computed, expected = np.asarray(computed), np.asarray(expected)
    assert computed.dtype == expected.dtype and computed.shape == expected.shape, what
    if on_tape() and computed.dtype.kind == "f":
        np.testing.assert_allclose(computed, expected, rtol=2e-5, atol=2e-6, err_msg=what)
    else:
        np.testing.assert_array_equal(computed, expected, err_msg=what)
