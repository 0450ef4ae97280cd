"""Products of matrices on a simulated device, rounded as the mode says that a real one may round.

Inputs are taken as they are, or with ten bits of mantissa where TF32 is allowed; products and sums are made in float32
(float64 for float64), in the order that this machine's BLAS likes; the result is rounded once to its dtype.

No hardware has confirmed how tensor cores cut float32 to TF32; here it is rounded to the nearest, ties away from zero,
as `cvt.rna.tf32.f32` does. Bits of a real device differ, for it adds in another order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from workbench.cuda.driver import CudaError, Product
from workbench.cuda.simulated.accesses import ByteSpan
from workbench.framework.values.dtype import as_dtype

DTYPES = ("float16", "bfloat16", "float32", "float64")
KEPT_BITS = np.uint32(0xFFFFE000)


@dataclass(frozen=True)
class Matrices:
    """Where the matrices of a batch lie: rows, their length, elements from row to row and from matrix to matrix."""

    address: int
    rows: int
    columns: int
    leading: int
    stride: int
    batch: int
    itemsize: int

    def extent(self) -> int:
        """Bytes from the first element to the last one."""
        last = (self.batch - 1) * self.stride + (self.rows - 1) * self.leading + self.columns
        return last * self.itemsize if self.rows and self.columns and self.batch else 0

    def view(self, memory: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """The matrices, as `[batch, rows, columns]`, in the bytes of that extent."""
        strides = (self.stride * self.itemsize, self.leading * self.itemsize, self.itemsize)
        return np.ndarray((self.batch, self.rows, self.columns), dtype, memory, 0, strides)

    def mask(self) -> np.ndarray | None:
        """Which of those bytes are elements; None: all."""
        if self.leading == self.columns and (self.batch == 1 or self.stride == self.rows * self.columns):
            return None
        mask = np.zeros(self.extent(), np.bool_)
        strides = (self.stride * self.itemsize, self.leading * self.itemsize, 1)
        np.ndarray((self.batch, self.rows, self.columns * self.itemsize), np.bool_, mask, 0, strides)[:] = True
        return mask

    def span(self, write: bool) -> ByteSpan:
        """What a product touches of them."""
        return ByteSpan(self.address, self.extent(), write, self.mask())


def operands(product: Product, a: int, b: int, c: int) -> tuple[Matrices, Matrices, Matrices]:
    """Where the three lie.

    Raises:
        CudaError: a dtype that cuBLAS does not multiply, or rows that overlap.
    """
    if product.dtype not in DTYPES:
        raise CudaError(f"cuBLAS multiplies matrices of {', '.join(DTYPES)}, not of {product.dtype}")
    size = as_dtype(product.dtype).numpy.itemsize
    lda, ldb, ldc = product.leading()
    shape_a = (product.k, product.m) if product.transpose_a else (product.m, product.k)
    shape_b = (product.n, product.k) if product.transpose_b else (product.k, product.n)
    for name, given, columns in (("lda", lda, shape_a[1]), ("ldb", ldb, shape_b[1]), ("ldc", ldc, product.n)):
        if given < columns:
            raise CudaError(
                f"{name} is {given}, less than the {columns} elements of a row", "CUBLAS_STATUS_INVALID_VALUE"
            )
    return (
        Matrices(a, *shape_a, lda, product.stride_a, product.batch, size),
        Matrices(b, *shape_b, ldb, product.stride_b, product.batch, size),
        Matrices(c, product.m, product.n, ldc, product.stride_c, product.batch, size),
    )


def spans(product: Product, a: int, b: int, c: int) -> tuple[ByteSpan, ...]:
    """What a product reads and writes."""
    left, right, result = operands(product, a, b, c)
    read = (left.span(False), right.span(False), *((result.span(False),) if product.accumulate else ()))
    return tuple(span for span in (*read, result.span(True)) if span.nbytes)


def multiply(product: Product, a: int, b: int, c: int, view: Callable[[int, int], np.ndarray]) -> None:
    """Make it; `view` gives bytes of the device in place."""
    left, right, result = operands(product, a, b, c)
    if not result.extent():
        return
    dtype = as_dtype(product.dtype).numpy
    total = _products(product, *(_values(one, view, dtype) for one in (left, right)))
    into = result.view(view(result.address, result.extent()), dtype)
    total = total * total.dtype.type(product.alpha)
    into[:] = (total + into.astype(total.dtype) if product.accumulate else total).astype(dtype)


def _values(matrices: Matrices, view: Callable[[int, int], np.ndarray], dtype: np.dtype) -> np.ndarray:
    if not matrices.extent():
        return np.zeros((matrices.batch, matrices.rows, matrices.columns), dtype)
    return matrices.view(view(matrices.address, matrices.extent()), dtype)


def _products(product: Product, left: np.ndarray, right: np.ndarray) -> np.ndarray:
    exact = np.float64 if product.dtype == "float64" else np.float32
    left, right = left.astype(exact), right.astype(exact)
    if product.tf32 and product.dtype == "float32":
        left, right = rounded_to_tf32(left), rounded_to_tf32(right)
    left = left.swapaxes(1, 2) if product.transpose_a else left
    right = right.swapaxes(1, 2) if product.transpose_b else right
    return np.matmul(left, right)


def rounded_to_tf32(values: np.ndarray) -> np.ndarray:
    """float32 values with ten bits of mantissa, the nearest ones, ties away from zero; NaN and infinity as they are."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = ((bits + np.uint32(0x1000)) & KEPT_BITS).view(np.float32)
    return np.where(np.isfinite(values), rounded, values)
