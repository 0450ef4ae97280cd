"""What prepared calls (`Op.bind`) are made of: NumPy functions with all their operands in place.

A call is `functools.partial(ufunc, operands..., out)`: run, it looks nothing up and allocates nothing. Every `bind` of
an op computes the bits its `forward` computes; where the layout of the operands would make that doubtful (NumPy sums in
the order of memory) it returns None, and the op is run by `forward`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from workbench.framework.values.sums import add_up_into, chained_axis

Calls = list[Callable[[], Any]]
Scratch = Callable[[Sequence[int], Any], np.ndarray]


def is_wide(*arrays: Any) -> bool:
    """Whether all are arrays of one floating dtype that sums are computed in: neither half precision nor sparse."""
    first = arrays[0]
    if any(not isinstance(a, np.ndarray) or a.dtype != first.dtype for a in arrays):
        return False
    return bool(first.dtype.kind == "f" and first.dtype.itemsize > 2)


def is_plain(*arrays: Any) -> bool:
    """Whether all are such arrays and lie in memory row by row; None (absent, not wanted) does not count."""
    given = [a for a in arrays if a is not None]
    return is_wide(*given) and all(a.flags.c_contiguous for a in given)


def number(value: float, dtype: Any) -> np.ndarray:
    """A constant operand: what a Python number becomes beside an array of `dtype`."""
    return np.full((), value, dtype)


def seen_as(array: np.ndarray, shape: Sequence[int]) -> np.ndarray | None:
    """The array in another shape, None if that takes a copy."""
    if type(array) is not np.ndarray and hasattr(array, "seen_as"):  # what only stands for an array knows itself
        seen: np.ndarray | None = array.seen_as(tuple(shape))
        return seen
    view = array.reshape(tuple(shape))
    return view if view.base is not None and (not array.size or np.shares_memory(view, array)) else None


def or_scratch(out: np.ndarray | None, scratch: Scratch, shape: Sequence[int], dtype: Any) -> np.ndarray:
    """An output, or memory for it where nobody wants it."""
    return scratch(tuple(shape), dtype) if out is None else out


def copied(x: Any, out: np.ndarray) -> Callable[[], Any]:
    """`out[...] = x`; the fastest way NumPy has."""
    return partial(out.__setitem__, ..., x)


def filled(out: np.ndarray, value: Any) -> Callable[[], Any]:
    """Every element of `out` the one value, converted as `np.full` does."""
    return partial(out.fill, np.full((), value, out.dtype)[()])


# Sums


def reduced(
    ufunc: Any, x: np.ndarray, axes: Sequence[int], out: np.ndarray, keepdims: bool = False
) -> Callable[[], Any] | None:
    """`ufunc` over the axes of `x` into `out`, bit for bit as without `out`.

    Args:
        out: of the shape of the result, or of another shape with as many elements (reductions to no dimensions at
            all are stored in shape [1]).

    Returns:
        None if NumPy would take another order of the elements because of the layout of `out`.
    """
    axes = tuple(axes)
    if ufunc is np.add and chained_axis(x, axes) is not None:
        return partial(add_up_into, x, axes, out)
    if axes == tuple(range(x.ndim)) and not keepdims:
        return partial(ufunc.reduce, x, None, out.dtype, out.reshape(()))
    kept = tuple(1 if i in axes else d for i, d in enumerate(x.shape))
    shape = kept if keepdims else tuple(d for i, d in enumerate(x.shape) if i not in axes)
    target = seen_as(out, shape)
    if target is None or not _natural(x, axes, target, keepdims, ufunc):
        return None
    return partial(ufunc.reduce, x, axes[0] if len(axes) == 1 else axes, out.dtype, target, keepdims)


def _natural(x: np.ndarray, axes: tuple[int, ...], target: np.ndarray, keepdims: bool, ufunc: Any) -> bool:
    """Whether `target` lies in memory as the array does that NumPy would make for the result."""
    if x.flags.c_contiguous and target.flags.c_contiguous:
        return True
    if not x.size:
        return True
    reduced = ufunc.reduce(x, axis=axes, keepdims=keepdims)
    return all(a == b for a, b, d in zip(reduced.strides, target.strides, reduced.shape, strict=True) if d > 1)


def averaged(x: np.ndarray, axes: Sequence[int], out: np.ndarray) -> Calls | None:
    """`x.mean(axis=axes)` into `out`, whose shape may keep the axes with size 1.

    NumPy divides float32 sums by the count in float64 and rounds; for a count that float32 holds, that is the division
    in float32. None for other counts.
    """
    count = math.prod(x.shape[a] for a in axes)
    total = reduced(np.add, x, axes, out)
    if total is None or not count or int(np.full((), count, x.dtype)) != count:
        return None
    return [total, partial(np.divide, out, number(count, out.dtype), out)]


# Products


def multiplied(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> Callable[[], Any]:
    """`np.matmul(a, b)` into `out`, which is contiguous.

    For two matrices `np.dot` makes the same BLAS call as `np.matmul` and is 0.7 us quicker about it; they differ for
    vectors, for a matrix times its own transpose, and for operands BLAS cannot read.
    """
    function = np.dot if _is_gemm(a, b, out) else np.matmul
    return partial(function, a, b, out)


def _is_gemm(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> bool:
    if a.ndim != 2 or b.ndim != 2 or not is_wide(a, b, out) or min(*a.shape, *b.shape) < 2:
        return False
    readable = all(m.flags.forc and m.flags.aligned for m in (a, b, out))
    return readable and not np.may_share_memory(a, b)
