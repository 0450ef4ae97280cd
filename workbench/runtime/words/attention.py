"""What rules of attention and its kernels agree on: the memory their copies and scores take. All sizes in floats."""

from __future__ import annotations

from workbench.runtime.words.product import DEPTH

LINE = 16  # floats of a cache line
TALL = DEPTH  # queries that are looked at together: sums over all of them then have the bits of a product


def padded(count: int) -> int:
    """Whole cache lines."""
    return LINE * ((count + LINE - 1) // LINE)


def pitch(keys: int) -> int:
    """Between rows of scores: mostly an odd number of cache lines, to make use of all cache sets."""
    return LINE * ((keys + LINE - 1) // LINE + 1)


def forward_memory(keys: int, depth: int, width: int) -> int:
    """For keys [keys, depth] and values [keys, width] by panels, and the scores of a few queries."""
    return depth * padded(keys) + keys * padded(width) + TALL * pitch(keys)


def backward_memory(keys: int, depth: int, width: int) -> int:
    """The same twice, queries and gradients beside each other, and the gradient of keys before it is turned."""
    copies = 2 * depth * padded(keys) + keys * padded(depth) + width * padded(keys)
    return copies + TALL * (2 * pitch(keys) + padded(depth) + padded(width))
