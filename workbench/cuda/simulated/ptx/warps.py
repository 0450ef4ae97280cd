"""What threads do together: barriers, fences, shuffles, votes, matches, reductions over a warp."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.cuda.simulated.ptx import faults
from workbench.cuda.simulated.ptx.arithmetic import decodes
from workbench.cuda.simulated.ptx.machine import Machine
from workbench.cuda.simulated.ptx.module import BITS, DTYPES, WIDTHS, PtxInstruction
from workbench.cuda.simulated.ptx.operands import Active, OperandScope, Read, Step, Write, kind_of
from workbench.errors import Unimplemented

ALL_LANES = np.uint32(0xFFFFFFFF)


@decodes("membar", "fence")
def decode_fence(one: PtxInstruction, scope: OperandScope) -> Step:
    return lambda m, ix: m.clocks.fence(m.first_thread + m.threads[ix])


def is_warp_barrier(one: PtxInstruction) -> bool:
    return one.opcode[:2] == ("bar", "warp")


@dataclass(frozen=True)
class BarrierCode:
    """A barrier of blocks, decoded: whether threads wait, its number, for how many threads it is.

    A vote is its kind, what each thread says, and where the result goes.
    """

    waits: bool
    number: Read
    count: Read | None
    vote: tuple[str, Read, Write] | None

    def tell(self, m: Machine, threads: np.ndarray, said: np.ndarray) -> None:
        """Give all threads of the blocks what they have said together."""
        assert self.vote is not None
        kind, _, write = self.vote
        blocks = m.blocks[threads]
        yes, everybody = np.bincount(blocks, said), np.bincount(blocks)
        result = {"popc": yes.astype(np.uint32), "and": yes == everybody, "or": yes > 0}[kind]
        write(m, threads, result[blocks])


def block_barrier(one: PtxInstruction, scope: OperandScope) -> BarrierCode:
    """Read `bar.sync a{, b}`, `bar.arrive a, b` or `bar.red.op.type d, a{, b}, p`."""
    operands, vote = one.operands, None
    if "red" in one.opcode:
        kind = one.opcode[one.opcode.index("red") + 1]
        vote = kind, scope.reader(operands[-1], "pred"), scope.writer(operands[0], kind_of(one))
        operands = operands[1:-1]
    count = scope.reader(operands[1], "u32") if len(operands) > 1 else None
    return BarrierCode("arrive" not in one.opcode, scope.reader(operands[0], "u32"), count, vote)


@decodes("bar", "barrier")
def decode_warp_barrier(one: PtxInstruction, scope: OperandScope) -> Step:
    """`bar.warp.sync`; barriers of blocks are the scheduler's."""
    mask = scope.reader(one.operands[0], "b32")

    def step(m: Machine, ix: Active) -> None:
        require_members(m, ix, mask(m, ix))
        m.clocks.pass_warp(m.clocks.warp_of[m.first_thread + m.threads[ix]])

    return step


def require_members(m: Machine, ix: Active, mask: Any) -> tuple[np.ndarray, np.ndarray]:
    """Check that whoever a mask names is here, and that whoever is here is named; return threads and masks.

    Lanes behind the end of a block do not exist; a mask may name them, as `~0u` does.
    """
    threads = m.threads[ix]
    mask = np.broadcast_to(np.asarray(mask, np.uint32), threads.shape)
    lanes, warps = m.lanes[threads], m.warps[threads]
    unnamed = np.flatnonzero(mask >> lanes & np.uint32(1) == 0)
    if unnamed.size:
        m.fail(faults.InactiveLane, "The thread's own lane is missing in the mask it gives", threads[unnamed[0]])
    here = np.zeros(m.warp_count, np.uint32)
    np.bitwise_or.at(here, warps, np.uint32(1) << lanes)
    absent = np.flatnonzero(mask & m.existing[warps] & ~here[warps])
    if absent.size:
        first = absent[0]
        lost = int((mask & m.existing[warps] & ~here[warps])[first])
        lane = (lost & -lost).bit_length() - 1
        m.fail(faults.InactiveLane, f"The mask names lane {lane}, which is not here", threads[first])
    return threads, mask


@decodes("shfl")
def decode_shuffle(one: PtxInstruction, scope: OperandScope) -> Step:
    if "sync" not in one.opcode:
        raise Unimplemented(f"{one}: shuffles without .sync are gone since sm_70")
    told = len(one.operands) == 6
    sources = one.operands[2:] if told else one.operands[1:]
    read = [scope.reader(operand, "b32") for operand in sources]
    write = scope.writer(one.operands[0], "b32")
    tell = scope.writer(one.operands[1], "pred") if told else None
    mode = next(part for part in one.opcode if part in ("up", "down", "bfly", "idx"))

    def step(m: Machine, ix: Active) -> None:
        value, by, bound, mask = (each(m, ix) for each in read)
        threads, mask = require_members(m, ix, mask)
        lanes = m.lanes[threads].astype(np.int64)
        source, inside = _source_lane(mode, lanes, np.asarray(by).astype(np.int64), np.asarray(bound).astype(np.int64))
        table = np.zeros(m.warp_count * 32, np.uint32)
        there = np.zeros(m.warp_count * 32, bool)
        row = m.warps[threads].astype(np.int64) * 32
        table[row + lanes], there[row + lanes] = value, True
        named = mask >> source.astype(np.uint32) & np.uint32(1) == 1
        missing = np.flatnonzero(~(there[row + source] & named))
        if missing.size:
            first = missing[0]
            what = f"It shuffles from lane {source[first]}, which does not take part"
            m.fail(faults.InactiveLane, what, threads[first])
        write(m, ix, table[row + source])
        if tell is not None:
            tell(m, ix, inside)

    return step


