"""Long sums over processes come back to Python now and then, where Ctrl-C is answered, also if every wait is short."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.native.one_row import kernels, run_tape
from workbench.runtime.comm.mpi.memory.window import SharedSegment, Word, label_of
from workbench.runtime.comm.sum_row import SumRow
from workbench.runtime.native.control import Control, lines
from workbench.runtime.native.tape import Tape
from workbench.runtime.words import window as words
from workbench.runtime.words.codes import DONE, HELD, NAP

ROUNDS = 12
STEP = 1000  # elements of a round


class LatePeer:
    """The other process of two: it posts a round when it has been waited for so many naps."""

    def __init__(self, segment: SharedSegment, values: np.ndarray, naps: int) -> None:
        self._segment, self._values, self._naps = segment, values, naps
        self.left = naps
        self.nap = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_uint)(self._napped)

    def _napped(self, microseconds: int) -> int:
        self.left -= 1
        if self.left == 0:
            self.left = self._naps
            self.post()
        return 0

    def post(self) -> None:
        """The next round."""
        now = self._segment.words[Word.POSTED]
        slot = now % words.SLOTS
        part = self._values[STEP * now : STEP * (now + 1)]
        self._segment.slots[slot][: part.nbytes] = part.view(np.uint8)
        self._segment.put_label(slot, label_of("sum"))
        self._segment.words[Word.TAKEN] = now
        self._segment.words[Word.POSTED] = now + 1


@pytest.mark.parametrize("in_place", [False, True])
def test_short_waits_of_a_long_sum_count_together(in_place: bool) -> None:
    pytest.importorskip("llvmlite", reason="llvmlite is not installed: kernels cannot be read")
    from workbench.runtime.kernels.tape.exchange import NAPS

    memory = [lines(words.SEGMENT_BYTES // 8).view(np.uint8) for _ in range(2)]
    segments = [SharedSegment(one) for one in memory]
    own, others = (np.arange(ROUNDS * STEP, dtype=np.float32) * factor for factor in (1, 3))
    state, total, expected = lines(words.SEGMENTS + 2), own if in_place else np.zeros_like(own), own + others
    state[words.SIZE], state[words.EPOCH], state[words.BEGIN], state[words.FREE] = 2, 1, -1, words.SLOTS
    state[words.SEGMENTS :] = [segment.address for segment in segments]
    control = Control(kernels())
    control.begin()
    peer = LatePeer(segments[1], others, NAPS - 10)  # less than what sends a single wait to Python
    control.array[NAP] = ctypes.cast(peer.nap, ctypes.c_void_p).value
    tape = Tape(control.kernels)
    label = np.frombuffer(label_of("sum"), np.uint8)
    row = SumRow(state, label, ROUNDS, STEP, 4 * STEP, [own], [total], [(0, 0), (1, 0)])
    tape.row("sum_processes", *row.arguments(control.array))
    statuses = []
    while not statuses or statuses[-1] == HELD:
        statuses.append(run_tape(tape, control))
        assert len(statuses) <= ROUNDS + 1
    assert statuses[-1] == DONE and len(statuses) >= ROUNDS // 2, statuses
    assert total.tobytes() == expected.tobytes()
