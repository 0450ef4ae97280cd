"""Pooling: what it touches follows from the table it is told by, see `words.pooling`."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from workbench.runtime.reach.declare import FLOAT, WORD, reaches, require_inside
from workbench.runtime.reach.divide import divides_by_table, owns
from workbench.runtime.words.pooling import (
    COUNT,
    GROUP_WORDS,
    HEIGHT,
    LEFT,
    LENGTH,
    OUT_HEIGHT,
    OUT_WIDTH,
    PLANES,
    RUN_WORDS,
    RUNS,
    STEP,
    STRIP,
    TABLE,
    WIDTH,
)

_PIXEL = 64  # bytes of a pixel of sixteen planes
_LANES = 16


def _image(size: Any) -> int:
    """Bytes of a plane."""
    return FLOAT * int(size[HEIGHT] * size[WIDTH])


def _windows(size: Any) -> int:
    """Bytes of what a plane becomes."""
    return FLOAT * int(size[OUT_HEIGHT] * size[OUT_WIDTH])


class _Sizes:
    """The table, and a check of the windows in it."""

    def __init__(self, size: Any) -> None:
        head = [int(n) for n in size[:TABLE]]
        self.height, self.width, self.lines, self.count = head[HEIGHT], head[WIDTH], head[OUT_HEIGHT], head[OUT_WIDTH]
        self.strip, planes = head[STRIP], head[PLANES]
        self.image = FLOAT * planes * self.height * self.width
        self.windows = FLOAT * planes * self.lines * self.count
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
        return _PIXEL * most

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
        return _PIXEL * most

    def require_pairs(self) -> None:
        """Windows of 2 x 2 side by side."""
        require_inside("a pair", 2 * self.lines <= self.height, 2 * self.count <= self.width)


@divides_by_table(PLANES, _LANES, x=_image, out=_windows)
@owns("memory")
@reaches("size", "x", "out", "memory")
def max_pool(size: Any, x: Any, out: Any, memory: Any) -> Any:
    sizes = _Sizes(size)
    return sizes.table, sizes.image, sizes.windows, sizes.memory()


@divides_by_table(PLANES, _LANES, x=_image, out=_windows)
@owns("memory")
@reaches("size", "x", "factors", "out", "memory")
def average_pool(size: Any, x: Any, factors: Any, out: Any, memory: Any) -> Any:
    sizes = _Sizes(size)
    return sizes.table, sizes.image, FLOAT * sizes.lines * sizes.count, sizes.windows, sizes.memory()


@divides_by_table(PLANES, _LANES, g=_image, out=_windows)
@owns("memory")
@reaches("size", "g", "factors", "out", "memory")
def average_pool_grad(size: Any, g: Any, factors: Any, out: Any, memory: Any) -> Any:
    sizes = _Sizes(size)
    return sizes.table, sizes.image, FLOAT * sizes.height * sizes.width, sizes.windows, sizes.memory()


@divides_by_table(PLANES, _LANES, x=_image, g=_windows, out=_image)
@owns("memory")
@reaches("size", "x", "g", "out", "memory")
def max_pool_grad(size: Any, x: Any, g: Any, out: Any, memory: Any) -> Any:
    sizes = _Sizes(size)
    return sizes.table, sizes.image, sizes.windows, sizes.image, sizes.memory_of_gradient()


# Windows of 2 x 2 side by side


@divides_by_table(PLANES, x=_image, out=_windows)
@reaches("size", "x", "out")
def max_pool_lines(size: Any, x: Any, out: Any) -> Any:
    sizes = _Sizes(size)
    sizes.require_pairs()
    return sizes.table, sizes.image, sizes.windows


@divides_by_table(PLANES, x=_image, g=_windows, out=_image)
@reaches("size", "x", "g", "out")
def max_pool_lines_grad(size: Any, x: Any, g: Any, out: Any) -> Any:
    sizes = _Sizes(size)
    sizes.require_pairs()
    return sizes.table, sizes.image, sizes.windows, sizes.image


@divides_by_table(PLANES, "planes", x=_image, out=_windows)
@reaches("size", "table", "x", "out")
def max_pool_groups(size: Any, table: Any, groups: int, planes: int, x: Any, out: Any) -> Any:
    sizes = _Sizes(size)
    _require_groups(size, sizes, table, groups, planes)
    return sizes.table, WORD * GROUP_WORDS * groups, sizes.image, sizes.windows


@divides_by_table(PLANES, "planes", x=_image, g=_windows, out=_image)
@reaches("size", "table", "x", "g", "out")
def max_pool_groups_grad(size: Any, table: Any, groups: int, planes: int, x: Any, g: Any, out: Any) -> Any:
    sizes = _Sizes(size)
    _require_groups(size, sizes, table, groups, planes)
    return sizes.table, WORD * GROUP_WORDS * groups, sizes.image, sizes.windows, sizes.image


def _require_groups(size: Any, sizes: _Sizes, table: Any, groups: int, planes: int) -> None:
    """The groups' pieces lie in so many planes, and their lower lines do; windows are as many as there are."""
    sizes.require_pairs()
    words = table.reshape(-1, GROUP_WORDS)
    distances, masks = words[:, 1::2], words[:, 2::2]
    used, last = masks > 0, np.frexp(np.maximum(masks, 1).astype(float))[1] - 1
    first = np.log2(np.maximum(masks & -masks, 1)).astype(int)
    end = (distances + FLOAT * (last + 1) + FLOAT * sizes.width)[used]
    windows = sum(int(mask).bit_count() for mask in words[:, 0])
    require_inside(
        "a group of windows",
        planes > 0 and int(size[PLANES]) % planes == 0,
        len(words) == groups,
        windows == planes * sizes.lines * sizes.count,
        bool(((distances + FLOAT * first)[used] >= 0).all()),
        int(end.max(initial=0)) <= FLOAT * planes * sizes.height * sizes.width,
    )
