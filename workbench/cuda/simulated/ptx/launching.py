"""Launching a kernel: all threads of many blocks at once, one instruction at a time.

Threads that stand at one instruction form a group; the group with the smallest position goes first, so threads that
parted at a branch meet again where the compiler laid the paths out. The seed decides in how many bands of warps a
launch goes, how long each goes before another one has its turn, and which blocks are there together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.cuda.simulated.memory import AddressSpace
from workbench.cuda.simulated.ptx import accesses, arithmetic, carries, conversions, warps
from workbench.cuda.simulated.ptx.counters import Counters
from workbench.cuda.simulated.ptx.limits import ARCHITECTURES, Architecture, check_launch, pack_arguments
from workbench.cuda.simulated.ptx.machine import Machine
from workbench.cuda.simulated.ptx.module import KernelEntry, PtxInstruction
from workbench.cuda.simulated.ptx.operands import OperandScope
from workbench.cuda.simulated.ptx.races import Clocks, Tracker
from workbench.cuda.simulated.ptx.schedule import WarpSchedule
from workbench.cuda.simulated.ptx.spaces import GlobalSpace, LocalSpace, SharedSpace, Space
from workbench.errors import Unimplemented

_ = accesses, carries, conversions, warps  # they register what they decode
RESIDENT = 1 << 16
"""How many threads are executed together at most; further blocks come after them, as on hardware."""
STEP_LIMIT = 2_000_000
"""After so many instructions of groups a launch is thought to hang."""


def launch(
    entry: KernelEntry,
    memory: AddressSpace,
    grid: Sequence[int],
    block: Sequence[int],
    args: Sequence[object],
    shared_bytes: int = 0,
    *,
    seed: int = 0,
    architecture: Architecture = ARCHITECTURES["sm_80"],
    step_limit: int = STEP_LIMIT,
    trackers: dict[int, Tracker] | None = None,
) -> Counters:
    """Execute a kernel and return what it did, counted; a broken rule of CUDA raises a `KernelFault`.

    Args:
        grid, block: sizes, the first dimension first; missing ones are 1.
        args: a NumPy scalar, an int or bytes for each parameter; addresses are ints.
        shared_bytes: of `extern __shared__` arrays.
        seed: of the order in which threads go; with 0 they go in step.
        trackers: gets, by the address of each allocation, which of its bytes were read and written.
    """
    whole_grid, whole_block = _three(grid), _three(block)
    check_launch(entry, architecture, whole_grid, whole_block, shared_bytes)
    parameters = pack_arguments(entry, args)
    decode(entry)
    per_block = whole_block[0] * whole_block[1] * whole_block[2]
    blocks = whole_grid[0] * whole_grid[1] * whole_grid[2]
    clocks, counters = Clocks(blocks, per_block), Counters()
    trackers = {} if trackers is None else trackers
    random = np.random.default_rng(seed)
    together = max(1, RESIDENT // per_block)
    starts = list(range(0, blocks, together))
    if seed:
        random.shuffle(starts)
    tables = place_tables(entry, memory)
    for start in starts:
        machine = Machine(entry, tables, whole_grid, whole_block, start, min(together, blocks - start), clocks)
        machine.parameters, machine.counters, machine.random = parameters, counters, random
        machine.steps_left = step_limit
        machine.spaces = _spaces(machine, memory, entry, shared_bytes, trackers)
        with np.errstate(all="ignore"):
            WarpSchedule(machine, bool(seed)).run()
        step_limit = machine.steps_left
    return counters


def _three(sizes: Sequence[int]) -> tuple[int, int, int]:
    full = (*(int(size) for size in sizes), 1, 1)
    return full[0], full[1], full[2]


def _spaces(
    machine: Machine, memory: AddressSpace, entry: KernelEntry, shared_bytes: int, trackers: dict[int, Tracker]
) -> dict[str, Space]:
    static = -(-entry.shared_bytes // 16) * 16 if shared_bytes else entry.shared_bytes
    everything = GlobalSpace(machine, memory, trackers)
    return {
        "global": everything,
        "const": everything,
        "shared": SharedSpace(machine, static + shared_bytes),
        "local": LocalSpace(machine, entry.local_bytes),
    }


def decode(entry: KernelEntry) -> list[tuple[str, Any, int]]:
    """Turn instructions into functions, once for all launches: how, what, under which predicate."""
    if not entry.decoded:
        scope = OperandScope(entry)
        slots = [scope.slot(one.predicate) if one.predicate else -1 for one in entry.code]
        entry.decoded.extend((*_decode(one, scope, entry), slot) for one, slot in zip(entry.code, slots))
    return entry.decoded


def _decode(one: PtxInstruction, scope: OperandScope, entry: KernelEntry) -> tuple[str, Any]:
    """Return how the scheduler treats an instruction, and what it needs for that."""
    name = one.opcode[0]
    if name == "bra":
        return "branch", entry.labels[one.operands[0]]
    if name in ("ret", "exit"):
        return "exit", None
    if name == "trap":
        return "trap", None
    if name in ("bar", "barrier") and not warps.is_warp_barrier(one):
        return "barrier", warps.block_barrier(one, scope)
    if name in ("nop", "pragma", "nanosleep"):
        return "step", lambda m, ix: None
    if "cc" in one.opcode and name in ("add", "sub", "mad"):
        name = f"{name}.cc"
    if name not in arithmetic.DECODERS:
        raise Unimplemented(f"The PTX instruction {one} (line {one.line} of {entry.name}) has no simulated form")
    return "step", arithmetic.DECODERS[name](one, scope)


def place_tables(entry: KernelEntry, memory: AddressSpace) -> dict[str, int]:
    """Return the addresses of the module's variables; the first kernel that runs brings them into memory."""
    placed = memory.symbols.setdefault(id(entry.tables), (entry.tables, {}))[1]
    for name, table in entry.tables.items():
        if name not in placed:
            placed[name] = memory.allocate(len(table.data))
            memory.write(placed[name], table.data)
    return placed
