"""One step of a lowered expression as callables without arguments, on given arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from workbench.framework.values.sums import add_up_into, chained_axis

Array = np.ndarray[Any, Any]
Calls = list[Callable[[], Any]]
Scratch = Callable[[tuple[int, ...], Any], Array]

BLOCK = 1 << 15  # elements: a few operands of a block stay in the second-level cache
_SHORT_ROW = 64
_SHORT_CHOICE = 256
_LONG_CHOICE = 1 << 12
_BITS = {1: np.dtype("int8"), 2: np.dtype("int16"), 4: np.dtype("int32"), 8: np.dtype("int64")}


def same_memory(a: Array, b: Array) -> bool:
    """Whether two arrays are the same elements in the same order."""
    if a is b:
        return True
    same_form = a.dtype == b.dtype and a.shape == b.shape and a.strides == b.strides
    return same_form and a.__array_interface__["data"][0] == b.__array_interface__["data"][0]


def overlap(a: Array, b: Array) -> bool:
    """Whether writing one of two arrays may change the other."""
    return bool(np.may_share_memory(a, b))


class Pool:
    """Temporary memory, handed out again once it is given back."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self._free: dict[Any, list[Array]] = {}

    def take(self, shape: tuple[int, ...], dtype: Any) -> Array:
        free = self._free.get((shape, dtype))
        return free.pop() if free else self._scratch(shape, dtype)

    def give(self, array: Array) -> None:
        self._free.setdefault((array.shape, array.dtype), []).append(array)


# Single functions


def ufunc_calls(function: str, operands: Sequence[Array], out: Array) -> Calls:
    """A ufunc into `out`; NumPy itself copes with operands that overlap it."""
    ufunc = getattr(np, function)
    if function in ("maximum", "minimum"):  # NumPy 2.4 deprecates their positional out
        return [partial(ufunc, *operands, out=out)]
    return [partial(ufunc, *operands, out)]


def copy_calls(source: Array, out: Array) -> Calls:
    """A copy, which is a cast where the dtypes differ. Assignment costs half of what `np.copyto` does."""
    return [] if same_memory(source, out) else [partial(out.__setitem__, Ellipsis, source)]


def sum_calls(source: Array, axes: tuple[int, ...], out: Array) -> Calls:
    """The sum over `axes` of a contiguous array into a contiguous one of a shape with 1s there, or without them."""
    kept = tuple(d for i, d in enumerate(source.shape) if i not in axes)
    if chained_axis(source, axes) is not None:
        return [partial(add_up_into, source, axes, out)]
    return [partial(np.add.reduce, source, axes, None, out.reshape(kept))]


@lru_cache(maxsize=32)
def _row(dtype: Any, data: bytes) -> Array:
    row = np.full(BLOCK, np.frombuffer(data, dtype)[0])
    row.flags.writeable = False
    return row


def spread(constant: Array, other: Array, out: Array) -> Array:
    """A constant operand of `maximum` and `minimum`, which NumPy vectorises for two whole operands only.

    Returns:
        an array full of the constant in the shape of `out`, or the constant itself where that gains nothing.
    """
    if not _SHORT_ROW <= out.size <= BLOCK or out.dtype.itemsize < 4 or out.dtype != constant.dtype:
        return constant
    if other.shape != out.shape or not (other.flags.c_contiguous and out.flags.c_contiguous):
        return constant
    return _row(constant.dtype, constant.tobytes())[: out.size].reshape(out.shape)


# Choices. NumPy's own ones branch on every element, which costs 5 ns each when the mask is irregular; arithmetic on
# the bits (wrapping integers) does not, and is exact: y + (x - y) * mask.


def select_calls(
    mask: Array, x: Array, y: Array, out: Array, pool: Pool, zeros: tuple[bool, bool] = (False, False)
) -> Calls:
    """x where the mask holds, y elsewhere; all of one dtype, which `out` has too. Any may overlap `out`.

    Args:
        zeros: whether x and y are the constant +0.
    """
    if not by_arithmetic(out.size, out.dtype):
        return _select_by_copies(mask, x, y, out, pool)
    bits = _BITS[out.dtype.itemsize]
    x, y, out = x.view(bits), y.view(bits), out.view(bits)
    if zeros[1]:
        return [partial(np.multiply, x, mask, out)]
    part = out
    if overlap(out, y) or overlap(out, mask):
        part = pool.take(out.shape, bits)
        pool.give(part)  # nobody takes it before these calls have run
    if zeros[0]:
        return [partial(np.multiply, y, mask, part), partial(np.subtract, y, part, out)]
    return [partial(np.subtract, x, y, part), partial(np.multiply, part, mask, part), partial(np.add, y, part, out)]


def by_arithmetic(size: int, dtype: Any) -> bool:
    """Whether `select_calls` computes on the bits: a few calls more, which pay from some hundred elements on."""
    return size > _SHORT_CHOICE and dtype.kind in "fiu" and dtype.itemsize in _BITS


def choose(mask: Any, x: Any, y: Any) -> Any:
    """`np.where`, by arithmetic where that takes a fraction of the time: many elements, row by row, of one dtype."""
    if not isinstance(mask, np.ndarray) or mask.size < _LONG_CHOICE or mask.dtype.kind != "b":
        return np.where(mask, x, y)
    x, y = np.asarray(x), np.asarray(y)
    plain = x.dtype == y.dtype and all(a.shape in (mask.shape, ()) and a.flags.c_contiguous for a in (x, y))
    if not (plain and mask.flags.c_contiguous and by_arithmetic(mask.size, x.dtype)):
        return np.where(mask, x, y)
    out = np.empty(mask.shape, x.dtype)
    for call in select_calls(mask, x, y, out, Pool(np.empty), (_is_zero(x), _is_zero(y))):
        call()
    return out


def _is_zero(array: Array) -> bool:
    """Whether this is the number +0."""
    return not array.shape and not any(array.tobytes())


def _select_by_copies(mask: Array, x: Array, y: Array, out: Array, pool: Pool) -> Calls:
    if same_memory(out, y) and not overlap(out, mask):
        return [] if same_memory(out, x) else [partial(np.copyto, out, x, where=mask)]
    if same_memory(out, x) and not overlap(out, mask):
        other = pool.take(mask.shape, mask.dtype)
        pool.give(other)
        return [partial(np.logical_not, mask, other), partial(np.copyto, out, y, where=other)]
    if overlap(out, x) or overlap(out, mask):
        part = pool.take(out.shape, out.dtype)
        pool.give(part)
        return [*copy_calls(y, part), partial(np.copyto, part, x, where=mask), *copy_calls(part, out)]
    return [*copy_calls(y, out), partial(np.copyto, out, x, where=mask)]
