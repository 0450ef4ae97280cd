"""Products of matrices by cuBLAS, called through ctypes: CuPy's own calls refuse to be captured into a graph.

cuBLAS keeps matrices column by column. A matrix that lies row by row is, read that way, its transpose; so the library
is asked for `c^T = b^T @ a^T`, and nothing is copied.

No hardware has confirmed this file. Its tests call a cuBLAS written in NumPy from the library's documentation; that the
true one has these functions, arguments and numbers is read there, not tried.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from workbench.cuda.driver import CudaError, Product

STATUS = {
    1: "CUBLAS_STATUS_NOT_INITIALIZED",
    3: "CUBLAS_STATUS_ALLOC_FAILED",
    7: "CUBLAS_STATUS_INVALID_VALUE",
    8: "CUBLAS_STATUS_ARCH_MISMATCH",
    11: "CUBLAS_STATUS_MAPPING_ERROR",
    13: "CUBLAS_STATUS_EXECUTION_FAILED",
    14: "CUBLAS_STATUS_INTERNAL_ERROR",
    15: "CUBLAS_STATUS_NOT_SUPPORTED",
}
DATA_TYPES = {"float32": 0, "float64": 1, "float16": 2, "bfloat16": 14}  # cudaDataType
SUMS_IN_FLOAT32, SUMS_IN_FLOAT64, SUMS_OF_TF32 = 68, 70, 77  # cublasComputeType_t
DEFAULT_ALGORITHM = -1
KEEP, TRANSPOSE = 0, 1  # cublasOperation_t
NO_REDUCED_SUMS = 16  # cublasMath_t: halves are added in float32, also where a product is split along k

_POINTER, _INT, _LONG = ctypes.c_void_p, ctypes.c_int, ctypes.c_longlong
SIGNATURES: dict[str, tuple[Any, ...]] = {
    "cublasCreate_v2": (_POINTER,),
    "cublasDestroy_v2": (_POINTER,),
    "cublasSetStream_v2": (_POINTER, _POINTER),
    "cublasSetWorkspace_v2": (_POINTER, _POINTER, ctypes.c_size_t),
    "cublasSetMathMode": (_POINTER, _INT),
    "cublasGemmStridedBatchedEx": (
        (_POINTER, _INT, _INT, _INT, _INT, _INT, _POINTER)
        + (_POINTER, _INT, _INT, _LONG) * 2
        + (_POINTER, _POINTER, _INT, _INT, _LONG, _INT, _INT, _INT)
    ),
}


class CublasError(RuntimeError):
    """A call returned a status other than success."""


@dataclass(frozen=True)
class ColumnProduct:
    """A `Product` as cuBLAS wants it: the matrices in exchanged places, sizes and codes in the library's numbers."""

    operations: tuple[int, int]
    sizes: tuple[int, int, int]
    leading: tuple[int, int, int]
    strides: tuple[int, int, int]
    batch: int
    data_type: int
    compute_type: int


def column_product(product: Product) -> ColumnProduct:
    """The same product, column by column; its first matrix is `b`, its second one `a`.

    Raises:
        CudaError: cuBLAS has no products of this dtype.
    """
    if product.dtype not in DATA_TYPES:
        raise CudaError(f"cuBLAS multiplies matrices of {', '.join(DATA_TYPES)}, not of {product.dtype}")
    lda, ldb, ldc = product.leading()
    return ColumnProduct(
        operations=(TRANSPOSE if product.transpose_b else KEEP, TRANSPOSE if product.transpose_a else KEEP),
        sizes=(product.n, product.m, product.k),
        leading=(ldb, lda, ldc),
        strides=(product.stride_b, product.stride_a, product.stride_c),
        batch=product.batch,
        data_type=DATA_TYPES[product.dtype],
        compute_type=_compute_type(product),
    )


def _compute_type(product: Product) -> int:
    if product.dtype == "float64":
        return SUMS_IN_FLOAT64
    return SUMS_OF_TF32 if product.tf32 and product.dtype == "float32" else SUMS_IN_FLOAT32


class Cublas:
    """The loaded library; a handle of it belongs to one stream and is used by one thread at a time."""

    def __init__(self, library: Any) -> None:
        self._library = library
        for name, types in SIGNATURES.items():
            getattr(library, name).argtypes = types
            getattr(library, name).restype = _INT

    def create(self, stream: int, workspace: int, nbytes: int) -> int:
        """A handle with a workspace that the caller owns; the stream is set first, for that takes a workspace away."""
        handle = _POINTER()
        self._call("cublasCreate_v2", ctypes.byref(handle))
        self._call("cublasSetStream_v2", handle, stream)
        self._call("cublasSetWorkspace_v2", handle, workspace, nbytes)
        self._call("cublasSetMathMode", handle, NO_REDUCED_SUMS)
        assert handle.value is not None
        return handle.value

    def multiply(self, handle: int, product: Product, a: int, b: int, c: int) -> None:
        """Give a product to the handle's stream."""
        column = column_product(product)
        scalar = ctypes.c_double if product.dtype == "float64" else ctypes.c_float
        alpha, beta = scalar(product.alpha), scalar(1.0 if product.accumulate else 0.0)
        first, second, result = zip(column.leading, column.strides, strict=True)
        kind = column.data_type
        self._call(
            "cublasGemmStridedBatchedEx",
            handle,
            *column.operations,
            *column.sizes,
            ctypes.addressof(alpha),
            *(b, kind, *first),
            *(a, kind, *second),
            ctypes.addressof(beta),
            *(c, kind, *result),
            column.batch,
            column.compute_type,
            DEFAULT_ALGORITHM,
        )

    def destroy(self, handle: int) -> None:
        """Give a handle back; it waits for the device."""
        self._call("cublasDestroy_v2", handle)

    def _call(self, name: str, *args: Any) -> None:
        status = getattr(self._library, name)(*args)
        if status:
            raise CublasError(f"{STATUS.get(status, f'cuBLAS status {status}')} from {name}")
