"""What pooling is, as words of a table: the numbers its rules and its kernels agree on."""

from __future__ import annotations

PLANES, HEIGHT, WIDTH, OUT_HEIGHT, OUT_WIDTH, STRIP, NAN_ROWS, NAN_COLUMNS, RUNS = range(9)
TABLE = 9
"""Here begin four tables: first rows of windows, ends of their rows; and, of every row, the first window that has it
and the end of those. No window begins or ends before an earlier one. Behind them are the windows of columns, by runs.

A strip is as many output rows (of gradients of maxima, rows of the image) as are treated at once.
"""

LEFT, LENGTH, STEP, COUNT = range(4)
RUN_WORDS = 4
"""A run of windows of equal length: the first column, the length, the distance of windows, how many there are."""

IS_NOWHERE, IS_FIRST, IS_LAST = range(3)
"""Where the maximum of a window is that has a NaN, along one dimension: what NumPy's ways of finding it lead to. It
is the first NaN where one window has everything, the last entry where all windows are whole."""

PIECES = 3  # of a register, at most
GROUP_WORDS = 1 + 2 * 2 * PIECES
"""Sixteen windows of 2 x 2 in several lines: which of them there are, as a mask; then, for the first and for the second
sixteen floats of their upper lines (and, a line further on, of their lower ones), the pieces they consist of: the
distance in bytes of what is the first lane, and which lanes lie there."""
