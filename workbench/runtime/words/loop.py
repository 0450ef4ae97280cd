"""The words of a loop of a tape, and of its way back for the gradient (int64)."""

from __future__ import annotations

# A loop: passes so far; what comes next; passes in one go; the values kept of every pass, one record after the other
TRIP, NEXT, PATIENCE, RECORDS, ROOM, RECORD = range(6)  # ROOM: records there is memory for; RECORD: bytes of one, or 0
LOOK, PASS, OVER = range(3)  # what comes next: the condition, the body, nothing

# The way back: passes that are left; whether one of them has begun; whether it is the last of the loop; its loop
LEFT, BEGUN, IS_FIRST, LOOP = range(4)

LOOP_WORDS = 8
