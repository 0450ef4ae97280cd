"""What tells programs that were transpiled together from others: trainers name it, servers compare it."""

from __future__ import annotations

import json
from hashlib import sha256

from workbench.framework.program.program import Program
from workbench.framework.program.roles import OPTIMIZE
from workbench.parallel.transpiler.server_mode.layout import Layout

ATTRIBUTE = "served"


def fingerprint(program: Program, layout: Layout) -> str:
    """Of a program and how it is dealt to servers: its parameters and where they lie, the types of its updates, how
    many trainers there are and how servers take their gradients.

    Numbers in the program, such as a learning rate, may differ from process to process.
    """
    parameters = [[one.name, list(one.shape), one.dtype.name] for one in layout.served]
    shards = [[s.parameter, s.endpoint, s.block.start, s.block.stop] for one in layout.served for s in one.shards]
    updates = [op.type for op in program.global_block().ops if op.role & OPTIMIZE]
    told = json.dumps([parameters, shards, updates, layout.trainers, layout.endpoints, layout.mode, layout.waits])
    return sha256(told.encode()).hexdigest()[:16]
