"""What a launch did, counted: the numbers that performance on hardware is made of."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

SECTOR = 32
"""Global memory is moved in sectors of so many bytes."""


@dataclass
class SectorTraffic:
    """What loads or stores asked of global memory, warp by warp.

    Attributes:
        sectors: 32-byte pieces that were touched.
        ideal: as many as would hold the bytes that were asked for.
    """

    requests: int = 0
    sectors: int = 0
    ideal: int = 0
    nbytes: int = 0

    @property
    def efficiency(self) -> float:
        """How many sectors are moved for one that is needed; 1 is best."""
        return self.sectors / self.ideal if self.ideal else 1.0


@dataclass
class Counters:
    """Counts of one launch.

    Attributes:
        instructions: executed by threads; `warp_instructions`: issued, once for the threads of a warp that go together.
        divergent_branches: branches at which the threads of a warp part.
        bank_conflicts: accesses of shared memory that had to wait for another one of the same warp.
        mix: thread instructions by opcode.
    """

    instructions: int = 0
    warp_instructions: int = 0
    divergent_branches: int = 0
    bank_conflicts: int = 0
    shared_requests: int = 0
    atomics: int = 0
    barriers: int = 0
    loads: SectorTraffic = field(default_factory=SectorTraffic)
    stores: SectorTraffic = field(default_factory=SectorTraffic)
    mix: Counter[str] = field(default_factory=Counter)

    @property
    def bytes_read(self) -> int:
        return self.loads.nbytes

    @property
    def bytes_written(self) -> int:
        return self.stores.nbytes


def count_global(traffic: SectorTraffic, warps: np.ndarray, addresses: np.ndarray, width: int) -> None:
    """Count one access to global memory; `warps` and `addresses` have an entry for each thread."""
    sectors = _distinct(warps, addresses // SECTOR)[0]
    words, of_warps = _distinct(warps, addresses)
    per_warp = np.bincount(of_warps - of_warps[0])
    traffic.requests += int(np.count_nonzero(per_warp))
    traffic.sectors += sectors
    traffic.ideal += int((-(-per_warp * width // SECTOR)).sum())
    traffic.nbytes += words * width


def bank_conflicts(warps: np.ndarray, offsets: np.ndarray, width: int) -> int:
    """Count the turns of shared memory beyond the first, for each warp (half or quarter of one for wide words)."""
    if width > 4:
        warps = warps * (width // 4) + (np.arange(warps.size) * width // 128) % (width // 4)
    key = np.sort(warps.astype(np.int64) << 32 | offsets.astype(np.int64) >> 2)
    key = key[np.concatenate([[True], key[1:] != key[:-1]])]
    warp = key >> 32
    first = warp[0]
    turns = np.bincount((warp - first) * 32 + (key & 31)).astype(np.int64)
    turns = np.pad(turns, (0, -turns.size % 32)).reshape(-1, 32).max(axis=1)
    return int((turns - 1)[turns > 0].sum())


def _distinct(warps: np.ndarray, values: np.ndarray) -> tuple[int, np.ndarray]:
    """Return how many different values the warps have, and the warp of each."""
    values = values.astype(np.int64)
    low = values.min()
    key = warps.astype(np.int64) * (int(values.max() - low) + 1) + (values - low)
    steps = np.diff(key)
    if (steps < 0).any():
        order = np.argsort(key, kind="stable")
        warps, steps = warps[order], np.diff(key[order])
    fresh = np.concatenate([[True], steps != 0])
    return int(fresh.sum()), warps[fresh]
