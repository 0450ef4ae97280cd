"""Sums over the processes that share a window, and their vote on a step, without a way back to Python.

A process tells how far it has come by the words of its segment, and by nothing else: what is begun here Python may go
on with, and the other way round (`runtime.comm.mpi.exchange.channel`, where it is said what the words mean).
"""

from __future__ import annotations

from workbench.runtime.kernels.arguments import Words
from workbench.runtime.kernels.intrinsics import (
    INT,
    address_of,
    atomic_load,
    atomic_store,
    call1,
    copy_bytes,
    drain,
    fence,
    function,
    ints,
    pass_line,
    pause,
)
from workbench.runtime.kernels.math.sums import add
from workbench.runtime.kernels.registry import entry, kernel
from workbench.runtime.kernels.tape.interpreter import offer
from workbench.runtime.words import window as words
from workbench.runtime.words.codes import DONE, ELSEWHERE, FAILED, HELD, NAP, ROW_ARGUMENTS, STOPPED
from workbench.runtime.words.window import (
    BEFORE,
    BEGIN,
    CONTROL,
    DATA,
    EPOCH,
    FREE,
    GAVE_UP,
    LABEL,
    LABEL_BYTES,
    LABEL_SIZE,
    LABELS,
    LENGTH,
    NUMBER,
    OUTS,
    PASSED,
    PIECES,
    POSTED,
    RANK,
    ROOM,
    SEGMENTS,
    SIZE,
    SLOT_BYTES,
    SLOTS,
    SPINS,
    STATE,
    STEP,
    SUM_WORDS,
    TAKEN,
    TERMS,
    VERDICT,
    VOTE,
    sum_touched,
)

LINE = 8 * words.LINE
OFFERS = 500  # of the processor to others: some 100 us, where nobody takes it
NAPS, NAP_LENGTH = 100, 50  # of so many microseconds, before a wait goes on in Python


@function
def word_of(state, rank, word):
    """The address of a word of a process's segment."""
    return state[SEGMENTS + rank] + LINE * word


@function
def least_of_all(state, word):
    """The least that this word is of any process."""
    least = atomic_load(word_of(state, 0, word))
    for rank in range(1, state[SIZE]):
        word_there = atomic_load(word_of(state, rank, word))
        if word_there < least:
            least = word_there
    return least


@function
def has_given_up(state):
    """Whether a process has, this one included."""
    for rank in range(state[SIZE]):
        if atomic_load(word_of(state, rank, GAVE_UP)) == state[EPOCH]:
            return True
    return False


@function
def rest(state, control, spins):
    """Between two looks at a word: DONE, or why nobody looks any more."""
    pause()
    if spins <= state[SPINS]:
        return DONE
    if atomic_load(control + 8 * FAILED) != 0:
        return STOPPED
    if has_given_up(state) or spins > state[SPINS] + OFFERS + NAPS:
        return ELSEWHERE
    if spins > state[SPINS] + OFFERS:
        call1(ints(control)[NAP], NAP_LENGTH)
    else:
        offer(control)
    return DONE


@function
def put(target, source, count):
    """Copy bytes to where other processes read them, see `words.window.PASSED`."""
    if count < PASSED:
        copy_bytes(target, source, count)
        return
    at = -target % 64
    copy_bytes(target, source, at)
    while at + 64 <= count:
        pass_line(target + at, source + at)
        at += 64
    copy_bytes(target + at, source + at, count - at)
    drain()


@entry(INT, INT, INT)
def put_bytes(target, source, count):
    """The same from Python."""
    put(target, source, count)
    return DONE


@function
def post(row, state, begin):
    """Put as many rounds into the slots as there is room for."""
    own, count = state[SEGMENTS + state[RANK]], rounds_of(row)
    now = atomic_load(own + LINE * POSTED)
    while now < begin + count:
        if now >= state[FREE]:
            state[FREE] = SLOTS + least_of_all(state, TAKEN)
            if now >= state[FREE]:
                return
        slot, at = now % SLOTS, (now - begin) * row[STEP]
        target = own + DATA + SLOT_BYTES * slot
        nbytes = 4 * min(row[STEP], row[LENGTH] - at)
        for piece in range(row[PIECES]):
            put(target + row[ROOM] * piece, row[SUM_WORDS + piece] + 4 * at, nbytes)
        copy_bytes(own + LABELS + LABEL_BYTES * slot, row[LABEL], row[LABEL_SIZE])
        now += 1
        atomic_store(own + LINE * POSTED, now)


