"""What rules of matrix products and their kernel agree on: the memory that copies of operands take."""

from __future__ import annotations

LINE = 16  # floats of a cache line
DEPTH = 512  # terms of the sums that are done at a time
COPIED_DEPTH = 128  # the same where the left side is copied: turned rows are used while they are near
TALL = 24  # rows that come out even for tiles of 8 and of 12 rows
PANEL = 64  # columns of the right side that are copied together: with DEPTH, a part of the second cache


def left_pitch(k: int) -> int:
    """Floats between rows of a copied left side: an odd number of cache lines, to make use of all cache sets."""
    return LINE * ((min(k, COPIED_DEPTH) + LINE - 1) // LINE | 1)
