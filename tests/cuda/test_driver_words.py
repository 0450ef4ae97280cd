"""What both bodies share: errors in the house's words, packed arguments, products column by column."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from workbench.cuda.cublas import DATA_TYPES, SIGNATURES, Cublas, CublasError
from workbench.cuda.driver import CudaError, CudaOutOfMemory, PackedArguments, Product, translates
from workbench.errors import NoMemory


class LibraryError(RuntimeError):
    pass


@translates(LibraryError)
class FailingBody:
    def allocate(self, message: str) -> None:
        raise LibraryError(message)

    def other(self) -> None:
        raise KeyError("x")


def test_errors_of_the_library_become_errors_of_the_house() -> None:
    with pytest.raises(CudaError, match="allocate: cudaErrorIllegalAddress: an illegal") as caught:
        FailingBody().allocate("cudaErrorIllegalAddress: an illegal memory access")
    assert caught.value.code == "cudaErrorIllegalAddress" and isinstance(caught.value.__cause__, LibraryError)
    with pytest.raises(NoMemory):
        FailingBody().allocate("cudaErrorMemoryAllocation: out of memory")
    with pytest.raises(CudaOutOfMemory):
        FailingBody().allocate("CUBLAS_STATUS_ALLOC_FAILED from cublasCreate_v2")
    with pytest.raises(CudaError, match="no code here") as without:
        FailingBody().allocate("no code here")
    assert without.value.code == "" and not isinstance(without.value, NoMemory)


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(KeyError):
        FailingBody().other()


def test_arguments_are_packed_by_value() -> None:
    args: list[np.generic | int] = [1 << 40, np.float32(1.5), np.int64(-3), np.bool_(True), ml_dtypes.bfloat16(2.5)]  # type: ignore[list-item]
    packed = PackedArguments(args)
    pointers = (ctypes.c_void_p * 5).from_address(packed.address)
    sizes = (8, 4, 8, 1, 2)
    read = [ctypes.string_at(pointer or 0, size) for pointer, size in zip(pointers, sizes, strict=True)]
    expected = [np.uint64(1 << 40), np.float32(1.5), np.int64(-3), np.bool_(True), ml_dtypes.bfloat16(2.5)]
    assert read == [np.asarray(value).tobytes() for value in expected]


NUMPY = {0: np.dtype("f4"), 1: np.dtype("f8"), 2: np.dtype("f2"), 14: np.dtype(ml_dtypes.bfloat16)}


def column_matrix(address: int, rows: int, columns: int, leading: int, dtype: np.dtype) -> np.ndarray:
    """A matrix as cuBLAS reads memory: entry (i, j) lies at `i + j * leading`."""
    assert leading >= rows
    memory = np.frombuffer((ctypes.c_char * (leading * columns * dtype.itemsize)).from_address(address), dtype)
    return memory.reshape(columns, leading)[:, :rows].T


def documented_gemm(*args: Any) -> int:
    """`cublasGemmStridedBatchedEx` as the library's documentation describes it."""
    _, op_a, op_b, m, n, k, alpha, a, kind_a, lda, stride_a, b, kind_b, ldb, stride_b = args[:15]
    beta, c, kind_c, ldc, stride_c, batch, compute, algorithm = args[15:]
    assert kind_a == kind_b == kind_c and algorithm == -1 and (compute == 70) == (kind_a == 1)
    scalar = ctypes.c_double if compute == 70 else ctypes.c_float
    alpha, beta = scalar.from_address(alpha).value, scalar.from_address(beta).value
    dtype = NUMPY[kind_a]
    for i in range(batch):
        at_a, at_b, at_c = (p + i * s * dtype.itemsize for p, s in ((a, stride_a), (b, stride_b), (c, stride_c)))
        left = column_matrix(at_a, *((k, m) if op_a else (m, k)), lda, dtype).astype("f8")
        right = column_matrix(at_b, *((n, k) if op_b else (k, n)), ldb, dtype).astype("f8")
        result = column_matrix(at_c, m, n, ldc, dtype)
        total = alpha * (left.T if op_a else left) @ (right.T if op_b else right)
        result[:] = (total + beta * result.astype("f8") if beta else total).astype(dtype)
    return 0


