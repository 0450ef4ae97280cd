"""Random numbers on a simulated GPU: the bits of the streams of `framework.values.random`."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
import pytest

import workbench.ops
from tests.cuda.kernels.device_run import run_kernel
from workbench.cuda.compile import compile_cubin
from workbench.cuda.kernels import random as R
from workbench.cuda.kernels.numbers import NoKernel
from workbench.framework.expr.numpy_functions import numpy_xp
from workbench.framework.values.dtype import as_dtype
from workbench.framework.values.random import RandomStream
from workbench.ops.random.dropout import DROPOUT, UPSCALE

assert workbench.ops
STREAM = RandomStream(seed=0xDEADBEEF12345678, op=3, place=1, step=2**40 + 5, trip=2)
COUNTS = [1, 2, 7, 8, 9, 1023, 1025, 5003]


def drawn(kernel: R.DrawKernel, count: int, *numbers: Any, x: Any = None, seed: int = 0) -> tuple[list[Any], Any]:
    words = np.array(STREAM.state, np.uint64)
    given = [words] + ([] if x is None else [x])
    outs = [((count,), as_dtype(dtype).numpy) for _, dtype in kernel.kernel.operands[len(given) :]]
    after, counted = run_kernel(kernel.kernel, kernel.launch(count, *numbers), [*given, *outs], seed)
    return after[len(given) :], counted


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_uniform_numbers_have_the_bits_of_the_stream(dtype: str) -> None:
    kernel = R.uniform_kernel(dtype)
    for count in COUNTS:
        (got,), counted = drawn(kernel, count, np.float64(1), np.float64(0), np.float64(1), seed=count)
        np.testing.assert_array_equal(got, STREAM.uniform(np, (count,), as_dtype(dtype).numpy))
        assert counted.bank_conflicts == 0


def test_uniform_numbers_between_bounds() -> None:
    low, high = -3.0, 0.7
    most = np.nextafter(np.float32(high), np.float32(low))
    (got,), _ = drawn(R.uniform_kernel("float32"), 999, np.float64(high - low), np.float64(low), np.float64(most))
    want = np.minimum(STREAM.uniform(np, (999,), np.float32) * np.float32(high - low) + np.float32(low), most)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_dropout_is_that_of_the_op(dtype: str) -> None:
    p = 0.3
    least = np.uint32(ceil(float(np.float32(p)) * 2**24))
    for count in (5, 1030):
        x = np.random.default_rng(0).standard_normal(count).astype(as_dtype(dtype).numpy)
        attrs = DROPOUT.complete({"dropout_prob": p, "dropout_implementation": UPSCALE})
        want, mask = DROPOUT.forward(numpy_xp, x, rng=STREAM, **attrs)
        (got, kept), _ = drawn(R.dropout_kernel(dtype), count, least, np.float64(1 / (1 - p)), x=x, seed=2)
        np.testing.assert_array_equal(kept, mask)
        np.testing.assert_array_equal(got, want)
        (again,), _ = drawn(R.dropout_kernel(dtype, False), count, least, np.float64(1 / (1 - p)), x=x)
        np.testing.assert_array_equal(again, want)


def test_few_blocks_go_on_with_further_numbers() -> None:
    kernel, count, one = R.uniform_kernel("float32"), 5003, np.float64(1)
    how = replace(kernel.launch(count, one, np.float64(0), one), grid=(2, 1, 1))
    words = np.array(STREAM.state, np.uint64)
    got = run_kernel(kernel.kernel, how, [words, ((count,), "f")], seed=3)[0][1]
    np.testing.assert_array_equal(got, STREAM.uniform(np, (count,), np.float32))


def test_truths() -> None:
    (got,), _ = drawn(R.truths_kernel(), 777, np.uint32(2**23))
    np.testing.assert_array_equal(got, STREAM.uniform(np, (777,), np.float32) >= 0.5)


@pytest.mark.parametrize(("low", "high"), [(0, 10), (-5, 2**40), (7, 8)])
def test_integers(low: int, high: int) -> None:
    for count in (3, 514):
        (got,), _ = drawn(R.integers_kernel(), count, np.int64(low), np.uint64(high - low))
        np.testing.assert_array_equal(got, STREAM.integers(np, low, high, (count,), np.int64))


def test_chances() -> None:
    x = np.linspace(0, 1, 600, dtype=np.float32)
    (got,), _ = drawn(R.chances_kernel("float32"), 600, x=x)
    np.testing.assert_array_equal(got, STREAM.uniform(np, (600,), np.float64) < x)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal_numbers(dtype: str) -> None:
    for count in (1, 2, 3, 999):
        (got,), _ = drawn(R.normal_kernel(dtype), count, np.float64(1), np.float64(0))
        want = STREAM.normal(np, (count,), dtype)
        np.testing.assert_allclose(got, want, rtol=1e-12 if dtype == "float64" else 1e-6, atol=1e-13)


def test_what_is_drawn_lies_in_whole_sectors() -> None:
    count = 4096
    _, counted = drawn(R.uniform_kernel("float32"), count, np.float64(1), np.float64(0), np.float64(1), seed=1)
    assert counted.stores.sectors == counted.stores.ideal == count * 4 // 32


def test_a_stream_that_goes_on_draws_other_numbers() -> None:
    other = RandomStream(STREAM.seed, STREAM.op, STREAM.place, STREAM.step + 1, STREAM.trip)
    (got,), _ = drawn(R.uniform_kernel("float32"), 100, np.float64(1), np.float64(0), np.float64(1))
    assert (got != other.uniform(np, (100,), np.float32)).any()


def test_integers_are_no_uniform_numbers() -> None:
    with pytest.raises(NoKernel):
        R.uniform_kernel("int64")


@pytest.mark.parametrize("architecture", ["sm_70", "sm_90", "sm_100"])
def test_they_compile_for_the_architectures_we_claim(architecture: str) -> None:
    for kernel in (R.uniform_kernel("bfloat16"), R.dropout_kernel("float16"), R.normal_kernel("float32")):
        assert compile_cubin(kernel.kernel.source, architecture)
