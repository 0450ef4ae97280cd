"""Sums of arrays, of which rounding errors stay small however long they are.

NumPy adds up pairs of pairs only where the elements lie side by side; along other axes every sum is one chain of
additions, in which the errors of 8,192 positive terms cost a digit. Such axes are cut into blocks here, whose sums are
added up in the same way. So an error is at most u (log2(K) sum |terms| + |result|) in all but constructed cases, u
being the unit roundoff.

Source: Higham, "The Accuracy of Floating Point Summation", 1993.
"""

from __future__ import annotations

from typing import Any

import numpy as np

BLOCK = 256  # terms of a chain; a chain of twice as many is not cut


def add_up(x: Any, axes: tuple[int, ...], keepdims: bool = False) -> Any:
    """`x.sum(axis=axes, keepdims=keepdims)`."""
    axis = chained_axis(x, axes)
    if axis is None:
        return x.sum(axis=axes, keepdims=keepdims)
    count = x.shape[axis] // BLOCK
    before = (slice(None),) * axis
    head, rest = x[(*before, slice(count * BLOCK))], x[(*before, slice(count * BLOCK, None))]
    blocks = head.reshape(*x.shape[:axis], count, BLOCK, *x.shape[axis + 1 :])  # of one axis two: a view
    sums = np.add.reduce(blocks, tuple(a if a < axis else a + 1 for a in axes), keepdims=True)
    total = add_up(sums, (axis,))
    if rest.shape[axis]:
        total += np.add.reduce(rest, axes, keepdims=True)
    if keepdims:
        return total
    return total.reshape([d for i, d in enumerate(x.shape) if i not in axes])


def chained_axis(x: Any, axes: tuple[int, ...]) -> int | None:
    """The longest of the axes along which NumPy adds one term after the other; None if none of them is long."""
    if not isinstance(x, np.ndarray) or x.dtype.kind != "f" or x.dtype.itemsize < 4:
        return None
    if len(axes) == x.ndim and x.flags.forc:
        return None  # to NumPy that is one axis
    long = [a for a in axes if x.shape[a] >= 2 * BLOCK and x.strides[a] != x.dtype.itemsize]
    return max(long, key=x.shape.__getitem__, default=None)
