"""The entries of rows in order."""

from __future__ import annotations

from workbench.runtime.kernels.arguments import Ints, Reals
from workbench.runtime.kernels.intrinsics import function
from workbench.runtime.kernels.registry import kernel


@function
def goes_first(a, b, descending):
    """Whether `a` has to stand in front of `b`: NaN counts as more than all numbers."""
    if descending:
        return a > b or (a != a and b == b)
    return a < b or (b != b and a == a)


@function
def merge(x, first, step, spare, source, target, begin, middle, end, descending):
    """Two neighbouring parts of one half of `spare`, in order each, as one in the other half."""
    left, right = begin, middle
    for at in range(begin, end):
        takes_right = left == middle
        if left < middle and right < end:
            a, b = x[first + step * spare[source + right]], x[first + step * spare[source + left]]
            takes_right = goes_first(a, b, descending)
        if takes_right:
            spare[target + at] = spare[source + right]
            right += 1
        else:
            spare[target + at] = spare[source + left]
            left += 1


@kernel()
def sort_rows(
    x: Reals("outer", "width", "inner"), out: Reals("outer", "kept", "inner"),
    indices: Ints("outer", "kept", "inner"), spare: Ints(2, "width"), outer, width, inner, kept, descending,
):  # fmt: skip
    """The first `kept` entries along the middle dimension in order and where they are, equal ones as they stood.

    `spare`: memory for two rows.
    """
    for row in range(outer * inner):
        first = row // inner * width * inner + row % inner
        result = row // inner * kept * inner + row % inner
        for j in range(width):
            spare[j] = j
        source, target, length = 0, width, 1
        while length < width:
            for begin in range(0, width, 2 * length):
                middle, end = min(begin + length, width), min(begin + 2 * length, width)
                merge(x, first, inner, spare, source, target, begin, middle, end, descending)
            source, target, length = target, source, 2 * length
        for j in range(min(kept, width)):
            indices[result + j * inner] = spare[source + j]
            out[result + j * inner] = x[first + inner * spare[source + j]]
    return 0
