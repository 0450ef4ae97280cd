"""What is put into a slot past the caches: the bytes of the source and no others, wherever both begin."""

import numpy as np
import pytest

from tests.native.one_row import kernels
from workbench.runtime.comm.mpi.memory.slots import put
from workbench.runtime.words.window import PASSED


@pytest.mark.parametrize("count", [PASSED, PASSED + 63, PASSED + 65])
@pytest.mark.parametrize("shift", [0, 1, 63])
def test_a_contribution_is_put_there_whole_and_nothing_beside_it(shift: int, count: int) -> None:
    kernels()
    source = np.random.default_rng(0).integers(1, 256, count + 5, np.uint8)[5:]
    memory = np.zeros(count + 256, np.uint8)
    begin = -memory.__array_interface__["data"][0] % 64 + 64 + shift
    put(memory[begin : begin + count], source)
    assert memory[begin : begin + count].tobytes() == source.tobytes()
    assert not memory[:begin].any() and not memory[begin + count :].any()


def test_what_does_not_lie_in_one_piece_is_put_there_too() -> None:
    target, source = np.zeros(PASSED, np.float32), np.arange(2 * PASSED, dtype=np.float32)[::2]
    put(target, source)
    assert np.array_equal(target, source)
