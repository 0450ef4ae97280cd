"""Updates and collectives as rows of a tape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.executors.lowering.numpy.lower_collectives import as_one, prepared
from workbench.executors.lowering.numpy.lower_updates import flat_operands, member_operands, summands, updates_one_copy
from workbench.executors.lowering.tape.registry import ANY_UPDATE, native
from workbench.executors.lowering.tape.rules import FLOATS, expression, move, operands, require, require_dense
from workbench.executors.lowering.tape.sparse import SparseOperand, in_two_parts, join, memories
from workbench.executors.lowering.tape.vector_code import Unsuitable
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.plan import Row
from workbench.framework.expr.expr import Expr
from workbench.framework.expr.lowered import Lowered, lower
from workbench.framework.op.record import UpdateBody, find_op
from workbench.graph.ssa import ALL_REDUCE, BROADCAST, FUSED_ALL_REDUCE, FUSED_UPDATE, REDUCE, Node, update_of
from workbench.ops.update.traced_formula import Split, traced
from workbench.runtime.comm.request import sum_order
from workbench.runtime.native.tape import address

_REQUIRE_EQUAL = {4: "require_equal", 8: "require_equal_words"}  # by the bytes of a number


@native(ANY_UPDATE, sparse=True)
def update(writer: TapeWriter, row: Row) -> None:
    """One parameter."""
    outs, ins = operands(writer, row)
    body = update_of(row.node)
    if isinstance(ins[1], SparseOperand):
        _update_rows(writer, body, row.node.attrs, outs, ins)
    else:
        write_update(writer, body, row.node.attrs, [outs], ins)


def _update_rows(
    writer: TapeWriter, body: UpdateBody, attrs: dict[str, Any], outs: Sequence[Any], ins: Sequence[Any]
) -> None:  # fmt: skip
    """A table of which some rows have a gradient."""
    count = len(ins) - len(body.betas)
    tables, results = [ins[0], *ins[3:count]], outs[: len(outs) - len(body.betas)]
    scalars = [a.reshape(()) for a in (ins[2], *ins[count:])]
    touched_only = body.touched_only(**attrs)
    changed = [(table, out) for table, out in zip(tables, results, strict=True) if out is not None]
    require(all(a is None or (isinstance(a, np.ndarray) and a.dtype == ins[1].dtype) for a in tables))
    require(all(a.dtype in FLOATS for a in scalars))
    require_dense(*(array for pair in changed for array in pair))
    require(not touched_only or all(address(table) == address(out) for table, out in changed))
    (rows,) = memories([ins[1]])
    like = [tables[0], rows.values, *tables[1:]]
    formulas = [
        r for r, out in zip(traced(body.formula, like, scalars, attrs), results, strict=False) if out is not None
    ]
    split = Split(len(like), len(like + scalars))
    remaining = [split.uniform(formula) for formula in formulas]
    numbers = _computed_once(writer, split, [*like, *scalars])

    def compute(shape: tuple[int, ...], gradient: Any, held: Sequence[Any], outs: Sequence[np.ndarray]) -> None:
        given = [held[0], gradient, *held[1:], *scalars, *numbers]
        writer.vector(lower(remaining, [None if a is None else a.dtype for a in given]), shape, given, outs)

    in_two_parts(writer, rows, tables, [out for _, out in changed], compute, touched_only)
    _move_powers(writer, body.betas, attrs, ins[count:], outs[len(results) :])


def _computed_once(writer: TapeWriter, split: Split, given: Sequence[Any]) -> list[np.ndarray]:
    """The numbers that depend on rate and powers alone."""
    if not split.expressions:
        return []
    form = lower(split.expressions, [None if a is None else a.dtype for a in given])
    numbers = [writer.temporary((), form.dtype_of(result)) for result in form.results if result is not None]
    writer.vector(form, (), given, numbers)
    return numbers


def _move_powers(
    writer: TapeWriter, betas: Sequence[str], attrs: dict[str, Any], powers: Sequence[Any], outs: Sequence[Any]
) -> None:  # fmt: skip
    """The powers of beta for the next step."""
    for out, power, beta in zip(outs, powers, betas, strict=True):
        if out is not None:
            expression(writer, lambda x, number=attrs[beta]: x * number, [out], [power])


def write_update(
    writer: TapeWriter, body: UpdateBody, attrs: dict[str, Any], outs: Sequence[Sequence[Any]], ins: Sequence[Any],
    powers: Sequence[np.ndarray] | None = None, summands: Sequence[np.ndarray] = (),
) -> None:  # fmt: skip
    """The formula of an update on arrays; what depends on rate and powers alone is computed once.

    Args:
        outs: of every copy that gets the results.
        powers: what is multiplied by the betas in the end, where that is not the arrays in `ins`.
        summands: what is added to the gradient, one after the other.
    """
    count = len(ins) - len(body.betas)
    held = [ins[0], ins[1], *ins[3:count], *summands]
    scalars = [a.reshape(()) for a in (ins[2], *ins[count:])]
    require(all(a is None or (isinstance(a, np.ndarray) and a.dtype == held[0].dtype) for a in held))
    require(held[0].dtype in FLOATS, all(a.dtype in FLOATS for a in scalars))
    results = traced(body.formula, held, scalars, attrs, len(summands))
    wanted = [
        (r, out) for one in outs for r, out in zip(results, one, strict=False) if r is not None and out is not None
    ]
    split = Split(len(held), len(held + scalars))
    remaining = [split.uniform(r) for r, _ in wanted]
    given = [*held, *scalars]
    given += _computed_once(writer, split, given)
    form = lower(remaining, [None if a is None else a.dtype for a in given])
    writer.vector(form, held[0].shape, given, [out for _, out in wanted])
    new_powers = powers or outs[0][len(outs[0]) - len(body.betas) :]
    _move_powers(writer, body.betas, attrs, powers or ins[count:], new_powers)


@native(FUSED_UPDATE)
def fused_update(writer: TapeWriter, row: Row) -> None:
    """Many parameters: as one array where they lie together, with powers that do not agree left to NumPy; else one
    after the other."""
    node = row.node
    record, body = find_op(node.attrs["update"]), update_of(node)
    shards = writer.context.shards(node)
    if shards is None and flat_operands(node, record, writer.context) is None:
        for ins, outs in member_operands(node, writer.context):
            write_update(writer, body, node.attrs["attrs"], [outs], ins)
        return
    ins, outs, powers = _flat_operands(writer, node)
    if shards is not None:
        own = _shard(ins[0].size, shards.index(node), len(shards))
        if updates_one_copy(node, writer.context):
            everywhere = [outs]
        else:
            _require_one_rate(writer, shards)
            everywhere = [_flat_operands(writer, other)[1] for other in shards]
        outs_of_all = [[None if out is None else out[own] for out in outs] for outs in everywhere]
        count = len(ins) - len(body.betas)
        sharded = [a if a is None or k == 2 or k >= count else a[own] for k, a in enumerate(ins)]
        others: list[np.ndarray] = []
        if writer.context.reduces_in_update(node):
            sharded[1], *others = (a[own] for a in summands(node, writer.context))
        write_update(writer, body, node.attrs["attrs"], outs_of_all, sharded, powers, others)
        return
    require(all(p.dtype in FLOATS for p in powers))
    for p in powers:
        writer.row(_REQUIRE_EQUAL[p.itemsize], p, p, p.size, p.strides[0] // p.itemsize if p.size > 1 else 1)
    write_update(writer, body, node.attrs["attrs"], [outs], ins, powers)


def _require_one_rate(writer: TapeWriter, shards: Sequence[Node]) -> None:
    """Where devices have rates of their own, each of them does its whole update (X-19): all see the same."""
    first, *others = [_flat_operands(writer, shard)[0][2] for shard in shards]
    require(first.dtype in FLOATS)
    for rate in others:
        writer.row(_REQUIRE_EQUAL[rate.itemsize], first, rate, 1, 1)


def _flat_operands(writer: TapeWriter, node: Node) -> tuple[list[Any], list[Any], list[np.ndarray]]:
    flat = flat_operands(node, find_op(node.attrs["update"]), writer.context)
    if flat is None:
        raise Unsuitable
    return flat


def _shard(size: int, index: int, count: int) -> slice:
    """One of several shards of about equal size, each beginning at a cache line."""
    ends = [size * k // count // 16 * 16 for k in range(count)] + [size]
    require(size >= 16 * count)
    return slice(ends[index], ends[index + 1])


@native(ALL_REDUCE, FUSED_ALL_REDUCE)
def all_reduce(writer: TapeWriter, row: Row) -> None:
    """Sums over the devices, in device order, to all of them; nothing where updates take them."""
    context, node = writer.context, row.node
    if context.reduces_in_update(node):
        return
    if not context.comm.computes_here:
        _sum_over_processes(writer, row)
        return
    whole = as_one(row, context) if node.type == FUSED_ALL_REDUCE else None
    members = [whole[:2]] if whole is not None else [
        ([context.array(v) for v in contributions], [context.array(v) for v in results])
        for contributions, results in zip(node.inputs, node.outputs, strict=True)
    ]  # fmt: skip
    for ins, outs in members:
        require_dense(*ins, *outs)
    for number, (ins, outs) in enumerate(members):
        try:
            writer.vector(_sum_of(ins, len(outs)), ins[0].shape, ins, outs)
        except Unsuitable:
            assert number == 0, "members of one collective have one shape"
            raise


def _sum_of(parts: Sequence[np.ndarray], copies: int) -> Lowered:
    """The sum of arrays in order, so many times."""
    dtypes = [part.dtype for part in parts]
    first, *others = [Expr("input", value=i, dtype=dtype) for i, dtype in enumerate(dtypes)]
    total: Any = first
    for term in others:
        total = total + term
    return lower([total] * copies, dtypes)


@native(REDUCE, sparse=True)
def reduce(writer: TapeWriter, row: Row) -> None:
    """The sum over the devices, to one of them; of sparse gradients all their rows, in device order."""
    node, context = row.node, writer.context
    require(context.comm.computes_here)
    (results,), (parts,) = operands(writer, row)
    if isinstance(parts[0], SparseOperand):
        join(writer, parts, results)
        return
    require_dense(*parts, *results)
    order = sum_order(len(parts), node.attrs["root"])
    writer.vector(_sum_of([parts[i] for i in order], 1), parts[0].shape, [parts[i] for i in order], results)


@native(BROADCAST, sparse=True)
def broadcast(writer: TapeWriter, row: Row) -> None:
    """What one device has, for the others."""
    require(writer.context.comm.computes_here)
    (results,), ((part,),) = operands(writer, row)
    if isinstance(part, SparseOperand):
        (rows,) = memories([part], results)
        for result in results:
            result.show(rows)
        return
    for result in results:
        move(writer, part, result)


def _sum_over_processes(writer: TapeWriter, row: Row) -> None:
    """A row is one collective: should Python have to go on with it, it is known where."""
    collectives = prepared(row, writer.context)
    sum_row = collectives[0].in_kernels()
    if len(collectives) > 1 or sum_row is None:
        raise Unsuitable
    writer.exchange(row, sum_row)
