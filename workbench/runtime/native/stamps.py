"""Time stamps kernels make: the rings they are written to, and the clock they are read from.

The processor's time-stamp counter is read in a few nanoseconds, the system's clock in a few dozen, which is as long
as a short row takes. The counter is used where it counts evenly on all processors; elsewhere the walker asks the
system.
"""

from __future__ import annotations

import threading
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from workbench.runtime.native.control import libc_address, lines
from workbench.runtime.native.image import Kernels
from workbench.runtime.native.tape import address
from workbench.runtime.words.stamp import (
    CLOCK,
    ENTRIES,
    ENTRY_WORDS,
    HEAD,
    MASK,
    NANOSECONDS,
    READING_WORDS,
    TICKS,
)

_EVEN = {"constant_tsc", "nonstop_tsc"}  # at any frequency, and in any sleep, of the processor
_BASELINE = 1_000_000_000  # ns over which the counter's rate is taken, at least, once the process is that old


class Reading(NamedTuple):
    """Both clocks at one moment."""

    ticks: int
    nanoseconds: int


class StampClock:
    """The clock the walker stamps rows with, and what its ticks are in nanoseconds of `time.perf_counter_ns`.

    Attributes:
        address: what a ring is told: 0 for the counter, else where the system's clock is.
    """

    def __init__(self, kernels: Kernels, counter: bool | None = None) -> None:
        counter = counter_is_even() if counter is None else counter
        self._system = libc_address("clock_gettime")
        self.address = 0 if counter else self._system
        self._reading = lines(READING_WORDS)
        self._read = kernels.entry("read_clocks", 2)
        self._lock = threading.Lock()
        self._base = self._next_base = self.read()

    def read(self) -> Reading:
        """Both clocks now."""
        self._read(address(self._reading), self._system)
        return Reading(int(self._reading[TICKS]), int(self._reading[NANOSECONDS]))

    def nanoseconds(self, stamps: np.ndarray) -> np.ndarray:
        """Stamps of the last moments as nanoseconds, int64."""
        if self.address:
            return stamps
        with self._lock:
            now = self.read()
            rate = (now.nanoseconds - self._base.nanoseconds) / max(now.ticks - self._base.ticks, 1)
            if (
                now.nanoseconds - self._next_base.nanoseconds > _BASELINE
            ):  # the system's clock is corrected now and then
                self._base, self._next_base = self._next_base, now
        return now.nanoseconds + np.rint((stamps - now.ticks) * rate).astype(np.int64)


@cache
def stamp_clock(kernels: Kernels) -> StampClock:
    """The clock of this process."""
    return StampClock(kernels)


def counter_is_even() -> bool:
    """Whether the processor says that its counter is, and the system trusts it."""
    try:
        cpu = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        source = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource").read_text(encoding="utf-8")
    except OSError:
        return False
    return is_even(cpu, source)


def is_even(cpu: str, source: str) -> bool:
    """The same, of the text of /proc/cpuinfo and the name of the system's clock source."""
    flags = [set(line.partition(":")[2].split()) for line in cpu.splitlines() if line.startswith("flags")]
    return bool(flags) and all(own >= _EVEN for own in flags) and source.strip() == "tsc"


class Ring:
    """Where one thread's walker writes its stamps; the oldest give way to the newest.

    Args:
        entries: for so many there is room at least.

    Attributes:
        address: what states of programs are told.
    """

    def __init__(self, clock: StampClock, entries: int) -> None:
        room = 1 << max(entries - 1, 1).bit_length()
        self._array = lines(ENTRIES + ENTRY_WORDS * room)
        self._array[[MASK, CLOCK]] = room - 1, clock.address
        self._words = self._array.data
        self._entries = self._array[ENTRIES:].reshape(room, ENTRY_WORDS)
        self.address = address(self._array)

    def empty(self) -> None:
        """Forget what is in it."""
        self._words[HEAD] = 0

    def __len__(self) -> int:
        """How many entries have been written since it was emptied."""
        return int(self._words[HEAD])

    def entries(self) -> np.ndarray:
        """The entries in the order they were written, as [entries, words of one]; a copy."""
        count, room = len(self), len(self._entries)
        if count <= room:
            return self._entries[:count].copy()
        return np.roll(self._entries, -(count % room), axis=0)
