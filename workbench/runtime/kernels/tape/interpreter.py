"""Walks a tape, waits for other threads, and serves steps in a thread that stays here between them."""

from __future__ import annotations

from workbench.runtime.kernels.arguments import Address, Words
from workbench.runtime.kernels.intrinsics import (
    INT,
    address_of,
    atomic_load,
    atomic_store,
    atomic_swap,
    call0,
    call_row,
    function,
    ints,
    pause,
)
from workbench.runtime.kernels.registry import entry, kernel
from workbench.runtime.kernels.tape.stamps import walk_with_stamps
from workbench.runtime.words import codes as codes_words
from workbench.runtime.words.codes import (
    AGAIN,
    AT,
    BLOCK_HEAD,
    BLOCK_TAKEN,
    CONTROL,
    DONE,
    END,
    FAILED,
    FINISHED,
    GO,
    HELD,
    LAST,
    MAILBOX_CONTROL,
    PATIENCE,
    PAUSED,
    ROW_ARGUMENTS,
    ROW_KERNEL,
    ROW_LENGTH,
    STAMPS,
    STATE,
    STEP,
    STOPPED,
    TABLE,
    YIELD,
    block_touched,
    unless_touched,
)

SPINS = 1000  # pauses before the processor is offered to others: some 20 us


@function
def walk(state_address):
    """Run rows until the end, a status, or a failure elsewhere; the state remembers where."""
    state = ints(state_address)
    table, at, end, failed = state[TABLE], state[AT], state[END], state[CONTROL] + 8 * FAILED
    status = DONE
    while at < end and status == DONE:
        if atomic_load(failed) != 0:
            status = STOPPED
            break
        row = ints(table + 8 * at)
        status = call_row(row[ROW_KERNEL], table + 8 * at)
        if status == DONE or status == PAUSED:
            at += row[ROW_LENGTH]
    state[AT] = at
    return status


@function
def offer(control):
    """Let another thread have the processor."""
    target = ints(control)[YIELD]
    if target != 0:
        call0(target)


@function
def wait_until(address, least, control):
    """Wait for a word to reach a number; DONE, STOPPED or AGAIN."""
    spins = 0
    while atomic_load(address) < least:
        pause()
        spins += 1
        if spins > SPINS:
            if atomic_load(control + 8 * FAILED) != 0:
                return STOPPED
            if spins > SPINS + ints(control)[PATIENCE]:
                return AGAIN
            offer(control)
    return DONE


@kernel(words=codes_words)
def wait(flag: Address(1, item=8), control: Address("CONTROL_WORDS", item=8)):
    """Wait until another thread has come so far in this step."""
    return wait_until(flag, ints(control)[STEP], control)


@kernel(words=codes_words)
def signal(flag: Address(1, item=8), control: Address("CONTROL_WORDS", item=8)):
    """Tell other threads that this one has come so far."""
    atomic_store(flag, ints(control)[STEP])
    return DONE


@kernel()
def block(row: Words(block_touched)):
    """Run the row inside this one, unless somebody else has taken it in this step.

    Its words: the flag that tells it is done, beside which is who has taken it, `control`, and the row inside. One that
    was not done is anybody's again: whoever comes back to it is not to find it taken.
    """
    flag, step = row[ROW_ARGUMENTS], ints(row[ROW_ARGUMENTS + 1])[STEP]
    taken = atomic_load(flag + 8 * BLOCK_TAKEN)
    if taken >= step or not atomic_swap(flag + 8 * BLOCK_TAKEN, taken, step):
        return DONE
    inside = address_of(row) + 8 * BLOCK_HEAD
    status = call_row(ints(inside)[ROW_KERNEL], inside)
    if status == DONE:
        atomic_store(flag, step)
    else:
        atomic_store(flag + 8 * BLOCK_TAKEN, taken)
    return status


@kernel()
def unless(row: Words(unless_touched)):
    """Run the row inside this one, unless a flag is up in this step.

    Its words: the flag, `control`, and the row inside.
    """
    if atomic_load(row[ROW_ARGUMENTS]) >= ints(row[ROW_ARGUMENTS + 1])[STEP]:
        return DONE
    inside = address_of(row) + 8 * BLOCK_HEAD
    return call_row(ints(inside)[ROW_KERNEL], inside)


@kernel()
def look_up():
    """Come back to Python for a moment, where Ctrl-C is answered."""
    return PAUSED


@entry(INT, INT, INT)
def wait_for(flag, least, control):
    """Wait from Python."""
    return wait_until(flag, least, control)


@function
def walk_any(state_address):
    """Walk, with stamps if there is a ring for them."""
    if ints(state_address)[STAMPS] != 0:
        return walk_with_stamps(state_address)
    return walk(state_address)


@entry(INT)
def run(state_address):
    """Run a program from where it is."""
    return walk_any(state_address)


@entry(INT)
def run_through(state_address):
    """Run a program from where it is without a moment for signals in between."""
    status = walk_any(state_address)
    while status == PAUSED or status == HELD:
        status = walk_any(state_address)
    return status


@entry(INT, INT)
def serve(mailbox_address, patience):
    """Run the programs put into a mailbox, one step after the other.

    Returns 0 after so many offers of the processor without work; 1 when there is something to do in Python: no
    program was put in, a kernel of it has declined, or it has waited long.
    """
    mailbox = ints(mailbox_address)
    while True:
        spins = 0
        while atomic_load(mailbox_address + 8 * GO) <= mailbox[LAST]:
            pause()
            spins += 1
            if spins > SPINS:
                if spins > SPINS + patience:
                    return 0
                offer(mailbox[MAILBOX_CONTROL])
        mailbox[LAST] = atomic_load(mailbox_address + 8 * GO)
        state = mailbox[STATE]  # read once: who dismisses the thread puts 0 there while it walks
        if state == 0:
            return 1
        status = walk_any(state)
        while status == PAUSED or status == HELD:
            status = walk_any(state)
        if status != DONE and status != STOPPED:
            return 1
        atomic_store(mailbox_address + 8 * FINISHED, mailbox[LAST])
