"""What rules of matrix products and their kernel agree on: the memory that copies of operands take."""

from __future__ import annotations

LINE = 16  # floats of a cache line
AS_IT_IS, FLIPPED = 111, 112  # as CBLAS numbers them
DEPTH = 96  # terms that are added up in registers, one after the other; turned rows of so many stay near
TILE, TALL = 8, 24  # rows at which a block may begin; fewer in a block do not pay for its copy of the right side
PANEL = 64  # columns of the right side that are copied together: with DEPTH, a part of the second cache


def most_terms(k: int) -> int:
    """How many of k terms are added up in registers, one after the other; of a k that is open, no fewer than that."""
    return min(k, DEPTH) if type(k) is int else DEPTH


def left_pitch(k: int) -> int:
    """Floats between rows of a copied left side: an odd number of cache lines, to make use of all cache sets."""
    return LINE * ((min(k, DEPTH) + LINE - 1) // LINE | 1)
