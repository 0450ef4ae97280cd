"""The threads of some blocks of a launch: their registers, their places in warps and blocks, what they share."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.cuda.simulated.ptx import faults
from workbench.cuda.simulated.ptx.counters import Counters
from workbench.cuda.simulated.ptx.module import BITS, WIDTHS, KernelEntry, PtxInstruction
from workbench.cuda.simulated.ptx.races import Clocks
from workbench.errors import Unimplemented


class Machine:
    """The threads of some blocks of a launch: their registers, places and memory."""

    parameters: bytes
    counters: Counters
    random: np.random.Generator
    spaces: dict[str, Any]
    steps_left: int

    def __init__(
        self,
        entry: KernelEntry,
        tables: dict[str, int],
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        first_block: int,
        block_count: int,
        clocks: Clocks,
    ) -> None:
        self.entry, self.grid, self.block, self.clocks = entry, grid, block, clocks
        per_block = block[0] * block[1] * block[2]
        self.first_block, self.block_count = first_block, block_count
        self.first_thread, self.thread_count = first_block * per_block, block_count * per_block
        self.threads = np.arange(self.thread_count)
        self.blocks, self.inside = np.divmod(self.threads, per_block)
        self.lanes = (self.inside % 32).astype(np.uint32)
        per_warp = -(-per_block // 32)
        self.warps = self.blocks * per_warp + self.inside // 32
        self.warp_count = block_count * per_warp
        self.existing = np.zeros(self.warp_count, np.uint32)
        np.bitwise_or.at(self.existing, self.warps, np.uint32(1) << self.lanes)
        self.registers: list[np.ndarray] = [
            np.zeros(self.thread_count, np.bool_ if kind == "pred" else BITS[WIDTHS[kind]])
            for kind in entry.registers.values()
        ]
        self.tables = tables
        self.carry = np.zeros(self.thread_count, bool)
        self.current: PtxInstruction = entry.code[0]
        self._special: dict[str, np.ndarray] = {}
        self._variables: dict[tuple[str, int, int], np.ndarray] = {}

    def special(self, name: str) -> np.ndarray:
        """Return a special register for all threads."""
        if name not in self._special:
            self._special[name] = np.broadcast_to(np.asarray(self._make_special(name)), self.thread_count)
        return self._special[name]

    def variable(self, name: str, offset: int, width: int) -> np.ndarray:
        """Return a `.param` variable through which a call passes a value, for all threads."""
        key = (name, offset, width)
        if key not in self._variables:
            self._variables[key] = np.zeros(self.thread_count, BITS[width])
        return self._variables[key]

    def culprit(self, thread: int) -> faults.Culprit:
        """Return the place of a thread, by its number in the grid."""
        per_block = self.block[0] * self.block[1] * self.block[2]
        block, inside = divmod(int(thread), per_block)
        return faults.Culprit(_place(inside, self.block), _place(block, self.grid))

    def fail(self, kind: type[faults.KernelFault], what: str, thread: Any) -> None:
        """Raise a fault of one of these threads at the current instruction."""
        raise kind(what, self.entry, self.current, self.culprit(self.first_thread + int(thread)))

    def _make_special(self, name: str) -> Any:
        register, _, axis = name.partition(".")
        if axis:
            at = "xyz".index(axis)
            inside = (self.inside, self.block) if register == "%tid" else (self.first_block + self.blocks, self.grid)
            if register in ("%tid", "%ctaid"):
                return _along(*inside, at).astype(np.uint32)
            return np.uint32({"%ntid": self.block, "%nctaid": self.grid}[register][at])
        if register.startswith("%lanemask_"):
            return _lane_mask(register.removeprefix("%lanemask_"), self.lanes)
        shared = self.spaces["shared"]
        plain: dict[str, Any] = {
            "%laneid": self.lanes,
            "%warpid": (self.inside // 32).astype(np.uint32),
            "%nwarpid": np.uint32(32),
            "%smid": (self.blocks % 8).astype(np.uint32),
            "%nsmid": np.uint32(8),
            "%gridid": np.uint64(1),
            "%total_smem_size": np.uint32(shared.nbytes),
            "%dynamic_smem_size": np.uint32(shared.nbytes - self.entry.shared_bytes),
        }
        if register not in plain:
            raise Unimplemented(f"The special register {name} has no simulated form")
        return plain[register]


def _along(number: np.ndarray, sizes: tuple[int, int, int], at: int) -> np.ndarray:
    return number // [1, sizes[0], sizes[0] * sizes[1]][at] % sizes[at]


def _place(number: int, sizes: tuple[int, int, int]) -> tuple[int, int, int]:
    return number % sizes[0], number // sizes[0] % sizes[1], number // (sizes[0] * sizes[1])


def _lane_mask(name: str, lanes: np.ndarray) -> np.ndarray:
    own = np.uint64(1) << lanes.astype(np.uint64)
    below = own - np.uint64(1)
    masks = {"eq": own, "lt": below, "le": below | own, "gt": ~(below | own), "ge": ~below}
    return (masks[name] & np.uint64(0xFFFFFFFF)).astype(np.uint32)