@function
def rounds_of(row):
    """How many rounds there are."""
    return max(1, (row[LENGTH] + row[STEP] - 1) // row[STEP])


@function
def are_at_the_same(row, state, slot):
    """Whether all processes are at this collective."""
    mark = ints(row[LABEL])[0]
    for rank in range(state[SIZE]):
        if ints(state[SEGMENTS + rank] + LABELS + LABEL_BYTES * slot)[0] != mark:
            return False
    return True


@function
def term(row, state, slot, number, at):
    """The address of what a term of the sum is in a slot: this process's own is still where it was put there from,
    and often still in a cache, until the sum's first addition has been written over it."""
    told = SUM_WORDS + row[PIECES] + row[OUTS] + 2 * number
    rank, piece = row[told], row[told + 1]
    if rank == state[RANK] and number < 2 and piece < row[PIECES]:
        return row[SUM_WORDS + piece] + 4 * at
    return state[SEGMENTS + rank] + DATA + SLOT_BYTES * slot + row[ROOM] * piece


@function
def take(row, state, slot, at):
    """Add up what lies in a slot, in the order of the terms."""
    count = min(row[STEP], row[LENGTH] - at)
    outs = SUM_WORDS + row[PIECES]
    if row[OUTS] == 0:
        return
    total = row[outs] + 4 * at
    if row[TERMS] == 1:
        copy_bytes(total, term(row, state, slot, 0, at), 4 * count)
    else:
        add((total,), (term(row, state, slot, 0, at), term(row, state, slot, 1, at)), (), count)
        for number in range(2, row[TERMS]):
            add((total,), (total, term(row, state, slot, number, at)), (), count)
    for number in range(1, row[OUTS]):
        copy_bytes(row[outs + number] + 4 * at, total, 4 * count)


@kernel()
def hand_in(row: Words(sum_touched)):
    """Put this process's contribution where the others find it; `sum_processes` puts there what finds no room yet."""
    told = ints(address_of(row) + 8 * ROW_ARGUMENTS)
    state = ints(told[STATE])
    begin = atomic_load(word_of(state, state[RANK], TAKEN)) + told[BEFORE]
    if state[BEGIN] < 0 and atomic_load(word_of(state, state[RANK], POSTED)) == begin:
        post(told, state, begin)
    return DONE


@kernel()
def sum_processes(row: Words(sum_touched)):
    """The sum over all processes; see `words.window` for what a row is told. Called again, it goes on where it was."""
    told = ints(address_of(row) + 8 * ROW_ARGUMENTS)
    state = ints(told[STATE])
    own = state[SEGMENTS + state[RANK]]
    now = atomic_load(own + LINE * TAKEN)
    if state[BEGIN] < 0:
        state[BEGIN] = now
    begin, waited = state[BEGIN], 0
    while now < begin + rounds_of(told):
        if waited > OFFERS + NAPS:  # over rounds of which none was long
            return HELD
        post(told, state, begin)
        spins = 0
        while least_of_all(state, POSTED) <= now:
            spins += 1
            status = rest(state, told[CONTROL], spins)
            if status != DONE:
                return status
            post(told, state, begin)  # a place may be free by now, and the others may wait for just this
        if not are_at_the_same(told, state, now % SLOTS):
            return ELSEWHERE
        waited += max(0, spins - state[SPINS])
        take(told, state, now % SLOTS, (now - begin) * told[STEP])
        now += 1
        atomic_store(own + LINE * TAKEN, now)
    state[BEGIN] = -1
    return DONE


@function
def vote(state_address, control):
    """Say that this process is ready to apply the step under way; DONE when all are, and all apply it."""
    state = ints(state_address)
    number = state[NUMBER]
    own, verdict = word_of(state, state[RANK], VOTE), word_of(state, 0, VERDICT)
    atomic_store(own, number)
    fence()
    spins = 0
    if state[RANK] == 0:
        if has_given_up(state):  # who did so before it could see this vote does not wait for a verdict
            return ELSEWHERE
        while least_of_all(state, VOTE) < number:
            spins += 1
            status = rest(state, control, spins)
            if status != DONE:
                return ELSEWHERE
        atomic_store(verdict, 2 * number + 1)
    while atomic_load(verdict) < 2 * number:
        spins += 1
        status = rest(state, control, spins)
        if status != DONE:
            return ELSEWHERE
    return DONE if atomic_load(verdict) > 2 * number else ELSEWHERE
