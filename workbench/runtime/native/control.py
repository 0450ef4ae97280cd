"""What the threads of a step share with the code that walks their tapes."""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np

from workbench.runtime.native.image import Kernels
from workbench.runtime.native.tape import address
from workbench.runtime.words.codes import CONTROL_WORDS, FAILED, NAP, PATIENCE, STEP, YIELD

_PATIENCE = 20_000  # times a waiting thread offers its processor to others before it comes back: some milliseconds


@cache
def libc_address(name: str) -> int:
    """The address of a function of the C library."""
    return ctypes.cast(getattr(ctypes.CDLL(None), name), ctypes.c_void_p).value or 0


def lines(words: int) -> np.ndarray:
    """Zeros, int64, beginning at a cache line."""
    raw = np.zeros(words + 8, np.int64)
    start = -address(raw) // 8 % 8
    return raw[start : start + words]


class Control:
    """The number of the step, whether somebody has failed, and functions of the system.

    Attributes:
        kernels: the compiled code; array: the words; address: of them.
    """

    def __init__(self, kernels: Kernels) -> None:
        self.kernels = kernels
        self.array = lines(CONTROL_WORDS)
        self._words = self.array.data
        self.address = address(self.array)
        self._words[YIELD], self._words[NAP] = libc_address("sched_yield"), libc_address("usleep")
        self.run = kernels.entry("run", 1)
        self.run_through = kernels.entry("run_through", 1)
        self.run_step = kernels.entry("run_step", 1)
        self.wait_for = kernels.entry("wait_for", 3)
        self.blemished = kernels.entry("blemished", 2)

    @property
    def step(self) -> int:
        """Number of the step: what flags of this step are raised to."""
        return self._words[STEP]

    def begin(self) -> None:
        """A new step: no flag is up, nobody has failed."""
        self._words[STEP] += 1
        self._words[FAILED] = 0
        self._words[PATIENCE] = _PATIENCE

    def doze(self) -> None:
        """Threads that wait give up their processors at once, as long as this step goes on."""
        self._words[PATIENCE] = 0

    def fail(self, failed: bool = True) -> None:
        """Make everybody stop at the next row, or go on."""
        self._words[FAILED] = int(failed)
