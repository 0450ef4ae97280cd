"""Which operators get a backward operator, and how many gradients meet at each value.

Values are (name, version): an operator that writes a name again makes a new version, so that gradients of the
old and the new value are never added up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from workbench.errors import Unimplemented
from workbench.framework.names import EMPTY
from workbench.framework.program.block import Block
from workbench.framework.program.operator import Operator
from workbench.framework.program.roles import OPTIMIZE
from workbench.framework.program.variable import Variable

Key = tuple[str, int]


@dataclass
class Use:
    """An operator with the versions of what it reads and writes."""

    op: Operator
    reads: dict[str, Key]
    writes: dict[str, Key]


@dataclass
class GradientReach:
    """The plan of a reverse walk.

    Attributes:
        steps: the operators to differentiate, last one first.
        requires: the values gradients are passed on to.
        count: number of gradients that meet at a value.
        last: current version of every name.
    """

    steps: list[Use] = field(default_factory=list)
    requires: set[Key] = field(default_factory=set)
    count: Counter[Key] = field(default_factory=Counter)
    last: dict[str, int] = field(default_factory=dict)

    def key(self, name: str) -> Key:
        """The newest version of a name."""
        return name, self.last.get(name, 0)


def trace_versions(ops: Iterable[Operator], reach: GradientReach) -> list[Use]:
    """Number the versions that operators read and write, in program order."""
    uses = []
    last = reach.last
    for op in ops:
        reads = {n: (n, last.get(n, 0)) for n in op.input_arg_names if n != EMPTY}
        for name in reads:
            last.setdefault(name, 0)
        for name in op.output_arg_names:
            last[name] = last[name] + 1 if name in last else 0
        uses.append(Use(op, reads, {n: (n, last[n]) for n in op.output_arg_names}))
    return uses


def receiving_names(op: Operator) -> list[str]:
    """The inputs of an operator that can receive a gradient."""
    skip = op.record.no_grad
    return [n for slot, names in op.inputs.items() if slot not in skip for n in names if n != EMPTY]


def passes_gradient(variable: Variable, no_grad: Collection[str]) -> bool:
    """Whether gradients flow through a variable (P-33)."""
    return variable.dtype.is_float and not variable.stop_gradient and variable.name not in no_grad


def find_reach(
    ops: Sequence[Operator],
    seeds: Collection[str],
    sources: Collection[str] | None,
    no_grad: Collection[str],
    variable: Callable[[str], Variable],
    differentiable: Callable[[Operator], bool],
) -> GradientReach:
    """Plan the walk back from `seeds`.

    Args:
        ops: candidates in program order.
        seeds: names whose gradient is given.
        sources: names gradients are wanted for; None means every leaf that gradients may flow to.
        no_grad: names excluded.
        variable: looks a name up.
        differentiable: whether an operator has a gradient.
    """
    reach = GradientReach()
    uses = trace_versions(ops, reach)
    if sources is not None:
        reach.requires.update((name, 0) for name in sources)
    active = [use for use in uses if _reaches(use, reach, sources, no_grad, variable, differentiable)]
    has_grad = {reach.key(name) for name in seeds}
    for use in reversed(active):
        if not any(key in has_grad for key in use.writes.values()):
            continue
        reach.steps.append(use)
        for name in receiving_names(use.op):
            key = use.reads[name]
            if key in reach.requires:
                reach.count[key] += 1
                has_grad.add(key)
    return reach


def _reaches(
    use: Use,
    reach: GradientReach,
    sources: Collection[str] | None,
    no_grad: Collection[str],
    variable: Callable[[str], Variable],
    differentiable: Callable[[Operator], bool],
) -> bool:
    """Whether a gradient of the operator's outputs is passed on to something wanted; marks those outputs."""
    if not differentiable(use.op):
        return False
    reaches = False
    for name in receiving_names(use.op):
        key = use.reads[name]
        if sources is None and key[1] == 0 and key not in reach.requires and _is_leaf(variable(name), no_grad):
            reach.requires.add(key)
        reaches = reaches or key in reach.requires
    if reaches:
        wanted = sources or ()
        for name, key in use.writes.items():
            if passes_gradient(variable(name), no_grad) or (name in wanted and key[1] == 0):
                reach.requires.add(key)
    return reaches


def _is_leaf(variable: Variable, no_grad: Collection[str]) -> bool:
    return (variable.is_parameter or variable.is_data or variable.persistable) and passes_gradient(variable, no_grad)


class Overwrites:
    """Where the variables of a block are written last: backward operators read saved values by name, at its end.

    Updates of parameters do not count: a second `minimize` in one program reads what the first has updated, as in
    Paddle.
    """

    def __init__(self, block: Block) -> None:
        self.position = {id(op): i for i, op in enumerate(block.ops)}
        self.last = {n: i for i, op in enumerate(block.ops) if not op.role & OPTIMIZE for n in op.output_arg_names}

    def refuse(self, op: Operator) -> None:
        """Raise if a value that the gradient of `op` may read is gone by then.

        Raises:
            Unimplemented: an operator after `op` (or `op` itself) writes the value again.
        """
        here, saved = self.position[id(op)], op.record.saved
        reads = ((n, here - 1) for slot, names in op.inputs.items() if slot in saved for n in names)
        kept = ((n, here) for slot, names in op.outputs.items() if slot in saved for n in names)
        for name, allowed in (*reads, *kept):
            if self.last.get(name, -1) > allowed and name != EMPTY:
                raise Unimplemented(
                    f"the gradient of op {op.type!r} needs the value of {name!r} that a later op overwrites; "
                    f"write the new value to another variable\n  at {op.site}"
                )
