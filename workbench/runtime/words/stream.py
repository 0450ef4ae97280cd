"""What a random stream is, as words: the numbers its rules, those who fill it in, and its kernels agree on."""

from __future__ import annotations

# The key and the last three words of the counter of Philox, see `framework.values.random`
SEED, OP, STEP, PLACE, TRIP = range(5)
KEY_WORDS = 5
COUNTS_PASSES = 5  # whether it has other numbers in every pass of a loop
STREAM_WORDS = 6
PER_TRIP = 1_000_003  # the word of a pass inside passes: that of those around it times this, plus its number from 1 on

BITS = 24  # of a random float32: a multiple of 2^-BITS
CHUNK = 1024  # float32 made at a time: their words stay in the first cache
