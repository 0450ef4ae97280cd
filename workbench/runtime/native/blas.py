"""The matrix product of the BLAS that NumPy brings along, by its address."""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np

_NAMES = ("scipy_cblas_{}gemm64_", "cblas_{}gemm64_")  # with 64-bit sizes


@cache
def gemm_address(item: int) -> int | None:
    """The address of `cblas_sgemm`, or of `cblas_dgemm`, with 64-bit sizes; None where NumPy has another BLAS.

    Args:
        item: bytes of an element.

    The extension module of NumPy is linked to its BLAS, so asking it for the symbol finds the copy NumPy uses itself.
    """
    try:
        from numpy._core import _multiarray_umath as core  # type: ignore[attr-defined]

        library = ctypes.CDLL(core.__file__)
    except (ImportError, OSError):
        return None
    for name in _NAMES:
        function = getattr(library, name.format("s" if item == 4 else "d"), None)
        if function is not None and _multiplies(address := ctypes.cast(function, ctypes.c_void_p).value or 0, item):
            return address
    return None


def _multiplies(address: int, item: int) -> bool:
    """Whether what was found takes the arguments it should."""
    i, f, p = ctypes.c_int64, ctypes.c_float if item == 4 else ctypes.c_double, ctypes.c_void_p
    flag, dtype = ctypes.c_int, f"f{item}"
    gemm = ctypes.CFUNCTYPE(None, flag, flag, flag, i, i, i, f, p, i, p, i, f, p, i)(address)
    a, b = np.arange(6, dtype=dtype).reshape(2, 3), np.arange(12, dtype=dtype).reshape(3, 4)
    c = np.empty((2, 4), dtype)
    where = [x.__array_interface__["data"][0] for x in (a, b, c)]
    gemm(101, 111, 111, 2, 4, 3, 1.0, where[0], 3, where[1], 4, 0.0, where[2], 4)
    return bool((c == a @ b).all())
