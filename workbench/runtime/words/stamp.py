"""What a ring of time stamps is, in int64 words: the numbers Python and the walker agree on."""

from __future__ import annotations

MASK, HEAD = 0, 1  # entries less one, a power of two less one; how many have been written since it was emptied
CLOCK = 2  # the address of `clock_gettime`, 0 for the processor's time-stamp counter
ROOM = 3  # two words for the system to write into
ENTRIES = 8  # where they begin: a cache line of their own

# An entry: the address of a row, BETWEEN behind the last one of a piece; and when the walker came there
ROW, TIME = 0, 1
ENTRY_WORDS = 2
BETWEEN = 0

# A reading of both clocks: ticks, and nanoseconds of the monotonic clock
TICKS, NANOSECONDS = 0, 1
READING_ROOM = 2  # two words for the system to write into
READING_WORDS = 4
