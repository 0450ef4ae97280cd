"""Which rule an op's nodes are written by, noted by the modules that have the rules.

    rule(writer, row) -> None      writes rows; raises Unsuitable before the first one if the operands do not suit

An op whose operands become several rows gets a rule in a module of this folder, noted with `@native(THE_OP)`, its
gradient's with `@native(THE_OP.backward)`. All others need none: of element-wise ops and row programs the traced bodies
become code, and an op with a kernel of its own declares the row of it (`Op.kernel`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.executors.planning.plan import Row
from workbench.framework.op.record import Op
from workbench.framework.values.dtype import has_halves
from workbench.graph.ssa import Node

Rule = Callable[[Any, Row], None]  # of a TapeWriter and a row

ANY_VIEW, ANY_ELEMENTWISE, ANY_ROWS = "any view", "any element-wise op", "any row program"  # in place of op types
ANY_UPDATE = "any update of a parameter"
ANY_KERNEL = "any op that declares the row of a kernel"
IN_FLOAT32, ON_DENSE = "any op on halves", "any op on strided arrays"

RULES: dict[str, Rule] = {}
INTEGERS: set[str] = set()  # ops whose kernels write integers, too
OBJECTS: set[str] = set()  # ops with operands that travel as objects in Python, and need not in kernels
SPARSE: set[str] = set()  # ops that take sparse gradients in kernels, or make them
JOINED: set[str] = set()  # ops that stand for several, of which each rounds halves


def native(
    *ops: Op | str, integers: bool = False, objects: bool = False, sparse: bool = False, joined: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Note a rule for ops, or for nodes of a graph that are none, by their type.

    Args:
        integers: its kernels write integers as well as float32.
        objects: it can do without the operands that have no memory. sparse: these may be sparse gradients.
        joined: the op stands for several, of which each rounds halves, as the rule would not on float32.
    """
    types = [op if isinstance(op, str) else op.type for op in ops]

    def note(rule: Callable[..., None]) -> Callable[..., None]:
        RULES.update(dict.fromkeys(types, rule))
        INTEGERS.update(types if integers else ())
        OBJECTS.update(types if objects else ())
        SPARSE.update(types if sparse else ())
        JOINED.update(types if joined else ())
        return rule

    return note


def rule_of(node: Node) -> Rule | None:
    """The rule of a node, None if it has none."""
    return RULES.get(_key(node))


def has_rule(record: Op) -> bool:
    """Whether there is a rule for nodes of an op."""
    return _noted_as(record) in RULES


def takes_sparse(node: Node) -> bool:
    """Whether the rule of a node takes sparse gradients, or makes them."""
    return _key(node) in SPARSE


def writes_integers(node: Node) -> bool:
    """Whether kernels of a node's rule may write integers."""
    return _key(node) in INTEGERS


def _key(node: Node) -> str:
    return _noted_as(node.record) if node.is_op else node.type


def _noted_as(record: Op) -> str:
    """What the rule of an op is noted under: its type, or what ops of its kind have in common."""
    if record.type in RULES or not set(record.needs) <= {"wanted"}:
        return record.type
    if record.update is not None:
        return ANY_UPDATE
    if record.kernel is not None:
        return ANY_KERNEL
    if record.rows is not None:
        return ANY_ROWS
    if record.is_view:
        return ANY_VIEW
    return ANY_ELEMENTWISE if record.is_elementwise else record.type


def rules_of(node: Node) -> list[Rule]:
    """The rules a node may be written by, of which the first that suits does: its own, then those on copies."""
    rule = rule_of(node)
    if rule is None:
        return []
    if not node.is_op or "run_block" in node.record.needs:
        return [rule]
    if has_halves(value.spec.dtype.numpy for value in (*node.reads, *node.writes)):
        return [rule] if node.type in JOINED else [rule, RULES[IN_FLOAT32]]
    return [rule, RULES[ON_DENSE]]


def writes_once(rule: Rule) -> bool:
    """Whether a rule has written nothing if it finds that its operands do not suit."""
    return rule is RULES[ANY_ELEMENTWISE]
