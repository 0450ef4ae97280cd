"""Pooling on a simulated GPU, against the op's NumPy form in double precision."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.cuda.kernels.device_run import run_kernel
from workbench.cuda.compile import compile_cubin
from workbench.cuda.kernels.numbers import NoKernel
from workbench.cuda.kernels.pooling import (
    PooledAxis,
    Pooling,
    average_pool_kernel,
    average_spread_kernel,
    max_pool_kernel,
    max_spread_kernel,
)
from workbench.framework.values.dtype import as_dtype
from workbench.ops.conv.pools.pool import MAX_POOL_WITH_INDEX, POOL, SPREAD, _counts, _pads

NEAR = {"float32": 1e-6, "float64": 1e-14, "float16": 2e-3, "bfloat16": 1.6e-2}
CASES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "2x2": ((2, 3, 8, 10), {"ksize": [2, 2], "strides": [2, 2]}),
    "overlapping": ((1, 2, 9, 7), {"ksize": [3, 2], "strides": [2, 1], "paddings": [1, 1, 0, 1]}),
    "counted padding": (
        (3, 1, 7, 11), {"ksize": [3, 3], "strides": [2, 2], "paddings": [1, 1, 1, 1], "exclusive": False},
    ),
    "ceil": ((2, 2, 8, 9), {"ksize": [3, 3], "strides": [2, 2], "ceil_mode": True, "exclusive": False}),
    "same": ((1, 3, 7, 6), {"ksize": [3, 3], "strides": [2, 2], "padding_algorithm": "SAME"}),
    "adaptive": ((2, 3, 7, 11), {"ksize": [3, 4], "adaptive": True}),
    "more bins": ((1, 2, 3, 2), {"ksize": [5, 3], "adaptive": True}),
    "large": ((2, 2, 20, 19), {"ksize": [9, 8], "strides": [3, 4], "paddings": [2, 1, 3, 0]}),
    "whole": ((3, 5, 9, 13), {"global_pooling": True}),
    "one pixel": ((70, 300, 1, 1), {"ksize": [1, 1]}),
    "channels last": ((2, 7, 5, 3), {"ksize": [2, 3], "strides": [1, 2], "data_format": "NHWC"}),
    "whole, channels last": ((2, 9, 9, 5), {"global_pooling": True, "data_format": "NHWC"}),
}  # fmt: skip


class Case:
    """One pooling with its operands."""

    def __init__(self, name: str, kind: str, dtype: str = "float32", seed: int = 0) -> None:
        shape, attrs = CASES[name]
        self.attrs = POOL.complete({"pooling_type": kind, **attrs})
        is_first = self.attrs["data_format"] == "NCHW"
        dims = shape[2:] if is_first else shape[1:3]
        random = np.random.default_rng(seed)
        self.x = (random.integers(-9, 9, shape) / 4).astype(as_dtype(dtype).numpy)
        self.y = np.asarray(POOL.forward(np, self.x.astype("f8"), **self.attrs))
        self.g = (random.integers(-9, 9, self.y.shape) / 4).astype(self.x.dtype)
        is_whole = self.attrs["global_pooling"]
        pads = ((0, 0), (0, 0)) if is_whole else _pads(dims, self.attrs)
        self.one = Pooling(
            shape[0] * shape[1] if is_first else shape[0],
            1 if is_first else shape[3],
            *(
                PooledAxis(d, c, k, s, p)
                for d, c, k, s, p in zip(
                    dims, _counts(dims, self.attrs), self.attrs["ksize"], self.attrs["strides"], pads, strict=True
                )
            ),
            is_whole or self.attrs["adaptive"],
            self.attrs["exclusive"],
        )

    def places(self, seed: int = 0) -> np.ndarray:
        kernel = max_pool_kernel(self.x.dtype, self.one, has_values=False, has_places=True)
        return run_kernel(kernel.kernel, kernel.launch(self.one), [self.x, (self.y.shape, "i4")], seed)[0][1]


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32"])
def test_maxima_and_where_they_are(name: str, dtype: str) -> None:
    case = Case(name, "max", dtype)
    kernel = max_pool_kernel(case.x.dtype, case.one, has_places=True)
    outs = [(case.y.shape, case.x.dtype), (case.y.shape, "i4")]
    after, _ = run_kernel(kernel.kernel, kernel.launch(case.one), [case.x, *outs], seed=1)
    np.testing.assert_array_equal(after[1].astype("f8"), case.y)
    np.testing.assert_array_equal(after[2], MAX_POOL_WITH_INDEX.forward(np, case.x.astype("f8"), **case.attrs)[1])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_averages_and_their_gradient(name: str, dtype: str) -> None:
    case = Case(name, "avg", dtype)
    kernel = average_pool_kernel(case.x.dtype, case.one)
    out = (case.y.shape, case.x.dtype)
    y = run_kernel(kernel.kernel, kernel.launch(case.one), [case.x, out], seed=1)[0][1]
    np.testing.assert_allclose(y.astype("f8"), case.y, NEAR[dtype], NEAR[dtype])
    spread = average_spread_kernel(case.x.dtype, case.one)
    got = run_kernel(spread.kernel, spread.launch(case.one), [case.g, (case.x.shape, case.x.dtype)], seed=2)[0][1]
    want = SPREAD.forward(np, case.x.astype("f8"), case.g.astype("f8"), **case.attrs)
    np.testing.assert_allclose(got.astype("f8"), want, NEAR[dtype], 3 * NEAR[dtype])


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_the_gradient_of_maxima(name: str, dtype: str) -> None:
    case = Case(name, "max", dtype)
    spread = max_spread_kernel(case.x.dtype, case.one)
    operands = [case.g, case.places(), (case.x.shape, case.x.dtype)]
    got = run_kernel(spread.kernel, spread.launch(case.one), operands, seed=2)[0][2]
    want = SPREAD.forward(np, case.x.astype("f8"), case.g.astype("f8"), **case.attrs)
    np.testing.assert_allclose(got.astype("f8"), want, NEAR[dtype], 3 * NEAR[dtype])


def test_a_maximum_beside_nan_is_nan_and_the_first_of_them_is_its_place() -> None:
    for name in ("2x2", "large", "adaptive"):
        case = Case(name, "max")
        case.x.ravel()[[11, 12]] = np.nan
        kernel = max_pool_kernel("float32", case.one, has_places=True)
        outs = [(case.y.shape, "f"), (case.y.shape, "i4")]
        _, y, places = run_kernel(kernel.kernel, kernel.launch(case.one), [case.x, *outs])[0]
        np.testing.assert_array_equal(y, POOL.forward(np, case.x, **case.attrs))
        planes, windows = case.x.reshape(case.one.outer, -1), places.reshape(case.one.outer, -1)
        np.testing.assert_array_equal(np.take_along_axis(planes, windows, 1).reshape(y.shape), y)


def test_minus_infinity_has_a_place() -> None:
    case = Case("overlapping", "max")
    case.x[...] = -np.inf
    assert (case.places() == MAX_POOL_WITH_INDEX.forward(np, case.x, **case.attrs)[1]).all()


def test_bits_are_the_same_whatever_the_order_of_threads() -> None:
    case = Case("large", "avg")
    case.x += np.random.default_rng(0).random(case.x.shape, np.float32)
    for kernel, given, shape in [
        (average_pool_kernel("float32", case.one), case.x, case.y.shape),
        (average_spread_kernel("float32", case.one), case.g, case.x.shape),
    ]:
        runs = [
            run_kernel(kernel.kernel, kernel.launch(case.one), [given, (shape, "f")], seed)[0][1] for seed in range(4)
        ]
        assert len({run.tobytes() for run in runs}) == 1


def test_few_blocks_go_on_with_further_windows() -> None:
    for name in ("overlapping", "large", "channels last"):
        case = Case(name, "avg")
        for kernel, given, shape in [
            (average_pool_kernel("float32", case.one), case.x, case.y.shape),
            (average_spread_kernel("float32", case.one), case.g, case.x.shape),
        ]:
            how = kernel.launch(case.one)
            few = replace(how, grid=(1, 1, 1), block=(32, 1, 1))
            runs = [run_kernel(kernel.kernel, one, [given, (shape, "f")])[0][1] for one in (how, few)]
            np.testing.assert_array_equal(*runs)


def test_pooling_2x2_moves_whole_sectors() -> None:
    one = Pooling(4, 1, PooledAxis(32, 16, 2, 2), PooledAxis(64, 32, 2, 2))
    x = np.ones((4, 32, 64), np.float32)
    kernel = max_pool_kernel("float32", one)
    _, counted = run_kernel(kernel.kernel, kernel.launch(one), [x, ((4, 16, 32), "f")], seed=1)
    assert counted.stores.sectors == counted.stores.ideal
    assert counted.loads.nbytes == x.nbytes, "entries are read once"


def test_a_kernel_refuses_windows_of_another_kind() -> None:
    kernel = max_pool_kernel("float32", Pooling(1, 1, PooledAxis(8, 4, 2, 2), PooledAxis(8, 4, 2, 2)))
    assert not kernel.launch(Pooling(3, 5, PooledAxis(9, 3, 3, 3), PooledAxis(9, 3, 3, 3))).is_empty
    assert kernel.launch(Pooling(0, 5, PooledAxis(9, 3, 3, 3), PooledAxis(9, 3, 3, 3))).is_empty
    with pytest.raises(NoKernel):
        kernel.launch(Pooling(1, 1, PooledAxis(8, 4), PooledAxis(8, 4), is_adaptive=True))
    with pytest.raises(NoKernel):
        kernel.launch(Pooling(1, 1, PooledAxis(20, 2, 10, 10), PooledAxis(20, 2, 10, 10)))


@pytest.mark.parametrize("architecture", ["sm_70", "sm_90", "sm_100"])
def test_they_compile_for_the_architectures_we_claim(architecture: str) -> None:
    for name in ("large", "adaptive"):
        one = Case(name, "max").one
        for make in (max_pool_kernel, average_pool_kernel, max_spread_kernel, average_spread_kernel):
            assert compile_cubin(make("bfloat16", one).kernel.source, architecture)
