"""Sums, means, extremes and norms as rows of a tape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.executors.lowering.tape.registry import native
from workbench.executors.lowering.tape.rows import write_op
from workbench.executors.lowering.tape.rules import (
    FLOAT,
    computed_in,
    copy,
    expression,
    operands,
    require,
    require_dense,
    require_floating,
    require_integers,
)
from workbench.executors.lowering.tape.sparse import SparseOperand, in_two_parts, join, memories, merge, merged_into
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.plan import Row
from workbench.framework.expr.expr import Recording
from workbench.framework.values.spec import groups_of, merged_groups, normalize_axis
from workbench.ops.math.reductions.accumulate import SUM
from workbench.ops.math.reductions.extreme import ARG_MAX, ARG_MIN
from workbench.ops.math.reductions.like import BROADCAST_TO_LIKE, REDUCE_TO_LIKE
from workbench.ops.math.reductions.reduce import MEAN, REDUCE_MEAN, REDUCE_SUM, reduced_axes
from workbench.ops.update.gradient_clip import clip_by_norm, clip_factor, squared_l2_norm, through_squared_norm

LONG = 256  # floats of a row


def add_up(writer: TapeWriter, source: np.ndarray, out: np.ndarray) -> None:
    """The sum of an array over what the shape of `out`, which broadcasts to its own, lacks or has with size 1."""
    require_dense(source, out)
    kept = (1,) * (source.ndim - out.ndim) + out.shape
    require(len(kept) == source.ndim, all(k in (1, d) for k, d in zip(kept, source.shape, strict=True)))
    sum_axes(writer, source, [a for a, k in enumerate(kept) if k != source.shape[a]], out)


def sum_axes(writer: TapeWriter, source: np.ndarray, axes: Sequence[int], out: np.ndarray) -> None:
    """The sum over some axes.

    Neighbouring axes are one. Of several left the last goes first if it is long, else the first: long rows are summed
    as fast as they are read, short ones had better be few.
    """
    require_dense(source, out)
    groups = groups_of(source.shape, axes)
    require(out.size == math.prod(n for n, is_summed in groups if not is_summed))
    while any(is_summed for _, is_summed in groups):
        summed = [i for i, (_, is_summed) in enumerate(groups) if is_summed]
        at = summed[-1] if groups[summed[-1]][0] >= LONG else summed[0]
        outer, rows = math.prod(n for n, _ in groups[:at]), groups[at][0]
        inner = math.prod(n for n, _ in groups[at + 1 :])
        groups = merged_groups([*groups[:at], *groups[at + 1 :]])
        last = not any(is_summed for _, is_summed in groups)
        target = out if last else writer.temporary((outer * inner,), out.dtype)
        lines = source.reshape(outer, rows, inner)
        write_op(writer, REDUCE_SUM, [target.reshape(-1)], [lines], {**REDUCE_SUM.attrs, "dim": (1,)})
        source = target
    if source is not out:
        expression(writer, lambda x: x, [out], [source.reshape(out.shape)])


def _divided(writer: TapeWriter, x: np.ndarray, out: np.ndarray, count: int) -> None:
    """x / count, repeated to the shape of `out`."""
    if type(count) is not int:  # one that depends on sizes nobody knows yet
        dtype = computed_in(x.dtype)
        expression(writer, lambda x, n: x / n, [out], [x, writer.tape.number(count, dtype)])
        return
    expression(writer, lambda x: x if count == 1 else x / float(count), [out], [x])


def seen_along(reduced: np.ndarray, shape: Sequence[int], axes: Sequence[int]) -> np.ndarray:
    """What a reduction of an array of `shape` gave, in a shape that broadcasts against it."""
    require(reduced.flags.c_contiguous)
    return reduced.reshape(tuple(1 if a in axes else d for a, d in enumerate(shape)))


# Reductions


def _axes(row: Row, rank: int) -> tuple[int, ...]:
    """The axes an op reduces; those without attributes reduce all."""
    attrs = row.node.attrs
    return reduced_axes(rank, attrs.get("dim", ()), attrs.get("reduce_all", True))


@native(REDUCE_SUM.backward, REDUCE_MEAN.backward, MEAN.backward)
def reduce_grad(writer: TapeWriter, row: Row) -> None:
    (out,), (x, g) = operands(writer, row)
    require(g is not None)
    require_floating(g, out)
    axes = _axes(row, x.ndim)
    is_sum = row.node.record is REDUCE_SUM.backward
    _divided(writer, seen_along(g, out.shape, axes), out, 1 if is_sum else math.prod(out.shape[a] for a in axes))


@native(REDUCE_TO_LIKE, BROADCAST_TO_LIKE.backward)
def reduce_to_like(writer: TapeWriter, row: Row) -> None:
    """A gradient row has what is reduced as its last operand, as it needs the shape of the others alone."""
    (out,), (x, *_, g) = operands(writer, row)
    x = x if row.node.record is REDUCE_TO_LIKE else g
    require(x is not None)
    add_up(writer, x, out)


@native(BROADCAST_TO_LIKE, REDUCE_TO_LIKE.backward)
def broadcast_to_like(writer: TapeWriter, row: Row) -> None:
    (out,), (x, *_, g) = operands(writer, row)
    x = x if row.node.record is BROADCAST_TO_LIKE else g
    require(x is not None)
    _divided(writer, x, out, 1)


def with_last(writer: TapeWriter, x: np.ndarray, axes: Sequence[int]) -> np.ndarray:
    """An array with some axes as its last ones, row by row in memory."""
    turned = x.transpose(*(a for a in range(x.ndim) if a not in axes), *axes)
    if turned.flags.c_contiguous:
        return turned
    beside = writer.temporary(turned.shape, x.dtype)
    copy(writer, turned, beside)
    return beside


@native(ARG_MAX, ARG_MIN, integers=True)
def arg_best(writer: TapeWriter, row: Row) -> None:
    """The least number is the one whose negative is the largest."""
    (out,), (x,) = operands(writer, row)
    require_dense(x)
    require_integers(out)
    if row.node.record is ARG_MIN:
        negative = writer.temporary(x.shape, x.dtype)
        expression(writer, lambda x: -x, [negative], [x])
        x = negative
    axes = range(x.ndim) if row.node.attrs["flatten"] else [normalize_axis(row.node.attrs["axis"], x.ndim)]
    x, most = with_last(writer, x, axes), writer.temporary((out.size,), x.dtype)
    writer.row("best_of_rows", x, most, out, out.size, x.size // out.size, 1)


# Lists and norms


@native(SUM, sparse=True)
def add_n(writer: TapeWriter, row: Row) -> None:
    """The terms in order."""
    (out,), (terms,) = operands(writer, row)
    if isinstance(out, SparseOperand):
        join(writer, terms, [out])
    elif any(isinstance(term, SparseOperand) for term in terms):
        _add_sparse(writer, terms, out)
    else:
        require_floating(out, *terms)
        expression(writer, _in_order, [out], terms)


def _in_order(first: Any, *rest: Any) -> Any:
    return sum(rest, first)


def _add_sparse(writer: TapeWriter, terms: Sequence[Any], out: np.ndarray) -> None:
    """The sum of tensors and of a sparse gradient."""
    at = [n for n, term in enumerate(terms) if isinstance(term, SparseOperand)]
    tables = [term for term in terms if not isinstance(term, SparseOperand)]
    require(len(at) == 1)
    require_dense(out, *tables)
    (rows,) = memories([terms[at[0]]])

    def compute(shape: tuple[int, ...], gradient: Any, others: Sequence[Any], outs: Sequence[np.ndarray]) -> None:
        expression(writer, _in_order, outs, [*others[: at[0]], gradient, *others[at[0] :]])

    in_two_parts(writer, rows, tables, [out], compute)


@native(SUM.backward)
def add_n_grad(writer: TapeWriter, row: Row) -> None:
    """The gradient of the sum is that of every term."""
    (outs,), (*_, g) = operands(writer, row)
    wanted = [out for out in outs if out is not None]
    require(g is not None)
    require_floating(g, *wanted)
    expression(writer, lambda g: (g,) * len(wanted), wanted, [g])


@native(squared_l2_norm, sparse=True)
def squared_norm(writer: TapeWriter, row: Row) -> None:
    (out,), (x,) = operands(writer, row)
    if isinstance(x, SparseOperand):
        (rows,) = memories([x])
        x = merge(writer, rows).values
    _squares(writer, x, out)


def _squares(writer: TapeWriter, x: np.ndarray, out: np.ndarray) -> None:
    """The sum of squares."""
    require_dense(x, out)
    if x.dtype == FLOAT:
        writer.row("sum_squares", x, out, x.size)
        return
    squares = writer.temporary((x.size,), x.dtype)
    expression(writer, lambda x: x * x, [squares], [x.reshape(-1)])
    sum_axes(writer, squares, [0], out.reshape(-1))


@native(squared_l2_norm.backward)
def squared_norm_grad(writer: TapeWriter, row: Row) -> None:
    (out,), (x, g) = operands(writer, row)
    require(g is not None)
    expression(writer, through_squared_norm, [out], [g, x])


@native(clip_by_norm, sparse=True)
def clip_by_norm_row(writer: TapeWriter, row: Row) -> None:
    """x limit / max(norm, limit)."""
    (out,), (x,) = operands(writer, row)
    if isinstance(x, SparseOperand):
        x = out = merged_into(writer, x, out).values
    require_dense(x, out)
    limit = x.dtype.type(row.node.attrs["max_norm"])
    square, factor = writer.temporary((1,), x.dtype), writer.temporary((1,), x.dtype)
    _squares(writer, x, square)
    expression(writer, lambda s: clip_factor(Recording, s, limit), [factor], [square])
    expression(writer, lambda x, f: x * f, [out.reshape(-1)], [x.reshape(-1), factor])
