"""Loads, stores, atomics and address conversions: from instructions to what executes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from workbench.cuda.simulated.ptx import floats
from workbench.cuda.simulated.ptx.arithmetic import computes, decodes
from workbench.cuda.simulated.ptx.machine import Machine
from workbench.cuda.simulated.ptx.module import BITS, DTYPES, WIDTHS, PtxInstruction
from workbench.cuda.simulated.ptx.operands import (
    LOCAL_WINDOW,
    SHARED_WINDOW,
    Active,
    OperandScope,
    Step,
    address,
    half_bits,
    kind_of,
    pack_pair,
    parts,
    unpack_pair,
)
from workbench.cuda.simulated.ptx.spaces import Space
from workbench.errors import Unimplemented

SPACES = ("global", "shared", "local", "const")
WEAK = ("volatile", "relaxed", "acquire", "release", "mmio")
"""Accesses that other threads may see at once: they order like atomics."""


def _space(one: PtxInstruction) -> str:
    return next((part for part in one.opcode if part in SPACES), "generic")


def _routes(m: Machine, threads: np.ndarray, addresses: np.ndarray, name: str) -> Iterator[tuple[Space, Any]]:
    """Give the spaces that the addresses lead to, each with the entries that do; None stands for all."""
    if name != "generic":
        yield m.spaces[name], None
        return
    window = addresses >> np.uint64(32)
    shared, local = window == SHARED_WINDOW >> 32, window == LOCAL_WINDOW >> 32
    for key, chosen in (("shared", shared), ("local", local), ("global", ~(shared | local))):
        if chosen.all():
            yield m.spaces[key], None
        elif chosen.any():
            yield m.spaces[key], np.flatnonzero(chosen)


def _addresses(m: Machine, ix: Active, base: Any, offset: int) -> tuple[np.ndarray, np.ndarray]:
    threads = m.threads[ix]
    values = base(m, ix) + np.uint64(offset % (1 << 64))
    if np.ndim(values) == 0:
        values = np.full(threads.size, values)
    return threads, values


@decodes("ld", "ldu")
def decode_load(one: PtxInstruction, scope: OperandScope) -> Step:
    if "param" in one.opcode:
        return _load_parameter(one, scope)
    kind = kind_of(one)
    targets = parts(one.operands[0])
    name, width = _space(one), WIDTHS[kind]
    weak, readonly = any(part in WEAK for part in one.opcode), "nc" in one.opcode
    base, offset = address(scope, one.operands[1], "u64")
    write = [scope.writer(target, kind if kind[0] != "f" else f"b{8 * width}") for target in targets]
    dtype = DTYPES[kind] if kind[0] != "f" else BITS[width]

    def step(m: Machine, ix: Active) -> None:
        threads, values = _addresses(m, ix, base, offset)
        for space, chosen in _routes(m, threads, values, name):
            some, there, put_at = (
                (threads, values, ix) if chosen is None else (threads[chosen], values[chosen], threads[chosen])
            )
            if len(write) > 1:
                space.require_aligned(some, there, width * len(write))
            if readonly:
                space.require_unwritten(some, there, width)  # type: ignore[attr-defined]
            for at, put in enumerate(write):
                bits = space.load(some, there + np.uint64(at * width), width, weak)
                put(m, put_at, bits.view(dtype))
            space.count(some, there, width * len(write), stores=False)

    return step


@decodes("st")
def decode_store(one: PtxInstruction, scope: OperandScope) -> Step:
    if "param" in one.opcode:
        return _store_parameter(one, scope)
    kind = kind_of(one)
    sources = parts(one.operands[1])
    name, width = _space(one), WIDTHS[kind]
    weak = any(part in WEAK for part in one.opcode)
    base, offset = address(scope, one.operands[0], "u64")
    read = [scope.reader(source, f"b{8 * width}") for source in sources]
    bits = BITS[width]
    if name == "const":
        raise Unimplemented(f"{one} writes to constant memory")

    def step(m: Machine, ix: Active) -> None:
        threads, values = _addresses(m, ix, base, offset)
        given: list[Any] = [np.asarray(each(m, ix)).view(bits) for each in read]
        for space, chosen in _routes(m, threads, values, name):
            some, there = (threads, values) if chosen is None else (threads[chosen], values[chosen])
            if len(read) > 1:
                space.require_aligned(some, there, width * len(read))
            for at, value in enumerate(given):
                own = value if chosen is None or value.ndim == 0 else value[chosen]
                space.store(some, there + np.uint64(at * width), width, own, weak)
            space.count(some, there, width * len(read), stores=True)

    return step


def _load_parameter(one: PtxInstruction, scope: OperandScope) -> Step:
    """Read a parameter of the kernel, or what a call has left in a variable of the caller."""
    kind = kind_of(one)
    width = WIDTHS[kind]
    name, offset = _parameter_address(one.operands[1])
    parameter = next((each for each in scope.entry.parameters if each.name == name), None)
    write = [scope.writer(target, kind) for target in parts(one.operands[0])]
    if parameter is None:
        return _load_variable(name, offset, width, kind, write)
    at = parameter.offset + offset

    def step(m: Machine, ix: Active) -> None:
        for number, put in enumerate(write):
            start = at + number * width
            put(m, ix, np.frombuffer(m.parameters, BITS[width], 1, start)[0].view(DTYPES.get(kind, BITS[width])))

    return step


def _load_variable(name: str, offset: int, width: int, kind: str, write: list[Any]) -> Step:
    def step(m: Machine, ix: Active) -> None:
        for number, put in enumerate(write):
            put(m, ix, m.variable(name, offset + number * width, width)[ix].view(DTYPES.get(kind, BITS[width])))

    return step


def _store_parameter(one: PtxInstruction, scope: OperandScope) -> Step:
    kind = kind_of(one)
    width = WIDTHS[kind]
    name, offset = _parameter_address(one.operands[0])
    read = [scope.reader(source, kind) for source in parts(one.operands[1])]

    def step(m: Machine, ix: Active) -> None:
        for number, each in enumerate(read):
            m.variable(name, offset + number * width, width)[ix] = np.asarray(each(m, ix)).view(BITS[width])

    return step


def _parameter_address(operand: str) -> tuple[str, int]:
    name, _, offset = operand.strip("[] ").partition("+")
    return name.strip(), int(offset or "0", 0)


@decodes("cvta")
def decode_generic(one: PtxInstruction, scope: OperandScope) -> Step:
    window = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(_space(one), 0)
    if not window:
        return computes(one, scope, lambda a: a, "u64")
    if "to" in one.opcode:
        return computes(one, scope, lambda a: a - np.uint64(window), "u64")
    return computes(one, scope, lambda a: a + np.uint64(window), "u64")


@decodes("isspacep")
def decode_is_space(one: PtxInstruction, scope: OperandScope) -> Step:
    name = one.opcode[1]
    windows = {"shared": SHARED_WINDOW >> 32, "local": LOCAL_WINDOW >> 32}

    def inside(a: Any) -> Any:
        window = np.asarray(a) >> np.uint64(32)
        return window == windows[name] if name in windows else ~np.isin(window, list(windows.values()))

    return computes(one, scope, inside, "u64", "pred")


@decodes("prefetch", "prefetchu", "discard", "applypriority")
def decode_hint(one: PtxInstruction, scope: OperandScope) -> Step:
    return lambda m, ix: None


@decodes("atom", "red")
def decode_atomic(one: PtxInstruction, scope: OperandScope) -> Step:
    kind, returns = kind_of(one), one.opcode[0] == "atom"
    operands = one.operands if returns else ("_", *one.operands)
    name, width = _space(one), WIDTHS[kind]
    base, offset = address(scope, operands[1], "u64")
    read = [scope.reader(source, f"b{8 * width}") for source in operands[2:]]
    write = scope.writer(operands[0], f"b{8 * width}")
    function = atomic_function(next(part for part in one.opcode[1:] if part in _ATOMIC), kind)
    bits = BITS[width]

    def step(m: Machine, ix: Active) -> None:
        threads, values = _addresses(m, ix, base, offset)
        given: list[Any] = [np.broadcast_to(np.asarray(each(m, ix)).view(bits), threads.shape) for each in read]
        old: Any = np.zeros(threads.size, bits)
        for space, chosen in _routes(m, threads, values, name):
            all_of = np.arange(threads.size) if chosen is None else chosen
            words, at = space.updated(threads[all_of], values[all_of], width)
            old[all_of] = _apply(m, words, at, [value[all_of] for value in given], function)
            if space.name == "global":
                m.clocks.use_atomically(m.first_thread + threads[all_of])
        m.counters.atomics += threads.size
        write(m, ix, old)

    return step


def _apply(m: Machine, words: np.ndarray, at: np.ndarray, given: list[np.ndarray], function: Any) -> np.ndarray:
    """Do the operations of all threads one after the other for each word, in an order drawn by the seed."""
    drawn = m.random.permutation(at.size)
    order = drawn[np.argsort(at[drawn], kind="stable")]
    places = at[order]
    starts = np.concatenate([[True], places[1:] != places[:-1]])
    turn = np.arange(at.size) - np.maximum.accumulate(np.where(starts, np.arange(at.size), 0))
    old = np.empty(at.size, words.dtype)
    by_turn = np.argsort(turn, kind="stable")
    ends = np.cumsum(np.bincount(turn))
    for first, last in zip(np.concatenate([[0], ends[:-1]]), ends):
        now = order[by_turn[first:last]]
        before = words[at[now]]
        old[now] = before
        words[at[now]] = function(before, *(value[now] for value in given))
    return old


_ATOMIC: dict[str, Callable[..., Any]] = {
    "add": lambda old, value: old + value,
    "min": np.fmin,
    "max": np.fmax,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exch": lambda old, value: value,
    "cas": lambda old, compare, value: np.where(old == compare, value, old),
    "inc": lambda old, most: np.where(old >= most, np.zeros_like(old), old + np.ones_like(old)),
    "dec": lambda old, most: np.where((old == 0) | (old > most), most, old - np.ones_like(old)),
}


def atomic_function(name: str, kind: str) -> Callable[..., np.ndarray]:
    """Return what makes new words of old ones and operands, all as bits."""
    function = _ATOMIC[name]
    bits = BITS[WIDTHS[kind]]
    if kind in ("f16", "bf16"):
        return lambda *given: half_bits(kind, function(*(floats.widen(kind, value) for value in given)))
    if kind in ("f16x2", "bf16x2"):
        half = kind[:-2]
        return lambda *given: pack_pair(half_bits(half, function(*(floats.widen(half, unpack_pair(v)) for v in given))))
    dtype = DTYPES[kind]
    return lambda *given: np.asarray(function(*(value.view(dtype) for value in given))).astype(dtype).view(bits)
