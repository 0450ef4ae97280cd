"""Prepared calls of sums, means and their gradients, of sums of lists and of norms (see `bound`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from workbench.framework.values.dtype import HALVES
from workbench.ops.bound import Calls, Scratch, copied, is_wide, number

WIDE = ("float32", "float64")  # dtypes whose sums are taken in themselves


def bind_add_n(outs: Sequence[Any], arrays: Sequence[Any], scratch: Scratch) -> Calls | None:
    """`bind` of sum: dense terms only, added in order."""
    (out,), (xs,) = outs, arrays
    if not all(isinstance(x, np.ndarray) and x.dtype == out.dtype for x in xs):
        return None
    if len(xs) == 1:
        return [copied(xs[0], out)]
    if out.dtype.char in HALVES or any(np.may_share_memory(out, x) for x in xs[1:]):
        return None
    return [partial(np.add, xs[0], xs[1], out), *(partial(np.add, out, x, out) for x in xs[2:])]


# Norms


def _square_sum(x: np.ndarray, out: np.ndarray, scratch: Scratch) -> Calls:
    squares = scratch(x.shape, x.dtype)
    return [partial(np.multiply, x, x, squares), partial(np.add.reduce, squares.reshape(-1), None, None, out)]


def bind_squared_norm(outs: Sequence[Any], arrays: Sequence[Any], scratch: Scratch) -> Calls | None:
    """`bind` of squared_l2_norm."""
    (out,), (x,) = outs, arrays
    return _square_sum(x, out.reshape(()), scratch) if is_wide(x, out) else None


def bind_clip_by_norm(outs: Sequence[Any], arrays: Sequence[Any], scratch: Scratch, max_norm: float) -> Calls | None:
    """`bind` of clip_by_norm: x max_norm / max(norm, max_norm)."""
    (out,), (x,) = outs, arrays
    if not is_wide(x, out):
        return None
    square, norm, most, factor = (scratch((), x.dtype) for _ in range(4))
    limit = number(max_norm, x.dtype)
    return [
        *_square_sum(x, square, scratch),
        partial(np.sqrt, square, norm),
        partial(np.maximum, norm, limit, out=most),
        partial(np.divide, limit, most, factor),
        partial(np.multiply, x, factor, out),
    ]
