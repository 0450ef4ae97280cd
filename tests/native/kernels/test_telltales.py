"""What kernels say of stretches of numbers, against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.native.one_row import kernels
from workbench.executors.running.watching.telltales import is_finite
from workbench.runtime.native.control import Control
from workbench.runtime.native.tape import address


def blemished(arrays: list[np.ndarray]) -> int:
    stretches = np.array([(address(a), a.size) for a in arrays], np.int64)
    return Control(kernels()).blemished(address(stretches), len(stretches))


@pytest.mark.parametrize("wrong", [np.nan, -np.nan, np.inf, -np.inf])
def test_wherever_a_number_is_not_finite(wrong: float) -> None:
    rng = np.random.default_rng(0)
    for size in (1, 2, 7, 16, 33, 64, 257):
        for at in {0, 1, size // 2, size - 1} & set(range(size)):
            x = (rng.standard_normal(size) * 1e30).astype(np.float32)
            assert blemished([x]) == 0 and is_finite(x)
            x[at] = wrong
            assert blemished([x]) == 1 and not is_finite(x), (size, at)
            other = np.ones(5, np.float32)
            assert blemished([other, x, other]) == 1


def test_the_largest_and_smallest_numbers_are_finite() -> None:
    info = np.finfo(np.float32)
    x = np.array([info.max, info.min, info.tiny, info.smallest_subnormal, 0.0, -0.0] * 9, np.float32)
    assert blemished([x]) == 0 and is_finite(x)
