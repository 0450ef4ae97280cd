"""Stamps of rows: the clock they are of, and the ring they are in."""

from __future__ import annotations

import time

import numpy as np
import pytest

from tests.native.one_row import kernels, sum_rows
from workbench.runtime.native.control import Control, lines
from workbench.runtime.native.stamps import Reading, Ring, StampClock, counter_is_even, is_even
from workbench.runtime.native.tape import Tape, address
from workbench.runtime.words.codes import AT, CONTROL, DECLINED, DONE, END, STAMPS, STATE_WORDS, TABLE
from workbench.runtime.words.stamp import BETWEEN, ROW, TIME

ERROR = 5_000  # ns: of a clock read while the machine does other things


class Walk:
    """A tape of sums, one a row, walked with stamps."""

    def __init__(self, rows: int, ring: Ring | None) -> None:
        self.numbers, self.totals = np.ones(64, np.float32), np.zeros(rows, np.float32)
        self.tape, self.control = Tape(kernels()), Control(kernels())
        self.at = []
        for row in range(rows):
            self.at.append(len(self.tape))
            self.tape.row(*sum_rows(self.numbers, self.totals[row:], 1, 64))
        self.state = lines(STATE_WORDS)
        self.ring = ring

    def run(self) -> int:
        self.control.begin()
        self.table = np.array(self.tape.words, np.int64)
        state = self.state
        state[TABLE], state[AT], state[END] = address(self.table), 0, len(self.tape)
        state[CONTROL], state[STAMPS] = self.control.address, 0 if self.ring is None else self.ring.address
        return int(self.control.run(address(state)))


@pytest.fixture(params=[True, False], ids=["counter", "system"])
def clock(request: pytest.FixtureRequest) -> StampClock:
    if request.param and not counter_is_even():
        pytest.skip("this processor's time-stamp counter is not even, or the system does not trust it")
    return StampClock(kernels(), counter=request.param)


def test_stamps_are_of_the_monotonic_clock(clock: StampClock) -> None:
    ring = Ring(clock, 8)
    walk = Walk(5, ring)
    for _ in range(20):
        ring.empty()
        before = time.monotonic_ns()
        assert walk.run() == DONE
        after = time.monotonic_ns()
        times = clock.nanoseconds(ring.entries()[:, TIME])
        assert before - ERROR <= times[0] and times[-1] <= after + ERROR
        assert (np.diff(times) >= 0).all()
        time.sleep(0.002)


def test_the_counter_keeps_up_with_the_monotonic_clock() -> None:
    """Over a while in which the rate is found, and over the next, for which it is used."""
    clock = StampClock(kernels(), counter=True)
    for _ in range(3):
        time.sleep(0.05)
        before = time.monotonic_ns()
        reading = clock.read()
        after = time.monotonic_ns()
        assert before <= reading.nanoseconds <= after
        (nanoseconds,) = clock.nanoseconds(np.array([reading.ticks], np.int64))
        if counter_is_even():
            assert abs(int(nanoseconds) - reading.nanoseconds) <= ERROR


def test_the_rate_is_never_taken_over_a_short_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not right behind a new beginning either: what a reading is off would count many times in stamps before it."""
    clock, off, second = StampClock(kernels(), counter=True), 100, 1_000_000_000
    readings = [0, *(when * second // 1000 for when in (900, 1100, 1101, 1103, 2300, 2301, 2302, 3600, 3601))]
    clocks = [Reading(3 * now, now + off * (n % 2)) for n, now in enumerate(readings)]
    monkeypatch.setattr(clock, "read", lambda: clocks.pop(0))
    monkeypatch.setattr(clock, "_base", clock.read())
    monkeypatch.setattr(clock, "_next_base", clock._base)
    for now in readings[1:]:
        before = max(now - 10_000_000, 0)
        (nanoseconds,) = clock.nanoseconds(np.array([3 * before], np.int64))
        assert abs(int(nanoseconds) - before) <= 2 * off


def test_every_row_is_stamped_and_the_end(clock: StampClock) -> None:
    ring = Ring(clock, 8)
    walk = Walk(5, ring)
    assert walk.run() == DONE
    assert (ring.entries()[:, ROW] == [*(address(walk.table) + 8 * at for at in walk.at), BETWEEN]).all()
    assert (walk.totals == 64).all()


def test_without_a_ring_nothing_is_stamped(clock: StampClock) -> None:
    ring, walk = Ring(clock, 8), Walk(5, None)
    assert walk.run() == DONE and len(ring) == 0


def test_the_oldest_stamps_give_way(clock: StampClock) -> None:
    ring = Ring(clock, 8)
    walk = Walk(20, ring)
    assert walk.run() == DONE
    entries = ring.entries()
    assert len(ring) == 21 and len(entries) == 8
    assert (entries[:, ROW] == [*(address(walk.table) + 8 * at for at in walk.at[-7:]), BETWEEN]).all()
    assert (np.diff(entries[:, TIME]) >= 0).all()


def test_a_row_one_comes_back_to_keeps_its_first_stamp(clock: StampClock) -> None:
    ring = Ring(clock, 8)
    walk = Walk(1, ring)
    unequal = np.float32([1, 2])
    walk.tape.row("require_equal", unequal, unequal[1:], 1, 1)
    assert walk.run() == DECLINED
    first = ring.entries()
    assert walk.control.run(address(walk.state)) == DECLINED
    assert ring.entries().tobytes() == first.tobytes() and len(first) == 2


CPU = "processor : {}\nflags : fpu tsc {} sse\nbogomips : 5\n\n"


@pytest.mark.parametrize(
    ("flags", "source", "even"),
    [
        (["constant_tsc nonstop_tsc", "constant_tsc nonstop_tsc"], "tsc\n", True),
        (["constant_tsc nonstop_tsc", "constant_tsc"], "tsc\n", False),
        (["constant_tsc nonstop_tsc"], "hpet\n", False),
        (["nonstop_tsc"], "tsc\n", False),
        ([], "tsc\n", False),
    ],
)
def test_a_counter_is_trusted_if_processor_and_system_do(flags: list[str], source: str, even: bool) -> None:
    assert is_even("".join(CPU.format(n, own) for n, own in enumerate(flags)), source) is even