def _source_lane(mode: str, lanes: Any, by: Any, bound: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return from which lane each reads, and whether that lies in its segment (else it reads its own)."""
    by, clamp, segment = by & 31, bound & 31, bound >> 8 & 31
    most = (lanes & segment) | (clamp & ~segment)
    least = lanes & segment
    if mode == "up":
        source = lanes - by
        inside = source >= most
    elif mode == "down":
        source = lanes + by
        inside = source <= most
    elif mode == "bfly":
        source = lanes ^ by
        inside = source <= most
    else:
        source = least | (by & ~segment)
        inside = source <= most
    return np.where(inside, source, lanes), inside


@decodes("vote")
def decode_vote(one: PtxInstruction, scope: OperandScope) -> Step:
    mode = one.opcode[2]
    vote = scope.reader(one.operands[1], "pred")
    mask = scope.reader(one.operands[2], "b32")
    write = scope.writer(one.operands[0], kind_of(one))

    def step(m: Machine, ix: Active) -> None:
        threads, masks = require_members(m, ix, mask(m, ix))
        said = np.broadcast_to(np.asarray(vote(m, ix)), threads.shape)
        ballot = _by_warp(m, threads, said) & masks
        here = _by_warp(m, threads, np.ones_like(said)) & masks
        results = {
            "ballot": ballot,
            "any": ballot != 0,
            "all": ballot == here,
            "uni": (ballot == 0) | (ballot == here),
        }
        write(m, ix, results[mode])

    return step


def _by_warp(m: Machine, threads: np.ndarray, said: np.ndarray) -> np.ndarray:
    """Return for each thread the lanes of its warp that say yes, as a mask."""
    masks = np.zeros(m.warp_count, np.uint32)
    np.bitwise_or.at(masks, m.warps[threads], said.astype(np.uint32) << m.lanes[threads])
    return masks[m.warps[threads]]


@decodes("activemask")
def decode_active_mask(one: PtxInstruction, scope: OperandScope) -> Step:
    write = scope.writer(one.operands[0], "b32")

    def step(m: Machine, ix: Active) -> None:
        threads = m.threads[ix]
        write(m, ix, _by_warp(m, threads, np.ones(threads.size, bool)))

    return step


@decodes("match")
def decode_match(one: PtxInstruction, scope: OperandScope) -> Step:
    kind, every = kind_of(one), "all" in one.opcode
    value, mask = scope.reader(one.operands[-2], kind), scope.reader(one.operands[-1], "b32")
    write = scope.writer(one.operands[0], "b32")
    tell = scope.writer(one.operands[1], "pred") if len(one.operands) == 4 else None

    def step(m: Machine, ix: Active) -> None:
        threads, masks = require_members(m, ix, mask(m, ix))
        table: Any = np.zeros((m.warp_count, 32), BITS[WIDTHS[kind]])
        there = np.zeros((m.warp_count, 32), bool)
        rows, lanes = m.warps[threads], m.lanes[threads]
        own = np.broadcast_to(np.asarray(value(m, ix)), threads.shape)
        table[rows, lanes], there[rows, lanes] = own, True
        same = (table[rows] == own[:, None]) & there[rows]
        equal = (same.astype(np.uint32) << np.arange(32, dtype=np.uint32)).sum(axis=1).astype(np.uint32)
        here = _by_warp(m, threads, np.ones(threads.size, bool)) & masks
        agree = equal & masks == here
        write(m, ix, np.where(agree, here, np.uint32(0)) if every else equal & masks)
        if tell is not None:
            tell(m, ix, agree)

    return step


@decodes("redux")
def decode_reduction(one: PtxInstruction, scope: OperandScope) -> Step:
    kind = kind_of(one)
    functions: dict[str, Callable[..., Any]] = {
        "add": np.add,
        "min": np.minimum,
        "max": np.maximum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
        "xor": np.bitwise_xor,
    }
    function: Any = functions[one.opcode[2]]
    value, mask = scope.reader(one.operands[1], kind), scope.reader(one.operands[2], "b32")
    write = scope.writer(one.operands[0], kind)

    def step(m: Machine, ix: Active) -> None:
        threads, masks = require_members(m, ix, mask(m, ix))
        own = np.broadcast_to(np.asarray(value(m, ix)), threads.shape)
        groups, of = np.unique(m.warps[threads].astype(np.uint64) << np.uint64(32) | masks, return_inverse=True)
        order = np.argsort(of, kind="stable")
        starts = np.searchsorted(of[order], np.arange(groups.size))
        write(m, ix, function.reduceat(own[order].astype(DTYPES[kind]), starts).astype(DTYPES[kind])[of])

    return step
