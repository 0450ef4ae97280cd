"""Results written the way they are needed next: what a product makes per head goes straight to where heads are joined.

`matmul -> transpose -> reshape` is a product, a view and a copy. If the product writes with the strides of the
transposed result, the reshape is a view, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.executors.planning.shapes import Specs
from workbench.graph.ssa import Node, Value

_WRITERS = ("matmul_v2", "matmul_v2_grad")  # their kernels write with any strides
RESHAPES = ("reshape2", "reshape2_grad", "squeeze2", "squeeze2_grad", "unsqueeze2", "unsqueeze2_grad")
"""Ops that keep the order of the elements."""


def strides_ahead(
    node: Node, value: Value, readers: Mapping[Value, Sequence[Node]], specs: Specs
) -> tuple[int, ...] | None:
    """Strides in bytes for a result that is only transposed and then only reshaped; None for any other.

    Args:
        node: writes the value. readers: of the content of every value.
    """
    if node.type not in _WRITERS:
        return None
    transposes = _only_reader(value, readers)
    order = None if transposes is None else _order(transposes)
    if transposes is None or order is None:
        return None
    (seen,) = transposes.writes[:1]
    joins = _only_reader(seen, readers)
    if joins is None or joins.type not in RESHAPES:
        return None
    step, strides = specs[value].dtype.itemsize, [0] * len(order)
    for axis in reversed(range(len(order))):
        strides[order[axis]] = step
        step *= specs[seen].shape[axis]
    return tuple(strides)


def _only_reader(value: Value, readers: Mapping[Value, Sequence[Node]]) -> Node | None:
    found = readers.get(value, ())
    one = len(found) == 1 and found[0].is_op and found[0].places == (value.place,)
    return found[0] if one and not value.persistable else None


def _order(node: Node) -> list[int] | None:
    """The axes of the input in the order of the result's, of a transposition."""
    axes: Any = node.attrs.get("axis")
    if node.type == "transpose2":
        return list(axes)
    return sorted(range(len(axes)), key=lambda i: axes[i]) if node.type == "transpose2_grad" else None
