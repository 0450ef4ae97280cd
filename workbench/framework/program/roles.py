"""Op roles: bit flags kept in every operator's `op_role` attribute (P-16)."""

from __future__ import annotations

from enum import IntFlag
from functools import cache

ROLE = "op_role"
ROLE_VAR = "op_role_var"


class OpRole(IntFlag):
    """What an operator is for; flags combine (`Backward | Loss` fills the loss gradient)."""

    Forward = 0x0
    Backward = 0x1
    Optimize = 0x2
    RPC = 0x4
    Dist = 0x8
    LRSched = 0x10
    Loss = 0x100
    NotSpecified = 0x1000


FORWARD, BACKWARD, OPTIMIZE, LR_SCHED, LOSS = 0x0, 0x1, 0x2, 0x10, 0x100
LOSS_GRAD = BACKWARD | LOSS


@cache
def role_text(role: int) -> str:
    """`Backward|Loss` for 0x101; `Forward` for 0; bits without a name as a number."""
    if role == FORWARD:
        return "Forward"
    flags = [f for f in OpRole if f and role & f]
    rest = role & ~sum(flags)
    return "|".join([*(str(f.name) for f in flags), *([str(rest)] if rest else [])])
