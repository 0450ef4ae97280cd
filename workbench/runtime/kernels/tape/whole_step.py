"""A whole step as one call: what is fed is put in place, two programs run, and results are handed out.

NumPy's arrays are read and written as its C API does, by the address of the object: `ndarray` begins like
`PyArrayObject_fields` of numpy/ndarraytypes.h, whose layout is part of NumPy's binary interface.
"""

from __future__ import annotations

from workbench.runtime.kernels.intrinsics import INT, copy_bytes, floats, function, ints
from workbench.runtime.kernels.registry import entry
from workbench.runtime.kernels.tape.exchange import vote
from workbench.runtime.kernels.tape.interpreter import walk_any
from workbench.runtime.words import step as step_words
from workbench.runtime.words.codes import AT, BLEMISHED, CONTROL, DECLINED, DONE, HELD, PAUSED, START
from workbench.runtime.words.step import (
    AGREED,
    BALLOT,
    COUNTED,
    COUNTERS,
    DATA,
    FED,
    FEEDS,
    FIRST,
    FLAGS,
    LAST,
    LENGTH,
    MADE,
    MEMORY,
    MOVE_WORDS,
    NBYTES,
    OBJECT,
    OBJECTS,
    OFFSET,
    RESULTS,
    STRETCH,
    STRETCH_WORDS,
    TELLTALES,
    TOLD,
)

RUNS = step_words.RUNS
WELL_PLACED = 0x101  # NPY_ARRAY_C_CONTIGUOUS and NPY_ARRAY_ALIGNED


@function
def are_well_placed(step, moves, count):
    """Whether the elements of all arrays lie one after the other."""
    objects = ints(step[OBJECTS])
    for i in range(count):
        flags = ints(objects[ints(moves + 8 * MOVE_WORDS * i)[OBJECT]] + step[FLAGS])[0]
        if flags & WELL_PLACED != WELL_PLACED:
            return False
    return True


@function
def move(step, moves, count, inwards):
    """Between arrays and memory."""
    objects = ints(step[OBJECTS])
    for i in range(count):
        one = ints(moves + 8 * MOVE_WORDS * i)
        part = ints(objects[one[OBJECT]] + step[DATA])[0] + one[OFFSET]
        if inwards:
            copy_bytes(one[MEMORY], part, one[NBYTES])
        else:
            copy_bytes(part, one[MEMORY], one[NBYTES])


@function
def are_finite(x, count):
    """Whether there is neither NaN nor Inf: either minus itself is NaN, which is not itself."""
    not_finite = 0
    for i in range(count):
        difference = x[i] - x[i]
        not_finite += difference != difference
    return not_finite == 0


@function
def blemished_stretches(stretches, count):
    """How many of these stretches hold a NaN or an Inf."""
    blemished = 0
    for i in range(count):
        one = ints(stretches + 8 * STRETCH_WORDS * i)
        if not are_finite(floats(one[STRETCH]), one[LENGTH]):
            blemished += 1
    return blemished


@entry(INT, INT)
def blemished(stretches, count):
    """The same, for steps that are no single call."""
    return blemished_stretches(stretches, count)


@entry(INT)
def run_step(address):
    """Run the first program and, once it has come to its end, the last; called again, go on from where they are.

    Between the two it looks at what was asked for, and leaves the step as it is should it not be finite; and of several
    trainers all have to agree.

    The first may pause, so that Ctrl-C is answered; the last does not: it applies the step. At the end of both, and
    nowhere else, results are handed out, the programs are wound back, and all counters are moved on by one.
    """
    step = ints(address)
    first, last = ints(step[FIRST]), ints(step[LAST])
    if first[AT] == first[START]:
        if not are_well_placed(step, step[FED], step[FEEDS]):
            return DECLINED
        move(step, step[FED], step[FEEDS], True)
    status = walk_any(step[FIRST])
    if status == DONE and step[TOLD] and blemished_stretches(step[TELLTALES], step[TOLD]):
        return BLEMISHED
    if status == DONE and step[BALLOT] and not step[AGREED]:
        status = vote(step[BALLOT], first[CONTROL])
        step[AGREED] = status == DONE
    if status == DONE:
        status = walk_any(step[LAST])
        while status == PAUSED or status == HELD:
            status = walk_any(step[LAST])
    if status != DONE:
        return status
    move(step, step[MADE], step[RESULTS], False)
    first[AT], last[AT], step[AGREED] = first[START], last[START], 0
    for i in range(step[COUNTED]):
        ints(ints(step[COUNTERS])[i])[0] += 1
    step[RUNS] += 1
    return DONE
