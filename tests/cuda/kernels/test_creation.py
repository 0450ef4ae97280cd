"""Fills, ranges, unit matrices, triangles and counts on a simulated GPU, against the ops' NumPy forms."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cuda.kernels.device_run import run_kernel
from workbench.cuda.compile import compile_cubin
from workbench.cuda.kernels.creation import (
    ArrayKernel,
    accuracy_kernel,
    fill_kernel,
    label_count_kernel,
    linear_kernel,
    range_kernel,
    triangle_kernel,
    unit_kernel,
)
from workbench.framework.op.record import find_op
from workbench.framework.values.dtype import as_dtype

DTYPES = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool"]


def elements(one: ArrayKernel, dtype: str, count: int, *numbers: np.generic) -> np.ndarray:
    out = ((count,), as_dtype(dtype).numpy)
    return run_kernel(one.kernel, one.launch(count, *numbers), [out], seed=1)[0][0]


@pytest.mark.parametrize("dtype", DTYPES)
def test_fills(dtype: str) -> None:
    kind = np.float64 if as_dtype(dtype).is_float else np.int64
    for value in (0, 1, 2**53 + 1 if dtype == "int64" else 7):
        got = elements(fill_kernel(dtype), dtype, 301, kind(value))
        np.testing.assert_array_equal(got, np.full(301, value).astype(got.dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int32"])
def test_ranges(dtype: str) -> None:
    kind = np.float64 if as_dtype(dtype).is_float else np.int64
    for start, end, step in [(0, 300, 1), (5, -7, -3), (0.25, 3, 0.1) if kind is np.float64 else (2, 90, 7)]:
        want = find_op("range").forward(np, start=start, end=end, step=step, dtype=dtype)
        np.testing.assert_array_equal(elements(range_kernel(dtype), dtype, want.size, kind(start), kind(step)), want)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_equal_distances(dtype: str) -> None:
    for start, stop, num in [(0.0, 1.0, 7), (-3.5, 12.25, 300), (2.0, 9.0, 1), (1.0, 1.0, 4)]:
        want = find_op("linspace").forward(np, start=start, stop=stop, num=num, dtype=dtype)
        step = (stop - start) / (num - 1) if num > 1 else 0.0
        got = elements(linear_kernel(dtype), dtype, num, np.float64(start), np.float64(step), np.float64(stop))
        np.testing.assert_allclose(got, want, rtol=1e-15 if dtype == "float64" else 1e-7)


def test_unit_matrices() -> None:
    for rows, columns in [(1, 1), (20, 17), (3, 40)]:
        for dtype in ("float32", "bfloat16", "int64"):
            got = elements(unit_kernel(dtype), dtype, rows * columns, np.int64(columns))
            np.testing.assert_array_equal(got.reshape(rows, columns), np.eye(rows, columns))


@pytest.mark.parametrize("diagonal", [-2, 0, 1, 50])
def test_triangles(diagonal: int) -> None:
    for dtype in ("float32", "bfloat16", "int64"):
        x = (np.arange(3 * 7 * 9) % 50 + 1).reshape(3, 7, 9).astype(as_dtype(dtype).numpy)
        for is_lower, function in ((True, np.tril), (False, np.triu)):
            one = triangle_kernel(dtype, is_lower)
            how = one.launch(x.size, *map(np.int64, (7, 9, diagonal)))
            got = run_kernel(one.kernel, how, [x, (x.shape, x.dtype)], seed=1)[0][1]
            np.testing.assert_array_equal(got, function(x, diagonal))


@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_labels_are_counted(dtype: str) -> None:
    one = label_count_kernel(dtype)
    for count in (1, 5, 511, 2000):
        label = np.random.default_rng(count).integers(0, 3, count).astype(dtype)
        for ignored in (-100, 2):
            want = find_op("count_labels").forward(np, label, ignore_index=ignored, dtype="float32", zero_dim=False)
            got = run_kernel(one.kernel, one.launch(count, ignored), [label, ((1,), "f")], seed=1)[0][1]
            np.testing.assert_array_equal(got, want)
    nothing = np.zeros(4, dtype)
    assert run_kernel(one.kernel, one.launch(4, 0), [nothing, ((1,), "f")])[0][1][0] == 1


@pytest.mark.parametrize("guesses", [1, 3])
def test_accuracy(guesses: int) -> None:
    one = accuracy_kernel()
    for rows in (1, 37, 700):
        random = np.random.default_rng(rows)
        indices, label = random.integers(0, 5, (rows, guesses)), random.integers(0, 5, rows)
        outs = [((1,), "f"), ((1,), "i4"), ((1,), "i4")]
        results = run_kernel(one.kernel, one.launch(rows, guesses), [indices, label, *outs], seed=1)[0][2:]
        want = find_op("accuracy").forward(np, indices, indices, label, zero_dim=False)
        for got, expected in zip(results, want, strict=True):
            np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("architecture", ["sm_70", "sm_90", "sm_100"])
def test_they_compile_for_the_architectures_we_claim(architecture: str) -> None:
    kernels = [fill_kernel("bfloat16"), range_kernel("float16"), linear_kernel("int32"), unit_kernel("bool")]
    for kernel in (*[one.kernel for one in kernels], accuracy_kernel().kernel, label_count_kernel("int32").kernel):
        assert compile_cubin(kernel.source, architecture)
