"""Products of simulated devices, against NumPy in float64 within what the mode may round."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

from workbench.cuda.driver import CudaError, Product
from workbench.cuda.simulated.accesses import UnorderedAccess
from workbench.cuda.simulated.device import SimulatedDriver
from workbench.cuda.simulated.machine import UndefinedValues
from workbench.cuda.simulated.products import rounded_to_tf32

NUMPY = {name: np.dtype(name) for name in ("float16", "float32", "float64")} | {
    "bfloat16": np.dtype(ml_dtypes.bfloat16)
}
EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-22, "float64": 2.0**-51, "tf32": 2.0**-10}


def machine() -> tuple[SimulatedDriver, int, int]:
    driver = SimulatedDriver(1, schedule="random", deadline_seconds=0.2)
    stream = driver.create_stream()
    return driver, stream, driver.create_products(stream, driver.allocate(1024), 1024)


def put(driver: SimulatedDriver, array: np.ndarray) -> int:
    address = driver.allocate(array.nbytes)
    driver.write(address, array)
    return address


@pytest.mark.parametrize("dtype", sorted(EPSILON))
@pytest.mark.parametrize(("transpose_a", "transpose_b"), [*itertools.product([False, True], repeat=2)])
@pytest.mark.parametrize(
    ("m", "n", "k", "batch", "gap", "accumulate"), [(1, 1, 1, 1, 0, False), (7, 5, 33, 3, 2, True)]
)
def test_a_product_is_numpys(
    dtype: str, transpose_a: bool, transpose_b: bool, m: int, n: int, k: int, batch: int, gap: int, accumulate: bool
) -> None:
    driver, stream, handle = machine()
    kind = NUMPY[{"tf32": "float32"}.get(dtype, dtype)]
    random = np.random.default_rng(1)
    shape_a, shape_b = (k, m) if transpose_a else (m, k), (n, k) if transpose_b else (k, n)
    a, b, c = (
        random.standard_normal((batch, rows, columns + gap)).astype(kind)
        for rows, columns in (shape_a, shape_b, (m, n))
    )
    at_a, at_b, at_c = put(driver, a), put(driver, b), put(driver, c)
    product = Product(
        m, n, k, kind.name, transpose_a, transpose_b, shape_a[1] + gap, shape_b[1] + gap, n + gap, batch,
        a[0].size, b[0].size, c[0].size, alpha=0.5, accumulate=accumulate, tf32=dtype == "tf32",
    )  # fmt: skip
    driver.multiply(handle, product, at_a, at_b, at_c)
    driver.synchronize_stream(stream)
    result = np.empty_like(c)
    driver.read(result, at_c)

    left, right = a[:, :, : shape_a[1]].astype("f8"), b[:, :, : shape_b[1]].astype("f8")
    left, right = left.swapaxes(1, 2) if transpose_a else left, right.swapaxes(1, 2) if transpose_b else right
    before = c[:, :, :n].astype("f8") if accumulate else 0.0
    expected, scale = 0.5 * left @ right + before, 0.5 * abs(left) @ abs(right) + abs(before) + 1e-30
    assert (abs(result[:, :, :n].astype("f8") - expected) <= 2 * EPSILON[dtype] * scale).all()
    assert (result[:, :, n:] == c[:, :, n:]).all()  # what lies between the rows stays as it is


def test_tf32_is_coarser_than_float32_and_only_where_it_is_allowed() -> None:
    driver, stream, handle = machine()
    a = put(driver, np.array([1 + 2.0**-12], np.float32))
    c = put(driver, np.zeros(2, np.float32))
    driver.multiply(handle, Product(1, 1, 1, "float32"), a, a, c)
    driver.multiply(handle, Product(1, 1, 1, "float32", tf32=True), a, a, c + 4)
    driver.synchronize_stream(stream)
    result = np.empty(2, np.float32)
    driver.read(result, c)
    assert result[0] > 1 and result[1] == 1


def test_rounding_to_tf32() -> None:
    step = 2.0**-10
    values = np.array([1 + step / 2, 1 + step * 0.499, -1 - step / 2, np.inf, -np.inf, 0.0], np.float32)
    assert rounded_to_tf32(values).tolist() == [1 + step, 1.0, -1 - step, np.inf, -np.inf, 0.0]
    assert np.isnan(rounded_to_tf32(np.array([np.nan], np.float32))).all()


def test_what_lies_between_rows_need_not_have_been_written() -> None:
    driver, stream, handle = machine()
    a, b, c = driver.allocate(24), put(driver, np.array([1.0])), driver.allocate(24)
    for row in range(2):
        driver.write(a + 16 * row, np.array([row + 1.0]))
    driver.multiply(handle, Product(2, 1, 1, "float64", lda=2, ldc=2), a, b, c)
    driver.synchronize_stream(stream)
    result = np.empty(1)
    for row in range(2):
        driver.read(result, c + 16 * row)
        assert result.tolist() == [row + 1.0]
    with pytest.raises(UndefinedValues):
        driver.read(result, c + 8)


def test_a_matrix_of_stride_nothing_serves_the_whole_batch() -> None:
    driver, stream, handle = machine()
    a, b = put(driver, np.arange(6, dtype=np.float64)), put(driver, np.array([2.0]))
    c = put(driver, np.zeros(6))
    product = Product(2, 1, 1, "float64", batch=3, stride_a=2, stride_b=0, stride_c=2)
    driver.multiply(handle, product, a, b, c)
    driver.synchronize_stream(stream)
    result = np.empty(6)
    driver.read(result, c)
    assert result.tolist() == [0, 2, 4, 6, 8, 10]


def test_without_a_sum_the_result_is_nothing() -> None:
    driver, stream, handle = machine()
    c = put(driver, np.ones(4))
    driver.multiply(handle, Product(2, 2, 0, "float64"), 0, 0, c)
    driver.synchronize_stream(stream)
    result = np.empty(4)
    driver.read(result, c)
    assert result.tolist() == [0] * 4


def test_what_a_product_may_not_do() -> None:
    driver, stream, handle = machine()
    a, c = put(driver, np.ones(4)), put(driver, np.ones(4))
    with pytest.raises(CudaError, match="lda is 1, less than the 2 elements of a row"):
        driver.multiply(handle, Product(2, 2, 2, "float64", lda=1), a, a, c)
    with pytest.raises(CudaError, match="not of int32"):
        driver.multiply(handle, Product(2, 2, 2, "int32"), a, a, c)
    with pytest.raises(CudaError, match="no workspace of 2048 bytes"):
        driver.create_products(stream, driver.allocate(1024), 2048)
    with pytest.raises(UndefinedValues):
        driver.multiply(handle, Product(2, 2, 2, "float64"), a, driver.allocate(32), c)
        driver.synchronize_stream(stream)


def test_two_streams_do_not_share_a_workspace() -> None:
    driver = SimulatedDriver(1, schedule="late")
    streams = [driver.create_stream() for _ in range(2)]
    workspace, a = driver.allocate(64), put(driver, np.ones(1))
    for stream in streams:
        handle = driver.create_products(stream, workspace, 64)
        driver.multiply(handle, Product(1, 1, 1, "float64"), a, a, put(driver, np.ones(1)))
    with pytest.raises(UnorderedAccess):
        driver.synchronize_device()
