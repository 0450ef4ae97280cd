"""What pooling is, as words of a table: the numbers its rules and its kernels agree on."""

from __future__ import annotations

PLANES, HEIGHT, WIDTH, OUT_HEIGHT, OUT_WIDTH = range(5)
TABLE = 5  # here begin four tables: first rows of windows, ends of their rows, first columns, ends of their columns

PIECES = 3  # of a register, at most
GROUP_WORDS = 1 + 2 * 2 * PIECES
"""Sixteen windows of 2 x 2 in several lines: which of them there are, as a mask; then, for the first and for the second
sixteen floats of their upper lines (and, a line further on, of their lower ones), the pieces they consist of: the
distance in bytes of what is the first lane, and which lanes lie there."""
