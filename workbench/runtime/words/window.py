"""Where things lie in the window that processes share, and what kernels are told of it, in int64 words."""

from __future__ import annotations

from typing import Any

from workbench.runtime.footprint import FLOAT, WORD, OutOfBounds, Touched
from workbench.runtime.words.codes import CONTROL_WORDS

SLOTS = 16
"""How far one process gets while another one waits for its core: of 8, 16 and 32 more is quicker where cores are shared
(25 MiB with 2 processes beside others: 10-36 ms, 9-16 ms, 12-21 ms), at the cost of memory that is touched."""
SLOT_BYTES = 1 << 18
"""Measured with 2 processes and 25 MiB: 128 to 512 KiB alike, 64 KiB and 2 MiB 20 % slower (caches of 2 MiB)."""
PASSED = 1 << 14
"""Contributions of so many bytes are written past the caches: a line that one processor writes and another one reads
would go to and fro between their caches, slowly where these are far apart. Measured with 2 processes on such a machine:
64 KiB 24 us, and 16 us past them; 1 MiB 260 and 155 us, 100 MiB 66 and 30 ms."""

LABEL_BYTES = 256
REASON_BYTES = 2048
LINE = 8  # words of a cache line

# Words of a segment, each the only one of its cache line; counts go on from step to step
POSTED = 0  # rounds whose contribution lies in a slot
TAKEN = 1  # rounds whose result has been taken
GAVE_UP = 2  # the epoch in which the owner gave up, 0 if it never did
LEFT = 3  # epochs the owner has left: it does nothing of them any more
BEGUN = 4  # epochs the owner has begun
PID = 5
VOTE = 6  # number of the last vote in which the owner has said yes
VERDICT = 7  # of the first process: twice the number of the last vote that was decided, plus one for a yes
REASON = 8  # bytes of the reason
CULPRIT = 9  # the rank that failed, plus one; 0 if it is the owner
FENCE = 10  # how often the owner has asked that all machines see what it has published
ENDED = 11  # 1 when the owner's process ends
STATE_THERE = 12  # of an owner on another machine: 0 it works or waits, 1 it is gone, 2 it is stopped
SEGMENT_WORDS = 13

# Bytes of a segment: words, reason, labels, slots
LABELS = SEGMENT_WORDS * LINE * 8 + REASON_BYTES
DATA = LABELS + SLOTS * LABEL_BYTES
SEGMENT_BYTES = DATA + SLOTS * SLOT_BYTES

# What one process knows of its channel through the window
SIZE, RANK = 0, 1  # of the group
EPOCH = 2  # failures that bear this number are of now
BEGIN = 3  # the first round of the collective a kernel is at, -1 if it is at none
FREE = 4  # rounds that may be posted, as far as is known
SPINS = 5  # looks at a word before the processor is offered to others
NUMBER = 6  # of the vote on the step under way
SEGMENTS = 7  # from here on the addresses of the segments, by rank

# A row that sums over processes: its arguments, and then the addresses of the pieces and of what they are summed
# into, and of every term of the sum its rank and which piece of it
STATE, CONTROL = 0, 1  # what is above; what the threads of the step look at, see `codes`
LABEL, LABEL_SIZE = 2, 3  # which collective it is, and how many bytes say so
LENGTH, STEP, ROOM = 4, 5, 6  # elements of a piece, elements of a round, bytes in a slot for one piece
BEFORE = 7  # rounds that have been posted, and not taken, when it begins
PIECES, OUTS, TERMS = 8, 9, 10  # how many there are
SUM_WORDS = 11


def sum_touched(*words: Any) -> list[Touched]:
    """What a row touches here; what lies in the window is at addresses that the state holds."""
    arrays, terms = words[PIECES] + words[OUTS], words[TERMS]
    if len(words) != SUM_WORDS + arrays + 2 * terms or words[LABEL_SIZE] > LABEL_BYTES:
        raise OutOfBounds(f"a sum over processes of {SUM_WORDS + arrays + 2 * terms} words, got {len(words)}")
    room, most = words[ROOM], max(words[SUM_WORDS + arrays + 1 :: 2], default=0) + 1
    if FLOAT * words[STEP] > room or room * max(words[PIECES], most) > SLOT_BYTES:
        raise OutOfBounds("a sum over processes leaves its slots")
    fixed: list[Touched] = [
        (STATE, 0, WORD * SEGMENTS),
        (CONTROL, 0, WORD * CONTROL_WORDS),
        (LABEL, 0, words[LABEL_SIZE]),
    ]
    return fixed + [(SUM_WORDS + number, 0, FLOAT * words[LENGTH]) for number in range(arrays)]
