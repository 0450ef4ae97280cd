"""From the text of an operand to functions that read and write it for many threads at once.

A register is an array with an entry for each thread, of plain bits (or bool); an instruction says what type the bits
have. Float types narrower than float32 are read as float64, in which their arithmetic is exact; the pairs `f16x2` and
`bf16x2` are read with a second dimension.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.cuda.simulated.ptx import floats
from workbench.cuda.simulated.ptx.machine import Machine
from workbench.cuda.simulated.ptx.module import BITS, DTYPES, WIDTHS, KernelEntry, PtxInstruction
from workbench.errors import Unimplemented

Active = Any
"""Which threads go: all, as `slice(None)`, or an array of their numbers."""
Read = Callable[[Machine, Active], Any]
Write = Callable[[Machine, Active, Any], None]
Step = Callable[[Machine, Active], None]

SHARED_WINDOW = 0x7E00_0000_0000
LOCAL_WINDOW = 0x7D00_0000_0000
"""Where generic addresses of shared and local memory lie; a window has 4 GiB."""

SPECIAL = (
    *("%tid", "%ntid", "%ctaid", "%nctaid", "%laneid", "%warpid", "%nwarpid", "%lanemask_"),
    *("%clock", "%smid", "%nsmid", "%gridid", "%dynamic_smem_size", "%total_smem_size", "%globaltimer"),
)
"""How the names of special registers begin."""


class OperandScope:
    """What the names in one kernel's operands mean."""

    def __init__(self, entry: KernelEntry) -> None:
        self.entry = entry
        self.slots = {name: at for at, name in enumerate(entry.registers)}
        self.kinds = list(entry.registers.values())

    def reader(self, operand: str, kind: str) -> Read:
        """Return what reads an operand as values of a type."""
        if operand.startswith("!"):
            inner = self.reader(operand[1:], kind)
            return lambda m, ix: ~inner(m, ix)
        if operand in self.slots:
            return self._register(self.slots[operand], kind)
        if operand.startswith(SPECIAL):
            return _special(operand, kind)
        if (symbol := self._symbol(operand)) is not None:
            return symbol
        value = constant(operand, kind)
        return lambda m, ix: value

    def writer(self, operand: str, kind: str) -> Write:
        """Return what writes values of a type into a register."""
        if operand == "_":
            return lambda m, ix, value: None
        slot = self.slot(operand)
        if kind == "pred":
            return lambda m, ix, value: _put(m.registers[slot], ix, value)
        into = BITS[WIDTHS[self.kinds[slot]]]
        if kind in ("f16x2", "bf16x2"):
            half = kind[:-2]
            return lambda m, ix, value: _put(m.registers[slot], ix, pack_pair(half_bits(half, value)))
        if kind in ("f16", "bf16"):
            return lambda m, ix, value: _put(m.registers[slot], ix, half_bits(kind, value))
        dtype = DTYPES[kind]
        if WIDTHS[kind] == WIDTHS[self.kinds[slot]]:
            bits = BITS[WIDTHS[kind]]
            return lambda m, ix, value: _put(m.registers[slot], ix, np.asarray(value, dtype).view(bits))
        wider = np.dtype(f"{'i' if kind[0] == 's' else 'u'}{WIDTHS[self.kinds[slot]]}")
        return lambda m, ix, value: _put(m.registers[slot], ix, np.asarray(value, dtype).astype(wider).view(into))

    def slot(self, operand: str) -> int:
        if operand not in self.slots:
            raise Unimplemented(f"The kernel {self.entry.name} writes to {operand}, which is no register")
        return self.slots[operand]

    def width(self, operand: str) -> int:
        """Return the bytes of a register, 8 for anything else."""
        return WIDTHS[self.kinds[self.slots[operand]]] if operand in self.slots else 8

    def _register(self, slot: int, kind: str) -> Read:
        if kind == "pred":
            return lambda m, ix: m.registers[slot][ix]
        own, width = WIDTHS[self.kinds[slot]], WIDTHS[kind]
        bits = BITS[width]
        if kind in ("f16x2", "bf16x2"):
            half = kind[:-2]
            return lambda m, ix: floats.widen(half, unpack_pair(m.registers[slot][ix]))
        if kind in ("f16", "bf16"):
            return lambda m, ix: floats.widen(kind, m.registers[slot][ix])
        dtype = DTYPES[kind]
        if own == width:
            return lambda m, ix: m.registers[slot][ix].view(dtype)
        return lambda m, ix: m.registers[slot][ix].astype(bits).view(dtype)

    def _symbol(self, operand: str) -> Read | None:
        """Return what gives the address of a variable, in its own state space."""
        match = re.match(r"([\w$'.]+)(?:\+(\d+))?$", operand)
        if match is None:
            return None
        name, more = match[1], int(match[2] or 0)
        if name in self.entry.shared:
            at = self.entry.shared[name] + more
            return lambda m, ix: np.uint64(at)
        if name in self.entry.dynamic:
            at = -(-self.entry.shared_bytes // 16) * 16 + more
            return lambda m, ix: np.uint64(at)
        if name in self.entry.local:
            at = self.entry.local[name] + more
            return lambda m, ix: np.uint64(at)
        if name in self.entry.tables:
            return lambda m, ix: np.uint64(m.tables[name] + more)
        return None


def _put(register: np.ndarray, ix: Active, value: Any) -> None:
    register[ix] = value


def half_bits(kind: str, value: Any) -> np.ndarray:
    """Return the bits of 16-bit floats given as float64."""
    if kind == "bf16":
        return floats.bfloat16_bits(value)
    return np.asarray(value).astype(np.float16).view(np.uint16)


def pack_pair(halves: np.ndarray) -> np.ndarray:
    return halves[..., 0].astype(np.uint32) | halves[..., 1].astype(np.uint32) << np.uint32(16)


def unpack_pair(bits: np.ndarray) -> np.ndarray:
    return np.stack([(bits & 0xFFFF).astype(np.uint16), (bits >> 16).astype(np.uint16)], axis=-1)


def constant(operand: str, kind: str) -> Any:
    """Return the value of a literal, as a NumPy scalar (a row of two for pairs)."""
    if kind == "pred":
        return np.bool_(int(operand, 0))
    number, own = _literal(operand)
    if own == 8 and kind == "f32":
        return np.float32(np.uint64(number).view(np.float64))
    width = WIDTHS[kind]
    bits = BITS[width](number % (1 << 8 * width))
    if kind in ("f16", "bf16"):
        return floats.widen(kind, bits.reshape(1))[0]
    if kind in ("f16x2", "bf16x2"):
        return floats.widen(kind[:-2], unpack_pair(bits.reshape(1)))[0]
    return bits.view(DTYPES[kind])


def _literal(text: str) -> tuple[int, int]:
    if text[:2] in ("0f", "0F"):
        return int(text[2:], 16), 4
    if text[:2] in ("0d", "0D"):
        return int(text[2:], 16), 8
    try:
        return int(re.sub(r"^(-?)0(?=\d)", r"\g<1>0o", text.rstrip("U")), 0), 0
    except ValueError:
        raise Unimplemented(f"The PTX operand {text} cannot be read") from None


def _special(name: str, kind: str) -> Read:
    dtype = DTYPES[kind]
    return lambda m, ix: m.special(name)[ix].astype(dtype)


def address(scope: OperandScope, operand: str, width: str) -> tuple[Read, int]:
    """Return what reads the base of `[base+offset]`, and the offset."""
    match = re.match(r"\[\s*([^\s\]+]+)\s*(?:\+\s*(-?\w+))?\s*\]$", operand)
    if match is None:
        raise Unimplemented(f"The PTX address {operand} cannot be read")
    return scope.reader(match[1], width), int(match[2] or "0", 0)


def parts(operand: str) -> list[str]:
    """Return the elements of a vector operand, or the operand itself."""
    return [part.strip() for part in operand.strip("{} ").split(",")]


def kind_of(instruction: PtxInstruction) -> str:
    """Return the type an instruction works in: its last part."""
    return instruction.opcode[-1]
