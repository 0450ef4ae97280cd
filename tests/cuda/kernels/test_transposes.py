"""Transposes and copies on a simulated GPU: every byte where it belongs, whole sectors, no bank conflicts."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from tests.cuda.kernels.device_run import run_kernel
from workbench.cuda.compile import compile_cubin
from workbench.cuda.kernels.numbers import NoKernel
from workbench.cuda.kernels.transposes import move_kernel, strided_copy, transposed

ITEMS = {1: "uint8", 2: "float16", 4: "float32", 8: "float64"}


@pytest.mark.parametrize("permutation", list(permutations(range(4))), ids=str)
def test_every_order_of_four_dimensions(permutation: tuple[int, ...]) -> None:
    shape = (3, 5, 2, 37)
    x = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    one = transposed(shape, permutation)
    kernel = move_kernel("float32", one)
    want = x.transpose(permutation)
    got = run_kernel(kernel.kernel, kernel.launch(one), [x, (want.shape, "f")], seed=1)[0][1]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("item", ITEMS)
def test_tiles_of_every_size_of_elements(item: int) -> None:
    rng = np.random.default_rng(item)
    for shape in [(64, 96), (33, 31), (1, 70), (70, 1), (2, 65, 40)]:
        x = rng.integers(0, 250, shape).astype(ITEMS[item])
        order = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
        one = transposed(shape, order)
        kernel = move_kernel(x.dtype, one)
        want = x.transpose(order)
        after, counted = run_kernel(kernel.kernel, kernel.launch(one), [x, (want.shape, x.dtype)], seed=2)
        np.testing.assert_array_equal(after[1], want)
        assert counted.bank_conflicts == 0
        if shape == (64, 96):
            assert counted.loads.sectors == counted.loads.ideal
            assert counted.stores.sectors == counted.stores.ideal


def test_a_copy_with_gaps_and_repetitions() -> None:
    x = np.arange(60, dtype=np.int64)
    one = strided_copy((4, 3, 5), (10, 0, 2))
    kernel = move_kernel("int64", one)
    want = np.lib.stride_tricks.as_strided(x, (4, 3, 5), (80, 0, 16))
    np.testing.assert_array_equal(run_kernel(kernel.kernel, kernel.launch(one), [x, ((4, 3, 5), "i8")])[0][1], want)


def test_one_element_and_nothing() -> None:
    one = strided_copy((1, 1), (7, 3))
    kernel = move_kernel("float32", one)
    x = np.array([5.0], "f")
    assert run_kernel(kernel.kernel, kernel.launch(one), [x, ((1,), "f")])[0][1][0] == 5
    empty = transposed((0, 4), (1, 0))
    assert move_kernel("float32", empty).launch(empty).is_empty


def test_a_kernel_serves_other_sizes_and_refuses_other_orders() -> None:
    kernel = move_kernel("float32", transposed((3, 4, 5), (0, 2, 1)))
    other = transposed((2, 9, 40), (0, 2, 1))
    x = np.random.default_rng(0).random((2, 9, 40), np.float32)
    got = run_kernel(kernel.kernel, kernel.launch(other), [x, ((2, 40, 9), "f")])[0][1]
    np.testing.assert_array_equal(got, x.transpose(0, 2, 1))
    with pytest.raises(NoKernel):
        kernel.launch(transposed((2, 9, 40), (2, 1, 0)))


@pytest.mark.parametrize("architecture", ["sm_70", "sm_90", "sm_100"])
def test_they_compile_for_the_architectures_we_claim(architecture: str) -> None:
    one = transposed((3, 4, 5), (0, 2, 1))
    assert all(compile_cubin(move_kernel(dtype, one).kernel.source, architecture) for dtype in ITEMS.values())
