"""Which bytes are valid on the host, which on the device, while the rows of a plan are gone through in order.

Rows that run on a device leave their results there, rows that run on the host leave them here. What a row needs and
finds on the other side is brought over in front of it, and only that. All of it is known when a plan is bound.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import numpy as np

HOST, DEVICE, BOTH = 1, 2, 3
"""Where bytes are valid; the numbers are sets of bits."""

Span = tuple[int, int]


class Validity:
    """Of the memory of one device and what it stands for, by addresses of the host; at first all is valid on both."""

    def __init__(self) -> None:
        self._begins = [0]  # of stretches that end where the next one begins
        self._states = [BOTH]

    def copy(self) -> Validity:
        """As it is now."""
        copied = Validity()
        copied._begins, copied._states = list(self._begins), list(self._states)
        return copied

    def set(self, span: Span, state: int) -> None:
        """From now on bytes are valid there alone."""
        begin, end = span
        if begin >= end:
            return
        after = self._states[bisect_right(self._begins, end) - 1]
        first, last = bisect_left(self._begins, begin), bisect_right(self._begins, end)
        self._begins[first:last] = [begin, end]
        self._states[first:last] = [state, after]

    def missing(self, span: Span, where: int) -> list[Span]:
        """The parts that are not valid on a side."""
        begin, end = span
        parts: list[Span] = []
        number = max(bisect_right(self._begins, begin) - 1, 0)
        while number < len(self._begins) and self._begins[number] < end:
            stop = self._begins[number + 1] if number + 1 < len(self._begins) else end
            part = max(begin, self._begins[number]), min(end, stop)
            if part[0] < part[1] and not self._states[number] & where:
                parts = [*parts[:-1], (parts[-1][0], part[1])] if parts and parts[-1][1] == part[0] else [*parts, part]
            number += 1
        return parts

    def bring(self, span: Span, where: int) -> list[Span]:
        """What has to be copied so that bytes are valid on a side; they count as copied."""
        parts = self.missing(span, where)
        for part in parts:
            self.set(part, BOTH)
        return parts


def span_of(array: np.ndarray) -> Span:
    """The bytes between the first and the last one of an array."""
    if not array.size:
        begin = array.__array_interface__["data"][0]
        return begin, begin
    begin, end = np.lib.array_utils.byte_bounds(array)
    return int(begin), int(end)


def fills_its_span(array: np.ndarray) -> bool:
    """Whether no byte between those of an array belongs to something else."""
    begin, end = span_of(array)
    return end - begin == array.nbytes
