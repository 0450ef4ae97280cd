"""Sums and exponentials of half-precision numbers are computed in float32 and rounded once."""

from __future__ import annotations

from typing import Any

from workbench.framework.values.dtype import DType, float32

NARROW = 2  # bytes: float16 and bfloat16


def wide(array: Any) -> Any:
    """The array, as float32 if it is float16 or bfloat16."""
    return array.astype("float32") if array.dtype.itemsize <= NARROW else array


def wide_dtype(dtype: DType) -> DType:
    """The dtype that `wide` computes in."""
    return float32 if dtype.itemsize <= NARROW else dtype


def rounded(array: Any, like: Any) -> Any:
    """The array in the dtype of `like`."""
    return array if array.dtype == like.dtype else array.astype(like.dtype)
