"""What a program holds, on half a page: feeds, parameters, operators by role, memory. As text and as HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from workbench.framework.program.program import Program
from workbench.framework.program.roles import BACKWARD, LR_SCHED, OPTIMIZE
from workbench.framework.program.variable import Parameter, Variable
from workbench.framework.text.printable import escape
from workbench.framework.values.spec import size_of

CODE = "font-family:var(--jp-code-font-family, monospace); font-size:var(--jp-code-font-size, 13px)"
ROLES = ("forward", "backward", "optimize")


@dataclass(frozen=True)
class Amount:
    """Of some variables: how many, of how many elements, in how many bytes."""

    variables: int
    elements: int
    bytes: int

    @staticmethod
    def of(variables: Iterable[Variable]) -> Amount:
        sizes = [(size_of(v.shape), v.dtype.numpy.itemsize) for v in variables]
        return Amount(len(sizes), sum(n for n, _ in sizes), sum(n * width for n, width in sizes))

    def __str__(self) -> str:
        sizes = (count(self.variables, "variable"), count(self.elements, "element"), memory_text(self.bytes))
        return ", ".join(sizes)


@dataclass(frozen=True)
class Summary:
    """Shown below a `%%static_program` cell.

    Attributes:
        feeds: (name, "float32[?, 64]") of every `static.data`.
        trained, other: parameters that are trained, and those that are not (frozen, running statistics).
        state: what optimizers keep between steps, learning rate included.
        ops: number of operators by role.
        programs: (name, what it is, number of operators) of the programs that go with it.
    """

    name: str
    feeds: tuple[tuple[str, str], ...]
    trained: Amount
    other: Amount
    state: Amount
    ops: dict[str, int]
    programs: tuple[tuple[str, str, int], ...] = ()

    @staticmethod
    def of(main: Program, startup: Program | None = None, test: Program | None = None) -> Summary:
        """The summary of a program."""
        parameters = main.all_parameters()
        companions = [("startup", startup), ("test", test)]
        return Summary(
            name=main.name or "program",
            feeds=tuple((v.name, str(v.spec)) for v in main.list_vars() if v.is_data),
            trained=Amount.of(p for p in parameters if p.trainable and not p.stop_gradient),
            other=Amount.of(p for p in parameters if not p.trainable or p.stop_gradient),
            state=Amount.of(optimizer_state(main)),
            ops=ops_by_role(main),
            programs=tuple((p.name, what, ops_in(p)) for what, p in companions if p is not None),
        )

    def rows(self) -> list[tuple[str, str]]:
        """(label, text) of every line below the heading."""
        rows = [("feeds" if i == 0 else "", f"{name}: {spec}") for i, (name, spec) in enumerate(self.feeds)]
        rows.append(("parameters", str(self.trained)))
        if self.other.variables:
            rows.append(("not trained", str(self.other)))
        if self.state.variables:
            rows.append(("optimizer", str(self.state)))
        rows.append(("operators", roles_text(self.ops)))
        rows.extend((what, f"{name}: {count(ops, 'operator')}") for name, what, ops in self.programs)
        return rows

    def __repr__(self) -> str:
        rows = self.rows()
        width = max(len(label) for label, _ in rows)
        return "\n".join([f"program {self.name}", *(f"  {label:<{width}}  {text}" for label, text in rows)])

    def _repr_html_(self) -> str:
        cell = "text-align:left; padding:1px 16px 1px 0; background:none"
        body = "".join(
            f'<tr style="background:none"><td style="{cell}">{escape(label)}</td>'
            f'<td style="{cell}; {CODE}">{escape(text)}</td></tr>'
            for label, text in self.rows()
        )
        heading = f'<div>program <b style="{CODE}">{escape(self.name)}</b></div>'
        return f'{heading}<table style="margin:2px 0 0 0; border:none">{body}</table>'


def ops_in(program: Program) -> int:
    """Number of operators, those of sub-blocks included."""
    return sum(len(block.ops) for block in program.blocks)


def ops_by_role(program: Program) -> dict[str, int]:
    """{"forward": n, "backward": n, "optimize": n}; learning-rate operators count as optimize."""
    counts = Counter(map(_role, program.all_ops()))
    return {role: counts[role] for role in ROLES}


def roles_text(ops: dict[str, int]) -> str:
    """`9 forward, 8 backward, 4 optimize`; roles without operators are left out."""
    return ", ".join(f"{n} {role}" for role, n in ops.items() if n) or "none"


def _role(op: Any) -> str:
    if op.role & (OPTIMIZE | LR_SCHED):
        return "optimize"
    return "backward" if op.role & BACKWARD else "forward"


def optimizer_state(program: Program) -> list[Variable]:
    """Persistable variables that only operators of the Optimize and LRSched roles touch."""
    elsewhere: set[str] = set()
    here: dict[str, None] = {}
    for op in program.all_ops():
        touched = (*op.input_arg_names, *op.output_arg_names)
        if op.role & (OPTIMIZE | LR_SCHED):
            here.update(dict.fromkeys(touched))
        else:
            elsewhere.update(touched)
    block = program.global_block()
    variables = [block.vars[n] for n in here if n in block.vars and n not in elsewhere]
    return [v for v in variables if v.persistable and not isinstance(v, Parameter)]


def count(number: int, noun: str) -> str:
    """`1 element`, `1,280 elements`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def memory_text(size: int) -> str:
    """Bytes in the largest unit that keeps at least one digit before the point: `198.8 KiB`."""
    value, units = float(size), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{value:.0f} B" if units[0] == "B" else f"{value:.1f} {units[0]}"
