"""What pooling is, as words of a table: the numbers its rules and its kernels agree on."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from workbench.runtime.footprint import FLOAT, WORD, require_inside

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


# What kernels touch

LANES = 16  # numbers of a pixel of sixteen planes


def table_bytes(size: Any) -> int:
    """Of the table, whose windows lie in the image."""
    return _Sizes(size).table


def in_strip(size: Any) -> int:
    """Numbers in the memory for a strip."""
    return _Sizes(size).memory()


def in_gradient_strip(size: Any) -> int:
    """Numbers in the memory for a strip of the gradient of maxima."""
    return _Sizes(size).memory_of_gradient()


def require_pairs(size: Any) -> None:
    """Windows are 2 x 2 side by side."""
    height, width, lines, count = (int(size[at]) for at in (HEIGHT, WIDTH, OUT_HEIGHT, OUT_WIDTH))
    require_inside("a pair", 2 * lines <= height, 2 * count <= width)


def require_groups(size: Any, table: Any, groups: int, planes: int) -> None:
    """The groups' pieces lie in so many planes, and their lower lines do; windows are as many as there are."""
    require_pairs(size)
    words = table.reshape(-1, GROUP_WORDS)
    distances, masks = words[:, 1::2], words[:, 2::2]
    used, last = masks > 0, np.frexp(np.maximum(masks, 1).astype(float))[1] - 1
    first = np.log2(np.maximum(masks & -masks, 1)).astype(int)
    end = (distances + FLOAT * (last + 1) + FLOAT * int(size[WIDTH]))[used]
    windows = sum(int(mask).bit_count() for mask in words[:, 0])
    require_inside(
        "a group of windows",
        planes > 0 and int(size[PLANES]) % planes == 0,
        len(words) == groups,
        windows == planes * int(size[OUT_HEIGHT]) * int(size[OUT_WIDTH]),
        bool(((distances + FLOAT * first)[used] >= 0).all()),
        int(end.max(initial=0)) <= FLOAT * planes * int(size[HEIGHT]) * int(size[WIDTH]),
    )


class _Sizes:
    """The table, and a check of the windows in it."""

    def __init__(self, size: Any) -> None:
        head = [int(n) for n in size[:TABLE]]
        self.height, self.width, self.lines, self.count = head[HEIGHT], head[WIDTH], head[OUT_HEIGHT], head[OUT_WIDTH]
        self.strip = head[STRIP]
        self.table = WORD * (TABLE + 2 * (self.lines + self.height) + RUN_WORDS * head[RUNS])
        require_inside("a table of windows", self.table <= size.nbytes)
        ends = np.cumsum([TABLE, self.lines, self.lines, self.height, self.height])
        parts = [size[a:b] for a, b in pairwise(ends)]
        self.starts, self.ends, self.first_of, self.end_of = parts
        runs = size[ends[-1] : ends[-1] + RUN_WORDS * head[RUNS]].reshape(-1, RUN_WORDS)
        right = runs[:, LEFT] + (runs[:, COUNT] - 1) * runs[:, STEP] + runs[:, LENGTH]
        require_inside(
            "a window",
            bool((self.starts >= 0).all() and (self.ends <= self.height).all()),
            bool((self.first_of >= 0).all() and (self.end_of <= self.lines).all()),
            bool((runs[:, LEFT] >= 0).all() and (runs[:, LENGTH] >= 0).all() and (right <= self.width).all()),
            int(runs[:, COUNT].sum()) == self.count,
        )

    def strips(self, rows: int) -> range:
        require_inside("a strip", self.strip > 0)
        return range(0, rows, self.strip)

    def memory(self) -> int:
        """For the rows of a strip of windows, a line, and the results."""
        most = 0
        for start in self.strips(self.lines):
            end = min(start + self.strip, self.lines)
            rows = int(self.ends[end - 1] - self.starts[start])
            most = max(most, (rows + 1) * self.width + (end - start) * self.count)
        return LANES * most

    def memory_of_gradient(self) -> int:
        """For rows of a strip of the image and all other rows of their windows, maxima, shares and results."""
        most = 0
        for start in self.strips(self.height):
            end = min(start + self.strip, self.height)
            first, stop = int(self.first_of[start]), int(self.end_of[end - 1])
            top, bottom = start, end
            if first < stop:
                top, bottom = min(start, int(self.starts[first])), max(end, int(self.ends[stop - 1]))
            rows, having = bottom - top, max(stop - first, 0)
            most = max(most, rows * self.width + (2 * rows + 1 + having) * self.count + (end - start) * self.width)
        return LANES * most
