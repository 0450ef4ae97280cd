"""A plan as text: one line per row, with phase, thread, memory and estimated cost."""

from __future__ import annotations

from typing import Any

from workbench.executors.planning.memory.refs import Ref
from workbench.executors.planning.plan import Plan, Row
from workbench.executors.planning.schedule import CALL, seconds
from workbench.framework.written import writes


@writes(Plan)
def plan_text(plan: Plan) -> str:
    """The plan as text; the schedule's order, then the commit."""
    kept = sum(1 for v in plan.refs if v in plan.aliases)
    sizes = ", ".join(f"{place}: {nbytes:,}" for place, nbytes in plan.sizes.items())
    threads = max(plan.schedule.threads, plan.shares.threads)
    lines = [
        f"plan: {len(plan.rows)} rows, {len(plan.commit)} in the commit, {threads} threads",
        f"bytes for temporaries by device: {sizes}; {kept} values only look at another one's memory",
    ]
    lines += [_line("", row, plan) for row in plan.rows]
    lines += [_line("commit ", row, plan) for row in plan.commit]
    lines += [f"commit copy {value}" for value in plan.staged]
    return "\n".join(lines)


def _line(phase: str, row: Row, plan: Plan) -> str:
    places = ",".join(map(str, row.node.places))
    outs = ", ".join(_at(ref) for ref in _flat(row.outs))
    blocks = plan.shares.blocks.get(row.node)
    thread = f"t{row.thread}" if blocks is None else f"{blocks} blocks"
    if row.node in plan.shares.late:
        thread += f", {len(plan.shares.late[row.node])} late"
    return f"{phase}[{places}] {thread} {row.node.type} -> {outs or 'objects'}  ~{_cost(row, plan)}"


def _cost(row: Row, plan: Plan) -> str:
    """Estimated time; where a plan runs in kernels, what has none is marked: it costs a call of NumPy more."""
    work = seconds(row.cost) * 1e6
    if not plan.native or row.node in plan.native:
        return f"{work:.1f} us"
    return f"{work:.1f} us + {CALL * 1e6:.0f} us by NumPy"


def _flat(refs: list[Any]) -> list[Ref]:
    flat: list[Ref] = []
    for ref in refs:
        flat += _flat(ref) if isinstance(ref, list) else [ref] if ref is not None else []
    return flat


def _at(ref: Ref) -> str:
    shape = "x".join(map(str, ref.shape))
    return f"{ref.root.name or f'+{ref.root.offset + ref.offset}'}:{ref.dtype.name}[{shape}]"