def documented_library(log: list[str], status: int = 0) -> SimpleNamespace:
    def answer(name: str) -> Callable[..., int]:
        def call(*args: Any) -> int:
            log.append(name)
            if name == "cublasCreate_v2":
                ctypes.c_void_p.from_address(args[0]).value = 77
            return documented_gemm(*args) if "Gemm" in name and not status else status

        return call

    return SimpleNamespace(**{name: Typed(answer(name)) for name in SIGNATURES})


class Typed:
    """A function of a library: arguments come to it through the types that were declared, as ctypes passes them."""

    argtypes: tuple[Any, ...] = ()
    restype: Any = None

    def __init__(self, body: Callable[..., int]) -> None:
        self.body = body

    def __call__(self, *args: Any) -> int:
        call = ctypes.CFUNCTYPE(self.restype, *self.argtypes)(self.body)
        return int(call(*args))


@pytest.mark.parametrize("dtype", sorted(DATA_TYPES))
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize(("batch", "gap", "accumulate"), [(1, 0, False), (3, 2, True)])
def test_a_product_of_rows_is_what_cublas_is_asked_for(
    dtype: str, transpose_a: bool, transpose_b: bool, batch: int, gap: int, accumulate: bool
) -> None:
    m, n, k = 3, 5, 4
    random = np.random.default_rng(3)
    kind = NUMPY[DATA_TYPES[dtype]]
    shape_a, shape_b = (k, m) if transpose_a else (m, k), (n, k) if transpose_b else (k, n)
    a, b, c = (
        random.integers(-3, 4, (batch, rows, columns + gap)).astype(kind)
        for rows, columns in (shape_a, shape_b, (m, n))
    )
    product = Product(
        m, n, k, dtype, transpose_a, transpose_b, shape_a[1] + gap, shape_b[1] + gap, n + gap, batch,
        a[0].size, b[0].size, c[0].size, alpha=2.0, accumulate=accumulate,
    )  # fmt: skip
    left, right = a[:, :, : shape_a[1]].astype("f8"), b[:, :, : shape_b[1]].astype("f8")
    left, right = left.swapaxes(1, 2) if transpose_a else left, right.swapaxes(1, 2) if transpose_b else right
    expected = c.astype("f8")
    expected[:, :, :n] = 2.0 * left @ right + (expected[:, :, :n] if accumulate else 0)

    library = Cublas(documented_library([]))
    library.multiply(library.create(5, 6, 7), product, a.ctypes.data, b.ctypes.data, c.ctypes.data)
    np.testing.assert_array_equal(c.astype("f8"), expected)


def test_leading_dimensions_left_open_are_those_of_rows_without_gaps() -> None:
    assert Product(3, 5, 4, "float32").leading() == (4, 5, 5)
    assert Product(3, 5, 4, "float32", transpose_a=True, transpose_b=True).leading() == (3, 4, 5)


def test_the_stream_is_set_before_the_workspace() -> None:
    log: list[str] = []
    library = Cublas(documented_library(log))
    handle = library.create(5, 6, 7)
    library.destroy(handle)
    assert handle == 77 and log.index("cublasSetStream_v2") < log.index("cublasSetWorkspace_v2")
    assert log[0] == "cublasCreate_v2" and log[-1] == "cublasDestroy_v2"


def test_a_status_has_its_name() -> None:
    with pytest.raises(CublasError, match="CUBLAS_STATUS_ALLOC_FAILED from cublasCreate_v2"):
        Cublas(documented_library([], status=3)).create(5, 6, 7)
    with pytest.raises(CudaError, match="not of int8"):
        Cublas(documented_library([])).multiply(77, Product(1, 1, 1, "int8"), 0, 0, 0)
