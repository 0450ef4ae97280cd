"""Why a node has no native form, as far as that can be told without its operands."""

from __future__ import annotations

from collections.abc import Iterator

from workbench.executors.lowering.tape.registry import OBJECTS, has_rule, rule_of, takes_sparse
from workbench.framework.program.block import Block
from workbench.framework.values.spec import ROWS
from workbench.graph.ssa import Node, values_of

NO_RULE, UNSUITED, SPARSE_GRADIENT = "no rule", "operands not suited", "sparse gradient"
NATIVE = frozenset({"float32", "int64", "bool"})  # dtypes that kernels compute with


def dtypes_of(node: Node) -> str:
    """Of its operands, each once, those it reads first: `float32+int64`."""
    values = [*values_of(node.inputs), *node.writes]
    return "+".join(dict.fromkeys(value.spec.dtype.name for value in values))


def why_by_numpy(node: Node) -> str:
    """Of a node that runs by NumPy; the first reason there is."""
    if rule_of(node) is None:
        return NO_RULE
    operands = [*values_of(node.inputs), *node.writes]
    takes_objects = node.type in OBJECTS or takes_sparse(node)
    if not takes_objects and any(value.spec.kind == ROWS for value in operands):
        return SPARSE_GRADIENT
    inside = list(dict.fromkeys(_without_rule(node)))
    if inside:
        return f"{NO_RULE} for {', '.join(inside)} inside"
    strange = [dtype for dtype in dtypes_of(node).split("+") if dtype not in NATIVE]
    return strange[0] if strange else UNSUITED


def _without_rule(node: Node) -> Iterator[str]:
    """Types of the operators in a node's blocks that no rule is for."""
    for block in (value for value in node.attrs.values() if isinstance(value, Block)):
        yield from (op.type for op in block.ops if not has_rule(op.record))
