"""Which kernels an op takes: rules by op.

    rule(writer, row) -> None      writes rows; raises Unsuitable before the first one if the operands do not suit

To give an op a native form, write a rule in a module of this folder and note it with `@native(THE_OP)`, its gradient's
with `@native(THE_OP.backward)`. Element-wise ops and their gradients need none: their traced bodies become vector code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from workbench.executors.lower import call_attrs
from workbench.executors.memory import shown_input
from workbench.executors.operands import Context, arrays_of
from workbench.executors.plan import Row
from workbench.executors.shapes import is_static
from workbench.executors.tape.transposes import strided_copy
from workbench.executors.tape.vector_code import Unsuitable, is_expressible
from workbench.executors.tape.writer import TapeWriter
from workbench.framework.bound_elementwise import steps_of
from workbench.framework.expr import Expr
from workbench.framework.lowered import Lowered, lower
from workbench.framework.op import Op
from workbench.framework.spec import Spec
from workbench.graph.ssa import FUSED_ELEMENTWISE, SCALE_LOSS_GRAD, Node, Value

Rule = Callable[[TapeWriter, Row], None]
Arrays = Sequence[Any]

RULES: dict[str, Rule] = {}
INTEGERS: set[str] = set()  # ops whose kernels write integers, too
FLOAT = np.dtype(np.float32)


def native(*ops: Op | str, integers: bool = False) -> Callable[[Rule], Rule]:
    """Note a rule for ops, or for nodes of a graph that are none, by their type.

    Args:
        integers: its kernels write integers as well as float32.
    """
    types = [op if isinstance(op, str) else op.type for op in ops]

    def note(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(types, rule))
        INTEGERS.update(types if integers else ())
        return rule

    return note


def rule_of(node: Node) -> Rule | None:
    """The rule of a node, None if it has none."""
    found = RULES.get(node.type)
    if found is not None or not node.is_op or not set(node.record.needs) <= {"wanted"}:
        return found
    if node.record.is_view:
        return view
    return elementwise if node.record.is_elementwise else None


def has_kernels(node: Node, specs: Mapping[Value, Spec]) -> bool:
    """Whether a node probably has a native form; what decides are the arrays it is bound to."""
    if rule_of(node) is None:
        return False
    written = [specs[v] for v in node.writes]
    read = [specs[v] for v in node.value_reads]
    dense = all(is_static(spec) for spec in (*read, *written))
    return dense and (node.type in INTEGERS or all(spec.dtype.numpy in (FLOAT, np.bool_) for spec in written))


def joins_natively(node: Node) -> bool:
    """Whether an element-wise node has a native form, whatever the shapes and layouts of its operands."""
    slots = (*node.inputs, *node.outputs)
    if any(slot is not None and not isinstance(slot, Value) for slot in slots):
        return False
    dtypes = tuple(None if slot is None else slot.spec.dtype.numpy for slot in node.inputs)
    form = steps_of(node.record, dtypes, node.attrs)
    return form is not None and is_expressible(form)


def operands(writer: TapeWriter, row: Row) -> tuple[list[Any], list[Any]]:
    """The arrays of a row: outputs and inputs, in the slots of its op."""
    context = writer.context
    return arrays_of(row.node.outputs, context), arrays_of(row.node.inputs, context)


def require(*conditions: bool) -> None:
    """Go on only if all hold."""
    if not all(conditions):
        raise Unsuitable


def require_plain(*arrays: np.ndarray) -> None:
    """All are float32, lie in memory row by row, and have elements."""
    for a in arrays:
        require(isinstance(a, np.ndarray), a.dtype == FLOAT, a.flags.c_contiguous, a.size > 0)


# Element-wise


def elementwise(writer: TapeWriter, row: Row) -> None:
    """An element-wise op or its backward op, by its traced body."""
    node = row.node
    outs, ins = operands(writer, row)
    require(all(a is None or isinstance(a, np.ndarray) for a in (*outs, *ins)))
    form = steps_of(node.record, tuple(None if a is None else a.dtype for a in ins), node.attrs)
    if form is None:
        raise Unsuitable
    form = form.only(tuple(out is not None for out in outs))
    read = [a for i, a in enumerate(ins) if i in form.read]
    shape = np.broadcast_shapes(*(a.shape for a in (*read, *outs) if a is not None))
    summed = {out.shape for out in outs if out is not None and out.shape != shape}
    # By shapes alone, so that the order of sums is: what has the shape of an operand may also have its memory.
    if all(_ends(shape, part) and all(a.shape != part for a in read) for part in summed):
        with suppress(Unsuitable):
            writer.vector(form, shape, ins, outs)
            return
    _add_up_gradients(writer, form, shape, ins, outs)


def _ends(shape: tuple[int, ...], part: tuple[int, ...]) -> bool:
    """Whether a part is the last dimensions of a shape, as it is of what is repeated row by row."""
    kept = part[next((i for i, d in enumerate(part) if d != 1), len(part)) :]
    return kept == shape[len(shape) - len(kept) :]


def _add_up_gradients(writer: TapeWriter, form: Lowered, shape: tuple[int, ...], ins: Arrays, outs: Arrays) -> None:
    """The gradients of what was broadcast otherwise than by rows: made in full, or there already, then added up."""
    from workbench.executors.tape.sums import add_up

    wide, sums = list(outs), []
    for k, out in enumerate(outs):
        if out is None or out.shape == shape:
            continue
        require_plain(out)
        there = _passed_on(form, k, shape, ins, outs)
        wide[k] = writer.temporary(shape) if there is None else None
        sums.append((wide[k] if there is None else there, out))
    require(bool(sums))
    if any(out is not None for out in wide):
        writer.vector(form.only(tuple(out is not None for out in wide)), shape, ins, wide)
    for source, out in sums:
        add_up(writer, source, out)


def _passed_on(form: Lowered, k: int, shape: tuple[int, ...], ins: Arrays, outs: Arrays) -> np.ndarray | None:
    """The input a result is, if it still is when the other results have been written."""
    number = form.results[k]
    if number is None or number >= len(ins) or ins[number].shape != shape:
        return None
    found: np.ndarray = ins[number]
    others = [out for out, r in zip(outs, form.results, strict=True) if out is not None and r != number]
    kept = not any(np.may_share_memory(found, out) for out in others)
    return found if kept and found.dtype == FLOAT and found.flags.c_contiguous else None


def view(writer: TapeWriter, row: Row) -> None:
    """An op that only looks at its input differently: nothing to do, or a copy of what it looks at."""
    node = row.node
    outs, ins = operands(writer, row)
    (out,) = [o for o in outs if o is not None]
    source = ins[shown_input(node.record)]
    if (source.size == out.size and np.may_share_memory(source, out)) or not out.size:
        return
    if node.record.view is not None and node.record.view.keeps_order and out.flags.c_contiguous:
        copy(writer, source, out.reshape(source.shape))
        return
    seen = node.record.forward(np, *ins, **call_attrs(node))
    seen = seen[0] if isinstance(seen, tuple) else seen
    require(isinstance(seen, np.ndarray), np.may_share_memory(seen, source))
    copy(writer, seen, out)


@native(FUSED_ELEMENTWISE)
def fused_elementwise(writer: TapeWriter, row: Row) -> None:
    ((outs,), (ins,)) = operands(writer, row)
    form = lower(row.node.attrs["results"], [a.dtype for a in ins])
    writer.vector(form, outs[0].shape, ins, outs)


@native(SCALE_LOSS_GRAD)
def scale_loss_grad(writer: TapeWriter, row: Row) -> None:
    (out,), _ = operands(writer, row)
    fill(writer, out, loss_factor(row.node, writer.context))


def loss_factor(node: Node, context: Context) -> float:
    """The coefficient of a loss gradient (B-10)."""
    strategy, ranks = node.attrs["strategy"], node.attrs["ranks"]
    return {"One": 1.0, "CoeffNumDevice": 1.0 / ranks, "WeightedBySamples": context.weights[node.place]}[strategy]


def fill(writer: TapeWriter, out: np.ndarray, number: float) -> None:
    """One number everywhere."""
    require(out.dtype == FLOAT)
    form = lower([Expr("constant", value=np.float32(number), dtype=FLOAT)], [])
    writer.vector(form, out.shape, [], [out])


def expression(writer: TapeWriter, body: Callable[..., Any], outs: Arrays, ins: Arrays) -> None:
    """`outs = body(*ins)`, a body of element-wise functions of expressions; shapes broadcast."""
    inputs = [None if a is None else Expr("input", value=i, dtype=a.dtype) for i, a in enumerate(ins)]
    made = body(*inputs)
    made = list(made) if isinstance(made, tuple) else [made]
    form = lower(made, [None if a is None else a.dtype for a in ins])
    writer.vector(form, outs[0].shape, ins, outs)


def copy(writer: TapeWriter, source: np.ndarray, out: np.ndarray) -> None:
    """Any strides to any strides."""
    require(source.dtype == FLOAT, out.dtype == FLOAT, source.shape == out.shape)
    strided = strided_copy(source, out) if out.size else None
    if strided is not None:
        writer.row(*strided)
    else:
        expression(writer, lambda x: x, [out], [source])
