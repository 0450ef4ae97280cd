"""Order on a simulated GPU: sorts, the best of rows, positions of extremes; against the ops' NumPy forms."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.cuda.kernels.device_run import run_kernel
from workbench.cuda.compile import compile_cubin
from workbench.cuda.kernels.numbers import NoKernel
from workbench.cuda.kernels.ordering import (
    MOST_BEST,
    SortStep,
    best_steps,
    extreme_kernel,
    run_merge,
    sort_steps,
    tile_size,
    tile_sort,
)
from workbench.framework.op.record import find_op
from workbench.framework.values.dtype import as_dtype

SIZES = [(1, 1, 1), (3, 7, 1), (2, 33, 5), (70, 3, 1), (1, 1024, 1), (2, 1025, 1), (1, 2600, 2)]
"""Of rows: how many before, entries, how many side by side."""


def keys(shape: Sequence[int], dtype: str, seed: int = 0) -> np.ndarray:
    """Numbers of which many are equal, with what is not finite and both zeros among them."""
    random = np.random.default_rng(seed)
    x = random.integers(-9, 9, shape).astype("f8")
    if as_dtype(dtype).is_float:
        special = random.choice([np.nan, np.inf, -np.inf, 0.0, -0.0], shape)
        x = np.where(random.random(shape) < 0.2, special, x)
    return x.astype(as_dtype(dtype).numpy)


def ordered(steps: list[SortStep], x: np.ndarray, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Entries and places after all steps."""
    outer, _, inner = x.shape
    given = [x]
    for step in steps:
        shape = (outer, step.kept, inner)
        operands = [*given, (shape, x.dtype), (shape, "i8")]
        given = run_kernel(step.kernel, step.launch, operands, seed)[0][-2:]
    return given[0], given[1]


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("is_descending", [False, True])
def test_sorts(sizes: tuple[int, int, int], is_descending: bool) -> None:
    for dtype in ("float32", "float16", "int64") if sizes[1] < 1000 else ("float32",):
        x = keys(sizes, dtype)
        y, places = ordered(sort_steps(dtype, *sizes, is_descending), x, seed=1)
        wide = x.astype("f8") if as_dtype(dtype).is_float else x
        want, order = find_op("argsort").forward(np, wide, axis=1, descending=is_descending)
        np.testing.assert_array_equal(places, order)
        np.testing.assert_array_equal(y.astype(want.dtype), want)
        assert y.tobytes() == np.take_along_axis(x, order, 1).tobytes(), "the zeros keep their signs"


@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("is_largest", [False, True])
def test_the_best_of_rows(sizes: tuple[int, int, int], is_largest: bool) -> None:
    for dtype in ("float32", "bfloat16", "int32") if sizes[1] < 1000 else ("float32",):
        x = keys(sizes, dtype, 1)
        for count in {min(5, sizes[1]), min(MOST_BEST, sizes[1])}:
            y, places = ordered(best_steps(dtype, *sizes, count, is_largest), x, seed=1)
            wide = x.astype("f8")
            want, order = find_op("top_k_v2").forward(np, wide, k=count, axis=1, largest=is_largest, sorted=True)
            np.testing.assert_array_equal(places, order)
            np.testing.assert_array_equal(y.astype("f8"), want)


@pytest.mark.parametrize("sizes", [*SIZES[:5], (300, 9, 1), (2, 5, 300), (2, 5000, 1)], ids=str)
def test_positions_of_extremes(sizes: tuple[int, int, int]) -> None:
    for dtype in ("float32", "float64", "float16", "int64", "bool"):
        x = keys(sizes, dtype, 2)
        for is_largest, function in ((True, np.argmax), (False, np.argmin)):
            kernel = extreme_kernel(dtype, sizes[2], is_largest, "int32", sizes[1])
            shape = (sizes[0], sizes[2])
            y = run_kernel(kernel.kernel, kernel.launch(*sizes), [x, (shape, "i4")], seed=1)[0][1]
            np.testing.assert_array_equal(y, function(x.astype("f8"), 1))


def test_a_team_for_short_rows_goes_through_long_ones_too() -> None:
    x = keys((2, 5000, 1), "float32")
    kernel = extreme_kernel("float32", 1, True)
    y = run_kernel(kernel.kernel, kernel.launch(2, 5000, 1), [x, ((2, 1), "i8")])[0][1]
    np.testing.assert_array_equal(y, np.argmax(x, 1))


def test_results_are_the_same_whatever_the_order_of_threads() -> None:
    x = keys((2, 1500, 1), "float32")
    runs = {ordered(sort_steps("float32", 2, 1500, 1, True), x, seed)[1].tobytes() for seed in range(4)}
    assert len(runs) == 1


def test_a_sort_takes_a_step_for_every_doubling() -> None:
    assert [len(sort_steps("float32", 3, width, 1, False)) for width in (5, 1024, 1025, 4096, 4097)] == [1, 1, 2, 3, 4]
    assert [step.kept for step in best_steps("float32", 3, 10_000, 1, 10, True)] == [100, 10]


def test_nothing_is_sorted_by_no_launch() -> None:
    assert all(step.launch.is_empty for step in sort_steps("float32", 0, 5, 1, False))
    assert all(step.launch.is_empty for step in sort_steps("float32", 5, 0, 1, False))


def test_sorted_tiles_move_whole_sectors() -> None:
    x = keys((2, 1024, 1), "float32")
    step = sort_steps("float32", 2, 1024, 1, False)[0]
    _, counted = run_kernel(step.kernel, step.launch, [x, (x.shape, "f"), (x.shape, "i8")], 1)
    assert counted.loads.sectors == counted.loads.ideal
    assert counted.stores.sectors == counted.stores.ideal


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(NoKernel):
        best_steps("float32", 1, 5000, 1, MOST_BEST + 1, True)
    with pytest.raises(NoKernel):
        tile_sort("float32", 5, True).launch(1, 500, 1)
    with pytest.raises(NoKernel):
        extreme_kernel("float32", 1, True).launch(1, 5, 2)
    assert [tile_size(width) for width in (1, 2, 3, 1000, 5000)] == [2, 2, 4, 1024, 1024]


@pytest.mark.parametrize("architecture", ["sm_70", "sm_90", "sm_100"])
def test_they_compile_for_the_architectures_we_claim(architecture: str) -> None:
    kernels = [tile_sort("bfloat16", 99, True, goes_on=True), run_merge("float16", False)]
    for kernel in (*[one.kernel for one in kernels], extreme_kernel("bfloat16", 1, False, width=5000).kernel):
        assert compile_cubin(kernel.source, architecture)
