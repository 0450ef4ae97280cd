"""What a whole step as one call of compiled code is told, in int64 words."""

from __future__ import annotations

FIRST, LAST = 0, 1  # addresses of the states of its two programs
COUNTERS, COUNTED = 2, 3  # where the addresses of words are that count steps, and how many there are
OBJECTS = 4  # where the addresses of NumPy arrays are, fed ones and results
FED, FEEDS = 5, 6  # where moves are told from arrays to memory, and how many
MADE, RESULTS = 7, 8  # the same from memory to arrays
DATA, FLAGS = 9, 10  # distances within a NumPy array
RUNS = 11  # how many steps have been applied
TELLTALES, TOLD = 12, 13  # where stretches of float32 are told that ought to be finite, and how many are looked at
BALLOT = 14  # the state of the channel to other trainers, see `words.window`; 0: nobody else has to agree
AGREED = 15  # whether all of them have agreed to apply the step under way
WORDS = 16

# A move: the number of the array, the distance of the part from its first byte, the address of the memory, bytes
OBJECT, OFFSET, MEMORY, NBYTES = range(4)
MOVE_WORDS = 4

# A stretch: the address of the first of so many float32
STRETCH, LENGTH = range(2)
STRETCH_WORDS = 2
