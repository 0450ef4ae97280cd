"""The words of a loop of a tape, and of its way back for the gradient (int64)."""

from __future__ import annotations

# A run of a loop: passes so far; what comes next; records that earlier runs have left, within a loop around it
TRIP, NEXT, BEFORE = range(3)
RUN_WORDS = 3
# The loop: its run, passes in one go; the values kept of every pass, one record after the other
PATIENCE, RECORDS, ROOM, RECORD = range(RUN_WORDS, 7)  # ROOM: records there is memory for; RECORD: bytes of one, or 0
IS_INSIDE = 7  # whether a loop around it keeps what its runs have kept
LOOK, PASS, OVER = range(3)  # what comes next: the condition, the body, nothing

# The way back: passes that are left; whether one of them has begun, is the last of the run; the first record of the run
LEFT, BEGUN, IS_FIRST, FROM = range(4)

LOOP_WORDS = 8
