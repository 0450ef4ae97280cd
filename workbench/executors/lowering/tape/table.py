"""All rules: importing the modules of this folder notes them; and which nodes they take, as far as a plan can tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from workbench.executors.lowering import tape
from workbench.executors.lowering.tape.registry import rule_of, takes_sparse, writes_integers
from workbench.executors.lowering.tape.rules import FLOATS, computed_in
from workbench.executors.lowering.tape.vector_code import is_expressible
from workbench.executors.planning.shapes import is_static
from workbench.framework.folder import import_all
from workbench.framework.op.traced import steps_of
from workbench.framework.values.spec import ROWS, Spec
from workbench.graph.ssa import BROADCAST, REDUCE, Node, Value

import_all(tape.__name__, tape.__path__)


def has_kernels(node: Node, specs: Mapping[Value, Spec]) -> bool:
    """Whether a node probably has a native form; what decides are the arrays it is bound to."""
    if rule_of(node) is None:
        return False
    written = [specs[v] for v in node.writes]
    read = [specs[v] for v in node.value_reads]
    if any(spec.kind == ROWS for spec in (*read, *written)):
        return takes_sparse(node) and all(_is_plain(spec) for spec in (*read, *written))
    dense = all(is_static(spec) for spec in (*read, *written))
    return dense and (writes_integers(node) or all(_is_written(spec.dtype.numpy) for spec in written))


def _is_written(dtype: np.dtype[Any]) -> bool:
    """Whether kernels of any kind write arrays of a dtype."""
    return computed_in(dtype) in FLOATS or dtype == np.bool_


def has_kernels_among_trainers(node: Node, specs: Mapping[Value, Spec]) -> bool:
    """The same where sums go over processes, of which kernels make those alone that all devices get."""
    return node.type not in (REDUCE, BROADCAST) and has_kernels(node, specs)


def _is_plain(spec: Spec) -> bool:
    """Whether kernels take it beside sparse gradients."""
    return -1 not in spec.shape and spec.dtype.numpy in (*FLOATS, np.int64)


def joins_natively(node: Node) -> bool:
    """Whether an element-wise node has a native form, whatever the shapes and layouts of its operands."""
    slots = (*node.inputs, *node.outputs)
    if any(slot is not None and not isinstance(slot, Value) for slot in slots):
        return False
    dtypes = tuple(None if slot is None else slot.spec.dtype.numpy for slot in node.inputs)
    form = steps_of(node.record, dtypes, node.attrs)
    return form is not None and is_expressible(form)
