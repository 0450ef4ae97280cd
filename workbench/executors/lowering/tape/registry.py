"""Which rule an op's nodes are written by, noted by the modules that have the rules.

    rule(writer, row) -> None      writes rows; raises Unsuitable before the first one if the operands do not suit

To give an op a native form, write a rule in a module that `table` imports and note it with `@native("type")`.
Element-wise ops and their gradients need none: their traced bodies become vector code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workbench.executors.planning.plan import Row
from workbench.graph.ssa import Node

Rule = Callable[[Any, Row], None]  # of a TapeWriter and a row

ANY_VIEW, ANY_ELEMENTWISE = "any view", "any element-wise op"  # in place of op types

RULES: dict[str, Rule] = {}


def native(*types: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Note a rule for op types."""

    def note(rule: Callable[..., None]) -> Callable[..., None]:
        RULES.update(dict.fromkeys(types, rule))
        return rule

    return note


def rule_of(node: Node) -> Rule | None:
    """The rule of a node, None if it has none."""
    found = RULES.get(node.type)
    if found is not None or not node.is_op or not set(node.record.needs) <= {"wanted"}:
        return found
    if node.record.is_view:
        return RULES[ANY_VIEW]
    return RULES[ANY_ELEMENTWISE] if node.record.is_elementwise else None


def writes_once(rule: Rule) -> bool:
    """Whether a rule has written nothing if it finds that its operands do not suit."""
    return rule is RULES[ANY_ELEMENTWISE]
