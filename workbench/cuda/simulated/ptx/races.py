"""Which accesses of the same bytes are ordered: barriers, warps that synchronise, fences with atomics.

A clock runs through a launch and ticks at every synchronisation. Every cell of memory remembers who wrote it last and
when, and who has read it since. Two accesses, one of them a write, are ordered if one thread made both, or if a barrier
of its block (or a synchronisation of its warp) lies between them. Nothing orders blocks, except a fence behind the
first access and an atomic operation of the second block, which is how the last block of a launch finds out that it is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

THREAD, WARP, BLOCK, GRID = 0, 1, 2, 3
"""How far the readers of a cell are apart."""


@dataclass(frozen=True)
class Clash:
    """Two accesses that nothing orders: which entry of the access at hand, and the other thread's number."""

    at: int
    other: int
    other_writes: bool


class Clocks:
    """When the threads of a launch synchronised last."""

    def __init__(self, blocks: int, threads_per_block: int) -> None:
        warps_per_block = -(-threads_per_block // 32)
        self.now = 1
        inside = np.arange(threads_per_block) // 32
        self.warp_of = (np.arange(blocks)[:, None] * warps_per_block + inside).ravel()
        self.block_of = np.repeat(np.arange(blocks), threads_per_block)
        self.barriers = np.zeros(blocks, np.int64)
        self.warps = np.zeros(blocks * warps_per_block, np.int64)
        self.fences = np.zeros(blocks, np.int64)
        self.acquired = np.zeros(blocks, bool)

    def pass_barrier(self, blocks: np.ndarray) -> None:
        self._tick(self.barriers, blocks)

    def pass_warp(self, warps: np.ndarray) -> None:
        self._tick(self.warps, warps)

    def fence(self, threads: np.ndarray) -> None:
        self._tick(self.fences, self.block_of[threads])

    def use_atomically(self, threads: np.ndarray) -> None:
        self.acquired[self.block_of[threads]] = True

    def ordered(self, stamps: np.ndarray, spread: np.ndarray | int, threads: np.ndarray) -> np.ndarray:
        """Say which earlier accesses happen before what the threads do now."""
        who, when = (stamps >> 32) - 1, (stamps & 0xFFFFFFFF) >> 1
        blocks, own = self.block_of[who], self.block_of[threads]
        warps, own_warps = self.warp_of[who], self.warp_of[threads]
        result = (spread == THREAD) & (who == threads)
        result |= (spread <= WARP) & (warps == own_warps) & (when <= self.warps[own_warps])
        result |= (spread <= BLOCK) & (blocks == own) & (when <= self.barriers[own])
        result |= (blocks != own) & (when <= self.fences[blocks]) & self.acquired[own]
        return result

    def distance(self, some: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Return how far threads are apart: in one warp, in one block, in the grid."""
        same_block = self.block_of[some] == self.block_of[others]
        same_warp = self.warp_of[some] == self.warp_of[others]
        apart = np.where(same_warp, WARP, np.where(same_block, BLOCK, GRID))
        return np.where(some == others, THREAD, apart).astype(np.uint8)

    def _tick(self, clocks: np.ndarray, which: np.ndarray) -> None:
        clocks[which] = self.now
        self.now += 1


class Tracker:
    """What is known about the accesses of one piece of memory in this launch.

    A cell is as wide as the narrowest access so far; a narrower one splits all cells.
    """

    def __init__(self, nbytes: int, width: int, clocks: Clocks) -> None:
        self.clocks = clocks
        self.cell = width
        count = -(-nbytes // width)
        self.writes = np.zeros(count, np.int64)
        self.reads = np.zeros(count, np.int64)
        self.spread = np.zeros(count, np.uint8)

    def read(self, offsets: np.ndarray, width: int, threads: np.ndarray, atomic: bool = False) -> Clash | None:
        """Note reads of `width` bytes at some offsets; return what they clash with."""
        cells, threads, fold = self._cells(offsets, width, threads)
        clash = self._clash(self.writes[cells], THREAD, threads, fold, atomic, True)
        if clash is None:
            self._note_reads(cells, threads)
        return clash

    def write(self, offsets: np.ndarray, width: int, threads: np.ndarray, atomic: bool = False) -> Clash | None:
        """Note writes; return what they clash with, each other included."""
        cells, threads, fold = self._cells(offsets, width, threads)
        clash = self._clash(self.writes[cells], THREAD, threads, fold, atomic, True)
        clash = clash or self._clash(self.reads[cells], self.spread[cells], threads, fold, False, False)
        if clash is not None:
            return clash
        stamps = self._stamps(threads) | int(atomic)
        self.writes[cells] = stamps
        if not atomic:
            lost = np.flatnonzero(self.writes[cells] != stamps)
            if lost.size:
                return Clash(int(lost[0]) // fold, int((self.writes[cells[lost[0]]] >> 32) - 1), True)
        return None

    def written(self, offsets: np.ndarray, width: int) -> np.ndarray:
        """Say which places were written in this launch."""
        cells, _, fold = self._cells(offsets, width, offsets)
        return (self.writes[cells] != 0).reshape(-1, fold).any(axis=1)

    def _cells(self, offsets: np.ndarray, width: int, threads: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
        if width < self.cell:
            self._split(width)
        fold = width // self.cell
        cells = offsets // self.cell
        if fold > 1:
            cells = (cells[:, None] + np.arange(fold)).ravel()
            threads = np.repeat(threads, fold)
        return cells, threads, fold

    def _split(self, width: int) -> None:
        times = self.cell // width
        self.writes, self.reads = np.repeat(self.writes, times), np.repeat(self.reads, times)
        self.spread = np.repeat(self.spread, times)
        self.cell = width

    def _stamps(self, threads: np.ndarray) -> np.ndarray:
        return (threads + 1) << 32 | self.clocks.now << 1

    def _clash(
        self, stamps: np.ndarray, spread: np.ndarray | int, threads: np.ndarray, fold: int, atomic: bool, writes: bool
    ) -> Clash | None:
        suspect = (stamps >> 32) != threads + 1
        suspect &= stamps != 0
        if not isinstance(spread, int):
            suspect |= spread > THREAD
        if atomic:
            suspect &= stamps & 1 == 0
        at = np.flatnonzero(suspect)
        if not at.size:
            return None
        far = spread if isinstance(spread, int) else spread[at]
        wrong = at[~self.clocks.ordered(stamps[at], far, threads[at])]
        return Clash(int(wrong[0]) // fold, int((stamps[wrong[0]] >> 32) - 1), writes) if wrong.size else None

    def _note_reads(self, cells: np.ndarray, threads: np.ndarray) -> None:
        stamps, old = self._stamps(threads), self.reads[cells]
        spread = np.zeros(cells.size, np.uint8)
        at = np.flatnonzero(old)
        if at.size:
            kept = self.spread[cells[at]]
            apart = np.maximum(kept, self.clocks.distance((old[at] >> 32) - 1, threads[at]))
            spread[at] = np.where(self.clocks.ordered(old[at], kept, threads[at]), THREAD, apart)
        self.reads[cells] = stamps
        self.spread[cells] = spread
        if (self.reads[cells] != stamps).any():
            self._join_readers(cells, threads, spread)

    def _join_readers(self, cells: np.ndarray, threads: np.ndarray, spread: np.ndarray) -> None:
        """Several threads read one cell at once: note how far they are apart."""
        order = np.argsort(cells, kind="stable")
        cells, threads, spread = cells[order], threads[order], spread[order]
        starts = np.flatnonzero(np.concatenate([[True], cells[1:] != cells[:-1]]))
        ends = np.concatenate([starts[1:], [cells.size]]) - 1
        apart = self.clocks.distance(threads[starts], threads[ends])
        self.spread[cells[starts]] = np.maximum(apart, np.maximum.reduceat(spread, starts))
