"""Words in which kernels say that a number names nothing: a label that is no class, an id that is no row of a table.

A kernel goes on with something harmless and leaves a 1. The words come to the host with what is fetched, before the
step is applied; the rows in question then run on the host, which knows what to make of such a number.
"""

from __future__ import annotations

import numpy as np

from workbench.cuda.devices.gpu import GPU
from workbench.executors.lowering.operands import Declined
from workbench.executors.planning.plan import Row

Moved = tuple[int, int, int]  # address on the host, on the device, bytes
_WORDS = 1024


class Statuses:
    """Of the rows of one device; the first word is of kernels that look at no numbers."""

    def __init__(self, gpu: GPU) -> None:
        self.gpu, self._words = gpu, np.zeros(_WORDS, np.int32)
        self._mirror = gpu.mirrors.of_array(self._words)
        self._rows: list[Row] = []

    @property
    def spare(self) -> np.ndarray:
        """A word nobody looks at."""
        return self._words[:1]

    def word_of(self, row: Row) -> np.ndarray:
        """The word of a row; rows beyond the last one share it, and are all meant by it."""
        if not self._rows or self._rows[-1] is not row:
            self._rows.append(row)
        number = min(len(self._rows), _WORDS - 1)
        return self._words[number : number + 1]

    def moved(self) -> list[Moved]:
        """What has to come to the host; nothing where no row looks at numbers."""
        count = min(len(self._rows) + 1, _WORDS)
        return [(self._mirror.base, self._mirror.address, 4 * count)] if self._rows else []

    def require_good(self) -> None:
        """Look at the words, which have come to the host.

        Raises:
            Declined: some are not 0; they are from now on.
        """
        bad = np.flatnonzero(self._words[1:])
        if not len(bad):
            return
        self._words[:] = 0
        with self.gpu.lock:
            self.gpu.use()
            self.gpu.staging.upload(self._mirror.address, self._mirror.base, self._mirror.nbytes, self.gpu.stream)
        raise Declined(self._meant(bad))

    def _meant(self, bad: np.ndarray) -> list[Row]:
        return [row for n, row in enumerate(self._rows) if min(n, _WORDS - 2) in bad]
