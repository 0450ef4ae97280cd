"""What is made of float16 and bfloat16 numbers is computed in float32 and rounded once."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from workbench.framework.values.dtype import HALVES

NARROW = 2  # bytes: float16 and bfloat16


def wide(array: Any) -> Any:
    """The array, as float32 if it is float16 or bfloat16."""
    return array.astype("float32") if array.dtype.char in HALVES else array


def rounded(array: Any, like: Any) -> Any:
    """The array in the dtype of `like`."""
    return array if array.dtype == like.dtype else array.astype(like.dtype)


def in_float32(forward: Callable[..., Any]) -> Callable[..., Any]:
    """The body of an op, given float32 for halves; float32 among its results becomes the halves' dtype."""

    @wraps(forward)
    def run(xp: Any, *arrays: Any, **given: Any) -> Any:
        halves = [a for a in arrays if hasattr(a, "dtype") and a.dtype.char in HALVES]
        if not halves:
            return forward(xp, *arrays, **given)
        results = forward(xp, *[wide(a) if any(a is h for h in halves) else a for a in arrays], **given)
        if isinstance(results, tuple):
            return tuple(_narrowed(result, halves[0].dtype) for result in results)
        return _narrowed(results, halves[0].dtype)

    return run


def _narrowed(result: Any, dtype: Any) -> Any:
    return result if result is None or result.dtype != "float32" else result.astype(dtype)
