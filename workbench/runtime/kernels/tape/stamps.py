"""Walks a tape and notes when it came to which row."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

from workbench.runtime.kernels.intrinsics import INT, IS_X86, atomic_load, call_row, clock, function, ints
from workbench.runtime.kernels.registry import entry
from workbench.runtime.words.codes import (
    AT,
    CONTROL,
    DONE,
    END,
    FAILED,
    PAUSED,
    ROW_KERNEL,
    ROW_LENGTH,
    STAMPS,
    STOPPED,
    TABLE,
)
from workbench.runtime.words.stamp import (
    BETWEEN,
    CLOCK,
    ENTRIES,
    ENTRY_WORDS,
    HEAD,
    MASK,
    NANOSECONDS,
    READING_ROOM,
    ROOM,
    ROW,
    TICKS,
    TIME,
)

ATTEMPTS = 8


@intrinsic
def ticks(context: Any) -> Any:
    """The processor's time-stamp counter; what stands before and behind it in the program may overlap it a little.

    It is 0 where programs may not read it: there walkers stamp with the system's clock.
    """

    def generate(c: Any, b: Any, s: Any, args: Any) -> Any:
        word = ir.IntType(64)
        if not IS_X86:
            return word(0)
        read = cgutils.get_or_insert_function(b.module, ir.FunctionType(word, []), "llvm.readcyclecounter")
        return b.call(read, [])

    return INT(), generate


@function
def note(ring_address, head, row):
    """The walker is at a row now; how many entries there are."""
    ring = ints(ring_address)
    one = ints(ring_address + 8 * (ENTRIES + ENTRY_WORDS * (head & ring[MASK])))
    one[ROW] = row
    one[TIME] = ticks() if ring[CLOCK] == 0 else clock(ring[CLOCK], ring_address + 8 * ROOM)
    return head + 1


@function
def is_at(ring_address, head, row):
    """Whether the newest entry is that of a row."""
    if head == 0:
        return False
    last = ints(ring_address + 8 * (ENTRIES + ENTRY_WORDS * ((head - 1) & ints(ring_address)[MASK])))
    return last[ROW] == row


@function
def walk_with_stamps(state_address):
    """As `walk`; a row it comes back to, because it had to wait or was declined, keeps its first stamp."""
    state = ints(state_address)
    table, at, end, failed = state[TABLE], state[AT], state[END], state[CONTROL] + 8 * FAILED
    ring = state[STAMPS]
    head = ints(ring)[HEAD]
    goes_on = is_at(ring, head, table + 8 * at)
    status = DONE
    while at < end and status == DONE:
        if atomic_load(failed) != 0:
            status = STOPPED
            break
        row = ints(table + 8 * at)
        if goes_on:
            goes_on = False
        else:
            head = note(ring, head, table + 8 * at)
        status = call_row(row[ROW_KERNEL], table + 8 * at)
        if status == DONE or status == PAUSED:
            at += row[ROW_LENGTH]
    if at >= end:
        head = note(ring, head, BETWEEN)
    ints(ring)[HEAD] = head
    state[AT] = at
    return status


@entry(INT, INT)
def read_clocks(reading_address, system):
    """Both clocks at one moment, by the address of `clock_gettime`: of several attempts the one least disturbed."""
    reading = ints(reading_address)
    least = -1
    for _ in range(ATTEMPTS):
        before = ticks()
        now = clock(system, reading_address + 8 * READING_ROOM)
        took = ticks() - before
        if least < 0 or took < least:
            least = took
            reading[TICKS], reading[NANOSECONDS] = before + took // 2, now
    return least
