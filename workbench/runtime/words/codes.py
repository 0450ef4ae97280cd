"""The numbers Python and the kernels agree on."""

from __future__ import annotations

from typing import Any

from workbench.runtime.footprint import WORD, Touched

# What a kernel, or the interpreter, returns
DONE = 0
PAUSED = 1  # a good moment to look at signals; go on behind this row
AGAIN = 2  # still waiting; come back to this row
STOPPED = 3  # somebody else has failed
DECLINED = 4  # the row cannot be done here: bad data
BLEMISHED = 5  # a step is ready to be applied, and there is a NaN or an Inf in what it has made
HELD = 6  # a good moment to look at signals; come back to this row, which goes on
FULL = 7  # a loop has to have more memory; come back to this row
ELSEWHERE = 8  # what another process has to do with it is Python's to look after, which goes on with this row
ASKED = 9  # a block of control flow has come to a row that Python runs; come back to this row

# A row: address of the kernel, number of words, arguments
ROW_KERNEL, ROW_LENGTH, ROW_ARGUMENTS = 0, 1, 2

# A row that one of several threads runs, or that depends on a flag: where the row inside it begins; where beside its
# flag is who has taken it
BLOCK_HEAD, BLOCK_TAKEN = 4, 1

# The state of one thread's program (int64 words)
TABLE, AT, END, CONTROL, STAMPS = range(5)  # STAMPS: the address of a ring, see `words.stamp`; 0: nobody looks
START = 8  # where it begins
CALL = 9  # of a block: the number of the call in Python that it waits for; less than 0: that one has been made
STATE_WORDS = 16

# What all threads of a step look at
STEP, FAILED, YIELD, PATIENCE, NAP = range(5)
CONTROL_WORDS = 8

# The mailbox a waiting thread looks into
GO, STATE, FINISHED, LAST, MAILBOX_CONTROL = 0, 1, 8, 9, 10  # the last three on a cache line of their own
MAILBOX_WORDS = 16


def block_touched(flag: Any, control: Any) -> tuple[Touched, ...]:
    """What a row that one of several threads runs touches; the row inside it is looked at like any other."""
    return (0, 0, WORD * (BLOCK_TAKEN + 1)), (1, 0, WORD * CONTROL_WORDS)


def unless_touched(flag: Any, control: Any) -> tuple[Touched, ...]:
    """The same of a row that depends on a flag."""
    return (0, 0, WORD), (1, 0, WORD * CONTROL_WORDS)
