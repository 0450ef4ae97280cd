"""Sums of long integers: instructions that leave a carry and take it up (`add.cc`, `addc`, `madc.hi.cc`, …)."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.cuda.simulated.ptx.arithmetic import decodes, high_product
from workbench.cuda.simulated.ptx.machine import Machine
from workbench.cuda.simulated.ptx.module import DTYPES, WIDTHS, PtxInstruction
from workbench.cuda.simulated.ptx.operands import Active, OperandScope, Step, kind_of


@decodes("add.cc", "addc", "sub.cc", "subc")
def decode_long_sum(one: PtxInstruction, scope: OperandScope) -> Step:
    unsigned = f"u{8 * WIDTHS[kind_of(one)]}"
    x, y = scope.reader(one.operands[1], unsigned), scope.reader(one.operands[2], unsigned)
    write = scope.writer(one.operands[0], unsigned)
    takes, leaves = one.opcode[0].endswith("c"), "cc" in one.opcode
    adds = one.opcode[0].startswith("add")

    def step(m: Machine, ix: Active) -> None:
        a, b = np.asarray(x(m, ix)), np.asarray(y(m, ix))
        carry = m.carry[ix].astype(DTYPES[unsigned]) if takes else DTYPES[unsigned](0)
        result, out = _sum(a, b, carry) if adds else _difference(a, b, carry)
        write(m, ix, result)
        if leaves:
            m.carry[ix] = out

    return step


@decodes("mad.cc", "madc")
def decode_long_product(one: PtxInstruction, scope: OperandScope) -> Step:
    kind = kind_of(one)
    unsigned = DTYPES[f"u{8 * WIDTHS[kind]}"]
    read = [scope.reader(operand, kind) for operand in one.operands[1:]]
    write = scope.writer(one.operands[0], kind)
    takes, leaves = one.opcode[0] == "madc", "cc" in one.opcode
    product: Any = high_product(kind) if "hi" in one.opcode else np.multiply

    def step(m: Machine, ix: Active) -> None:
        a, b, c = (np.asarray(each(m, ix)) for each in read)
        carry = m.carry[ix].astype(unsigned) if takes else unsigned(0)
        result, out = _sum(np.asarray(product(a, b)).view(unsigned), c.view(unsigned), carry)
        write(m, ix, np.asarray(result).view(DTYPES[kind]))
        if leaves:
            m.carry[ix] = out

    return step


def _sum(a: Any, b: Any, carry: Any) -> tuple[Any, Any]:
    first = a + b
    result = first + carry
    return result, (first < a) | (result < first)


def _difference(a: Any, b: Any, borrow: Any) -> tuple[Any, Any]:
    first = a - b
    return first - borrow, (a < b) | (first < borrow)
