"""Prepared calls of sums, means and their gradients, of sums of lists and of norms (see `bound`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from workbench.framework.values.dtype import HALVES, as_dtype
from workbench.framework.values.spec import Spec, normalize_axis
from workbench.framework.values.sums import BLOCK, add_up
from workbench.ops.bound import Calls, Scratch, copied, is_wide, number, reduced, seen_as

WIDE = ("float32", "float64")  # dtypes whose sums are taken in themselves


def _axes(rank: int, dim: Sequence[int], reduce_all: bool) -> tuple[int, ...]:
    if reduce_all or not dim:
        return tuple(range(rank))
    return tuple(normalize_axis(a, rank) for a in dim)


def _reduction(x: Spec, dim: Sequence[int], keep_dim: bool, reduce_all: bool, zero_dim: bool) -> Callable[..., Any]:
    """The sum of floats in their own precision over some axes, as `array.sum` gives it."""
    axes = _axes(len(x.shape), dim, reduce_all)
    reduce: Any = add_up if _may_be_chained(x, axes) else np.add.reduce
    one = () if zero_dim else (1,)
    if keep_dim or len(axes) < len(x.shape):
        if reduce is add_up:
            return lambda array: add_up(array, axes, keep_dim)
        return lambda array: reduce(array, axes, None, None, keep_dim)
    return lambda array: np.asarray(reduce(array, axes)).reshape(one)


def _may_be_chained(x: Spec, axes: Sequence[int]) -> bool:
    """Whether `add_up` differs from NumPy's sum for some array like this."""
    return any(x.shape[a] >= 2 * BLOCK for a in axes)


def prepare_sum(x: Spec, out_dtype: str, **where: Any) -> Callable[..., Any] | None:
    """`prepare` of reduce_sum."""
    return None if out_dtype or x.dtype.name not in WIDE or not x.shape else _reduction(x, **where)


def prepare_mean(x: Spec, zero_dim: bool, **where: Any) -> Callable[..., Any] | None:
    """`prepare` of reduce_mean and, without attributes but the last, of mean."""
    if x.dtype.name not in WIDE or not x.shape:
        return None
    where = {"dim": (), "keep_dim": False, "reduce_all": True, **where}
    total = _reduction(x, zero_dim=zero_dim, **where)
    count = math.prod(x.shape[a] for a in _axes(len(x.shape), where["dim"], where["reduce_all"])) or math.nan
    return lambda array: np.asarray(total(array) / count)


def grad_prepare_spread(average: bool) -> Callable[..., Any]:
    """`grad_prepare` of sums and means: g, or g / count, repeated."""

    def prepare(wanted: Sequence[bool], x: Spec, **where: Any) -> Callable[..., Any] | None:
        if x.dtype.name not in WIDE or where.get("out_dtype"):
            return None
        axes = _axes(len(x.shape), where.get("dim", ()), where.get("reduce_all", True))
        kept = tuple(1 if i in axes else d for i, d in enumerate(x.shape))
        count, dtype = max(math.prod(x.shape[a] for a in axes), 1), x.dtype.numpy

        def body(like: Any, g: Any) -> Any:
            out = np.empty(x.shape, dtype)
            out[...] = (g / count if average else g).reshape(kept)
            return (out,)

        return body

    return prepare


def bind_sum(
    outs: Sequence[Any], arrays: Sequence[Any], scratch: Scratch,
    dim: Sequence[int], keep_dim: bool, reduce_all: bool, zero_dim: bool, out_dtype: str,
) -> Calls | None:  # fmt: skip
    """`bind` of reduce_sum: floats in their own precision, integers in any that is not narrow."""
    (out,), (x,) = outs, arrays
    target = as_dtype(out_dtype).numpy if out_dtype else x.dtype
    exact = x.dtype.kind in "iub" and target.kind in "iu" and target.itemsize > 2
    if not is_wide(x, out) and not exact:
        return None
    call = reduced(np.add, x, _axes(x.ndim, dim, reduce_all), out)
    return None if call is None else [call]


def bind_mean(outs: Sequence[Any], arrays: Sequence[Any], scratch: Scratch, **where: Any) -> Calls | None:
    """`bind` of reduce_mean and, without attributes, of mean."""
    (out,), (x,) = outs, arrays
    if not is_wide(x, out):
        return None
    axes = _axes(x.ndim, where.get("dim", ()), where.get("reduce_all", True))
    # Beside the total where it is one number: in place NumPy would take twice as long over it.
    total = out if out.size > 1 else scratch(out.shape, out.dtype)
    call = reduced(np.add, x, axes, total)
    if call is None:
        return None
    count = math.prod(x.shape[a] for a in axes)
    return [call, partial(np.divide, total, number(count or math.nan, out.dtype), out)]


def bind_spread(average: bool) -> Callable[..., Calls | None]:
    """`bind` of the gradients of a sum or mean: g repeated, or g / count."""

    def bind(outs: Sequence[Any], arrays: Sequence[Any], scratch: Scratch, **where: Any) -> Calls | None:
        (out,), g = outs, arrays[-1]
        if not is_wide(out, g):
            return None
        axes = _axes(out.ndim, where.get("dim", ()), where.get("reduce_all", True))
        kept = seen_as(g, tuple(1 if i in axes else d for i, d in enumerate(out.shape)))
        if kept is None:
            return None
        if not average:
            return [partial(out.fill, g.reshape(())) if g.size == 1 else copied(kept, out)]
        count = number(max(math.prod(out.shape[a] for a in axes), 1), out.dtype)
        if g.size != 1:
            return [partial(np.divide, kept, count, out)]
        share = scratch((), out.dtype)
        return [partial(np.divide, g.reshape(()), count, share), partial(out.fill, share)]

    return bind


# The sum of a list


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
