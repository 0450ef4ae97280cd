"""Loops and branches: rows that walk other tapes, again and again, or one of two.

Values the gradient needs are kept pass by pass, in records one behind the other. Where a row has to be come back to, it
goes on where it was: how far it is stands in its words.
"""

from __future__ import annotations

from workbench.runtime.kernels.arguments import Address, Bytes, Floats, Ints
from workbench.runtime.kernels.intrinsics import function, ints, truths
from workbench.runtime.kernels.registry import kernel
from workbench.runtime.kernels.tape.interpreter import walk
from workbench.runtime.words import codes as codes_words
from workbench.runtime.words import loop as loop_words
from workbench.runtime.words import stream as stream_words
from workbench.runtime.words.codes import ASKED, AT, CALL, DECLINED, DONE, FULL, HELD, PAUSED, START
from workbench.runtime.words.loop import (
    BEFORE,
    BEGUN,
    FROM,
    IS_FIRST,
    IS_INSIDE,
    LEFT,
    LOOK,
    NEXT,
    OVER,
    PASS,
    PATIENCE,
    RECORD,
    RECORDS,
    ROOM,
    TRIP,
)
from workbench.runtime.words.stream import COUNTS_PASSES, PER_TRIP
from workbench.runtime.words.stream import TRIP as STREAM_TRIP


@function
def rewind(state_address):
    """The next walk begins at the first row, and no call in Python has been made for it."""
    state = ints(state_address)
    state[AT], state[CALL] = state[START], 0


@function
def walk_through(state_address):
    """Walk to the end and wind back; HELD where Python has to look at signals."""
    status = walk(state_address)
    if status == PAUSED:
        return HELD
    if status == DONE:
        rewind(state_address)
    return status


@kernel(words=codes_words)
def ask(state: Ints("STATE_WORDS"), number):
    """Have Python make a call, from 1 on, and go on behind it once that has been made."""
    if state[CALL] == -number:
        state[CALL] = 0
        return DONE
    state[CALL] = number
    return ASKED


@kernel(words=stream_words)
def outside_loops(stream: Ints("STREAM_WORDS")):
    """A random stream is told of the passes around what draws from it, from the outermost on; here of none."""
    stream[STREAM_TRIP] = 0
    return DONE


@kernel(words=stream_words)
def inside_pass(stream: Ints("STREAM_WORDS"), trip: Ints(1)):
    """And of one more, inside those it has been told of."""
    if stream[COUNTS_PASSES]:
        stream[STREAM_TRIP] = stream[STREAM_TRIP] * PER_TRIP + trip[0] + 1
    return DONE


@kernel(words=(codes_words, loop_words))
def begin_loop(
    condition: Address("STATE_WORDS", item=8), body: Address("STATE_WORDS", item=8), loop: Ints("LOOP_WORDS"),
):  # fmt: skip
    """No pass has been made; what runs before have kept stays for the loop around this one."""
    rewind(condition)
    rewind(body)
    loop[BEFORE] = loop[BEFORE] + loop[TRIP] if loop[IS_INSIDE] else 0
    loop[TRIP], loop[NEXT] = 0, LOOK
    return DONE


@kernel(words=loop_words)
def begin_inside(inner: Ints("LOOP_WORDS"), loop: Ints("LOOP_WORDS")):
    """Nothing has been kept of a loop inside another one, where that begins and is in none itself."""
    if not loop[IS_INSIDE]:
        inner[TRIP] = inner[BEFORE] = 0
    return DONE


@kernel(words=(codes_words, loop_words))
def repeat(
    condition: Address("STATE_WORDS", item=8), body: Address("STATE_WORDS", item=8), goes_on: Bytes(1),
    loop: Ints("LOOP_WORDS"),
):  # fmt: skip
    """Walk the body as long as the tape of the condition says so."""
    for _ in range(loop[PATIENCE]):
        if loop[NEXT] == LOOK:
            status = walk_through(condition)
            if status != DONE:
                return status
            loop[NEXT] = PASS if goes_on[0] else OVER
        if loop[NEXT] == OVER:
            return DONE
        if loop[RECORD] and loop[BEFORE] + loop[TRIP] == loop[ROOM]:
            return FULL
        status = walk_through(body)
        if status != DONE:
            return status
        loop[TRIP] += 1
        loop[NEXT] = LOOK
    return HELD


@kernel(words=(codes_words, loop_words))
def begin_way_back(body: Address("STATE_WORDS", item=8), run: Ints("RUN_WORDS"), back: Ints("LOOP_WORDS")):
    """All passes of a run are left; declined where it has not come to its end in kernels."""
    rewind(body)
    back[LEFT], back[BEGUN], back[IS_FIRST], back[FROM] = run[TRIP], 0, 1, run[BEFORE]
    return DONE if run[NEXT] == OVER else DECLINED


@kernel(words=(codes_words, loop_words))
def go_back(body: Address("STATE_WORDS", item=8), loop: Ints("LOOP_WORDS"), back: Ints("LOOP_WORDS")):
    """Walk the body of the gradient for every pass, the last one first."""
    for _ in range(loop[PATIENCE]):
        if not back[BEGUN]:
            if back[LEFT] == 0:
                return DONE
            back[LEFT] -= 1
            back[BEGUN] = 1
        status = walk_through(body)
        if status != DONE:
            return status
        back[BEGUN], back[IS_FIRST] = 0, 0
    return HELD


@kernel(words=loop_words)
def keep(source: Bytes("count"), count, loop: Ints("LOOP_WORDS"), offset):
    """Bytes of this pass into its record."""
    record = truths(loop[RECORDS] + (loop[BEFORE] + loop[TRIP]) * loop[RECORD] + offset)
    for i in range(count):
        record[i] = source[i]
    return DONE


@kernel(words=loop_words)
def give_back(out: Bytes("count"), count, loop: Ints("LOOP_WORDS"), offset, back: Ints("LOOP_WORDS")):
    """Bytes that were kept of the pass the way back is at."""
    record = truths(loop[RECORDS] + (back[FROM] + back[LEFT]) * loop[RECORD] + offset)
    for i in range(count):
        out[i] = record[i]
    return DONE


@kernel(words=loop_words)
def add_pass(total: Floats("count"), part: Floats("count"), count, back: Ints("LOOP_WORDS")):
    """total += part; of the first pass on the way back total = part."""
    if back[IS_FIRST]:
        for i in range(count):
            total[i] = part[i]
    else:
        for i in range(count):
            total[i] += part[i]
    return DONE


@kernel()
def move_bytes(source: Bytes("count"), out: Bytes("count"), count):
    """Bytes that do not overlap."""
    for i in range(count):
        out[i] = source[i]
    return DONE


@kernel()
def clear_bytes(out: Bytes("count"), count):
    """Nothing but zeros."""
    for i in range(count):
        out[i] = 0
    return DONE


@kernel(words=codes_words)
def begin_choice(first: Address("STATE_WORDS", item=8), second: Address("STATE_WORDS", item=8), is_made: Ints(1)):
    """Neither tape has been walked."""
    rewind(first)
    rewind(second)
    is_made[0] = 0
    return DONE


@kernel(words=codes_words)
def choose(
    is_first: Bytes(1), first: Address("STATE_WORDS", item=8), second: Address("STATE_WORDS", item=8),
    is_made: Ints(1),
):  # fmt: skip
    """Walk one of two tapes."""
    status = walk_through(first) if is_first[0] else walk_through(second)
    if status == DONE:
        is_made[0] = 1
    return status


@kernel()
def require_made(is_made: Ints(1)):
    """Go on only if a choice was made in kernels."""
    return DONE if is_made[0] else DECLINED
