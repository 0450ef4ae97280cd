"""Who goes next: groups of threads at one instruction, bands of warps that take turns, barriers."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.cuda.simulated.ptx import faults
from workbench.cuda.simulated.ptx.machine import Machine
from workbench.cuda.simulated.ptx.operands import Active
from workbench.cuda.simulated.ptx.warps import BarrierCode

BANDS = 4
"""Into how many bands the warps are dealt at most, if a seed mixes them."""
TURN = 40
"""How many instructions a band goes on average before another one has its turn."""


class Band:
    """Warps that go in step: for every position where threads stand, which ones."""

    def __init__(self, threads: np.ndarray) -> None:
        self.groups: dict[int, np.ndarray] = {0: threads}

    def take_first(self) -> tuple[int, np.ndarray, int]:
        """Take the group that stands first; return its position, its threads and where the next group stands."""
        position = min(self.groups)
        threads = self.groups.pop(position)
        return position, threads, min(self.groups, default=1 << 60)

    def put(self, position: int, threads: np.ndarray) -> None:
        """Let threads stand somewhere; they join who is there."""
        if not threads.size:
            return
        if position in self.groups:
            threads = np.sort(np.concatenate([self.groups[position], threads]))
        self.groups[position] = threads


class WarpSchedule:
    """Runs the threads of a machine to their end."""

    def __init__(self, machine: Machine, mixed: bool) -> None:
        self.machine, self.mixed = machine, mixed
        self.code, self.decoded = machine.entry.code, machine.entry.decoded
        self.bands = self._deal()
        self.band_of = np.zeros(machine.thread_count, np.int64)
        for at, band in enumerate(self.bands):
            self.band_of[band.groups[0]] = at
        self.alive = np.bincount(machine.blocks, minlength=machine.block_count)
        self.finished = np.zeros(machine.thread_count, bool)
        self.barriers: dict[tuple[int, int], _Barrier] = {}

    def run(self) -> None:
        while True:
            ready = [band for band in self.bands if band.groups]
            if not ready:
                break
            if not self.mixed:
                self._go(ready[0], 1 << 60)
                continue
            band = ready[int(self.machine.random.integers(len(ready)))]
            self._go(band, 1 + int(self.machine.random.geometric(1 / TURN)))
        if self.barriers:
            self._tell_stuck()

    def _deal(self) -> list[Band]:
        machine = self.machine
        if not self.mixed or machine.warp_count == 1:
            return [Band(machine.threads)]
        count = min(BANDS, machine.warp_count)
        of_warp = machine.random.integers(count, size=machine.warp_count)
        bands = [np.flatnonzero(of_warp[machine.warps] == at) for at in range(count)]
        return [Band(threads) for threads in bands if threads.size]

    def _go(self, band: Band, turns: int) -> None:
        """Run the first group of a band until it branches, waits, ends, meets others or its turns are over."""
        machine = self.machine
        position, threads, meets = band.take_first()
        active: Active = slice(None) if threads.size == machine.thread_count else threads
        warps = self._warps(threads)
        while True:
            if position == len(self.code):
                return self._finish(threads)
            one = self.code[position]
            how, what, slot = self.decoded[position]
            machine.current = one
            self._count(one, threads, warps)
            if how == "step" and not one.predicate:
                what(machine, active)
            elif how == "step":
                chosen = self._chosen(one, slot, active, threads)
                if chosen.size:
                    what(machine, active if chosen.size == threads.size else chosen)
            else:
                chosen = self._chosen(one, slot, active, threads) if one.predicate else threads
                if chosen.size:
                    return self._control(band, how, what, position, threads, chosen)
            position, turns = position + 1, turns - 1
            if position >= meets or turns <= 0:
                return band.put(position, threads)

    def _chosen(self, one: Any, slot: int, active: Active, threads: np.ndarray) -> np.ndarray:
        flags = self.machine.registers[slot][active]
        return threads[~flags if one.negated else flags]

    def _count(self, one: Any, threads: np.ndarray, warps: int) -> None:
        machine = self.machine
        counters = machine.counters
        counters.instructions += threads.size
        counters.mix[one.opcode[0]] += threads.size
        counters.warp_instructions += warps
        machine.steps_left -= 1
        if machine.steps_left <= 0:
            machine.fail(faults.StepLimit, "The launch has taken all the instructions it was given", threads[0])

    def _warps(self, threads: np.ndarray) -> int:
        if threads.size == self.machine.thread_count:
            return self.machine.warp_count
        of = self.machine.warps[threads]
        return 1 + int(np.count_nonzero(of[1:] != of[:-1]))

    def _control(self, band: Band, how: str, what: Any, position: int, threads: np.ndarray, chosen: np.ndarray) -> None:
        """Do a branch, an exit or a barrier for the chosen threads; the others stand behind it."""
        rest = np.setdiff1d(threads, chosen, assume_unique=True) if chosen.size < threads.size else threads[:0]
        band.put(position + 1, rest)
        if how == "branch":
            self._count_divergence(chosen, rest)
            band.put(what, chosen)
        elif how == "exit":
            self._finish(chosen)
        elif how == "trap":
            self.machine.fail(faults.KernelFault, "The kernel stops itself (trap, assert)", chosen[0])
        else:
            self._wait(band, what, position, chosen)

    def _count_divergence(self, chosen: np.ndarray, rest: np.ndarray) -> None:
        if rest.size:
            warps = self.machine.warps
            both = np.intersect1d(warps[chosen], warps[rest])
            self.machine.counters.divergent_branches += both.size

    def _finish(self, threads: np.ndarray) -> None:
        self.finished[threads] = True
        blocks, counts = np.unique(self.machine.blocks[threads], return_counts=True)
        self.alive[blocks] -= counts
        for key in [key for key in self.barriers if key[0] in blocks]:
            self._release(key)

    def _wait(self, band: Band, what: BarrierCode, position: int, threads: np.ndarray) -> None:
        """Let threads arrive at a barrier; those of a block go on when all that are due have come."""
        machine = self.machine
        if not what.waits:
            band.put(position + 1, threads)
        numbers = np.broadcast_to(what.number(machine, threads), threads.shape)
        said = None if what.vote is None else np.broadcast_to(what.vote[1](machine, threads), threads.shape)
        if what.count is None and self._all_here(threads, numbers):
            return self._pass_together(band, what, position, threads, said)
        counts = None if what.count is None else np.broadcast_to(what.count(machine, threads), threads.shape)
        keys = machine.blocks[threads] * 16 + numbers
        for key in np.unique(keys):
            here = keys == key
            barrier = self.barriers.setdefault((int(key) // 16, int(key) % 16), _Barrier(position, what))
            due = 0 if counts is None else int(counts[here][0])
            if not due and barrier.position != position:
                other = self.code[barrier.position].line
                message = f"Threads of one block wait at two places: here, and at the barrier of line {other}"
                machine.fail(faults.BarrierFault, message, threads[here][0])
            barrier.arrive(threads[here], position + 1, what.waits, due, None if said is None else said[here])
            self._release((int(key) // 16, int(key) % 16))

    def _all_here(self, threads: np.ndarray, numbers: np.ndarray) -> bool:
        """Say whether whole blocks arrive at once, none of whose threads waits elsewhere."""
        blocks = self.machine.blocks[threads]
        counts = np.bincount(blocks, minlength=self.machine.block_count)
        return not self.barriers and bool(
            ((counts == self.alive) | (counts == 0)).all() and (numbers == numbers[0]).all()
        )

    def _pass_together(self, band: Band, what: BarrierCode, position: int, threads: np.ndarray, said: Any) -> None:
        machine = self.machine
        blocks = np.flatnonzero(np.bincount(machine.blocks[threads]))
        machine.counters.barriers += blocks.size
        machine.clocks.pass_barrier(machine.first_block + blocks)
        if said is not None:
            what.tell(machine, threads, said)
        if what.waits:
            band.put(position + 1, threads)

    def _release(self, key: tuple[int, int]) -> None:
        barrier = self.barriers[key]
        due = barrier.due or int(self.alive[key[0]])
        if barrier.arrived < due:
            return
        del self.barriers[key]
        machine = self.machine
        machine.counters.barriers += 1
        machine.clocks.pass_barrier(np.array([machine.first_block + key[0]]))
        if barrier.said:
            everybody = np.concatenate([threads for _, threads in barrier.waiting])
            barrier.code.tell(machine, everybody, np.concatenate(barrier.said))
        for position, threads in barrier.waiting:
            for band in np.unique(self.band_of[threads]):
                self.bands[band].put(position, threads[self.band_of[threads] == band])

    def _tell_stuck(self) -> None:
        machine = self.machine
        (block, number), barrier = next(iter(self.barriers.items()))
        position, threads = barrier.waiting[0] if barrier.waiting else (barrier.position + 1, barrier.arrivals)
        machine.current = self.code[position - 1]
        due = barrier.due or int(self.alive[block])
        what = f"{barrier.arrived} of {due} threads have reached barrier {number}; the others never will"
        machine.fail(faults.BarrierFault, what, threads[0])


class _Barrier:
    """Threads of one block that have reached a barrier."""

    def __init__(self, position: int, code: BarrierCode) -> None:
        self.position, self.code, self.arrived, self.due = position, code, 0, 0
        self.waiting: list[tuple[int, np.ndarray]] = []
        self.said: list[np.ndarray] = []
        self.arrivals = np.zeros(0, np.int64)

    def arrive(self, threads: np.ndarray, behind: int, waits: bool, due: int, said: np.ndarray | None) -> None:
        self.arrived += threads.size
        self.due, self.arrivals = due, threads
        if waits:
            self.waiting.append((behind, threads))
        if said is not None:
            self.said.append(said)
