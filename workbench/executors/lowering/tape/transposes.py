"""Copies of arrays whose strides differ, as rows of a tape."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

_WORD = 4  # bytes of a float32, in which copies are made
_MOST = 3  # dimensions the kernels loop over


class _StridedDim(NamedTuple):
    """A dimension: its size, and strides in bytes."""

    size: int
    source: int
    out: int


def strided_copy(source: np.ndarray, out: np.ndarray) -> tuple[Any, ...] | None:
    """A kernel and its arguments for `out[...] = source`, of one shape, both float32 or both float64.

    None where it is no task for them: nothing is strided, or nothing lies side by side, or memory is shared.
    """
    dims, item = _collapsed(source, out), out.itemsize
    if len(dims) < 2 or dims[-1].out != item or np.may_share_memory(source, out):
        return None
    last, rest = dims[-1], dims[:-1]
    if last.source == item:
        return _row("copy_rows", (source, out, last.size * (item // _WORD)), rest)
    column = next((d for d in rest if d.source == item), None)
    if column is None:
        return None
    rest.remove(column)
    matrix = source, last.source, out, column.out, last.size, column.size
    return _row("transpose", matrix, rest)


def moved_entries(source: np.ndarray, out: np.ndarray) -> tuple[Any, ...] | None:
    """A kernel and its arguments for `out[...] = source` of one shape and any dtype; None if it is no task for it."""
    dims = _collapsed(source, out)
    if len(dims) > _MOST + 1 or np.may_share_memory(source, out):
        return None
    dims = [_StridedDim(1, 0, 0)] * (_MOST + 1 - len(dims)) + dims
    return "move_entries", source, out, out.itemsize, *(number for dim in dims for number in dim)


def _row(kernel: str, arguments: tuple[Any, ...], rest: list[_StridedDim]) -> tuple[Any, ...] | None:
    if len(rest) > _MOST:
        return None
    loops = [_StridedDim(1, 0, 0)] * (_MOST - len(rest)) + rest
    return kernel, *arguments, *(number for dim in loops for number in dim)


def _collapsed(source: np.ndarray, out: np.ndarray) -> list[_StridedDim]:
    """As few dimensions as will do, in the order in which they lie in `out`."""
    dims = [_StridedDim(*d) for d in zip(source.shape, source.strides, out.strides, strict=True) if d[0] != 1]
    dims_left: list[_StridedDim] = []
    for dim in sorted(dims, key=lambda d: -abs(d.out)):
        before = dims_left[-1] if dims_left else None
        if before is not None and (before.source, before.out) == (dim.size * dim.source, dim.size * dim.out):
            dims_left[-1] = _StridedDim(before.size * dim.size, dim.source, dim.out)
        else:
            dims_left.append(dim)
    return dims_left
