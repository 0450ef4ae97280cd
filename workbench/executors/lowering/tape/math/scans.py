"""Running sums, products and extremes, products of two rows, and truth values reduced, as rows of a tape."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.executors.lowering.tape.math.sums import add_up
from workbench.executors.lowering.tape.registry import native
from workbench.executors.lowering.tape.rows import groups_of
from workbench.executors.lowering.tape.rules import (
    INTEGER,
    dense,
    expression,
    operands,
    require,
    require_dense,
    require_integers,
    require_plain,
    sizes_along,
)
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.plan import Row
from workbench.ops.math.products.matmul import DOT
from workbench.ops.math.reductions.cumulative import CUMMAX, CUMMIN, CUMPROD, CUMSUM
from workbench.ops.math.reductions.folds import REDUCE_ALL, REDUCE_ANY
from workbench.ops.math.reductions.reduce import reduced_axes

Array = np.ndarray


def _running_sum(writer: TapeWriter, x: Array, out: Array, attrs: dict[str, Any], reverse: bool) -> None:
    sizes, x = sizes_along(x, attrs["axis"]), dense(writer, x)
    if x.dtype == INTEGER:
        require_integers(x, out)
        kernel = "running_whole_sum"
    else:
        require_plain(x, out)
        kernel = "running_sum"
    totals = writer.temporary(sizes[2:], x.dtype)
    writer.row(kernel, x, out, totals, *sizes, int(attrs["exclusive"]), int(reverse))


@native(CUMSUM, integers=True)
def cumsum(writer: TapeWriter, row: Row) -> None:
    (out,), (x,) = operands(writer, row)
    _running_sum(writer, x, out, row.node.attrs, row.node.attrs["reverse"])


@native(CUMSUM.backward)
def cumsum_grad(writer: TapeWriter, row: Row) -> None:
    """The same from the other end."""
    (out,), (_, g) = operands(writer, row)
    require(g is not None)
    _running_sum(writer, g, out, row.node.attrs, not row.node.attrs["reverse"])


@native(CUMPROD)
def cumprod(writer: TapeWriter, row: Row) -> None:
    (out,), (x,) = operands(writer, row)
    x = dense(writer, x)
    require_plain(x, out)
    writer.row("running_product", x, out, *sizes_along(x, row.node.attrs["axis"]))


@native(CUMMAX, CUMMIN, integers=True)
def running_best(writer: TapeWriter, row: Row) -> None:
    (out, places), (x,) = operands(writer, row)
    out = writer.temporary(x.shape) if out is None else out
    places = writer.temporary(x.shape, INTEGER) if places is None else places
    x = dense(writer, x)
    require_plain(x, out)
    require_integers(places)
    is_least = int(row.node.record is CUMMIN)
    writer.row("running_best", x, out, places, *sizes_along(x, row.node.attrs["axis"]), is_least)


@native(REDUCE_ALL, REDUCE_ANY)
def all_or_any(writer: TapeWriter, row: Row) -> None:
    """Over neighbouring axes."""
    (out,), (x,) = operands(writer, row)
    attrs = row.node.attrs
    require(x.flags.c_contiguous, out.flags.c_contiguous, x.size > 0)
    groups = groups_of(x.shape, reduced_axes(x.ndim, attrs["dim"], attrs["reduce_all"]))
    at = [i for i, (_, is_reduced) in enumerate(groups) if is_reduced]
    require(len(at) <= 1)
    outer, n, inner = out.size, 1, 1
    if at:
        outer = int(np.prod([size for size, _ in groups[: at[0]]], dtype=np.int64))
        n, inner = groups[at[0]][0], out.size // outer
    writer.row("all_or_any", x, out, outer, n, inner, int(row.node.record is REDUCE_ANY))


@native(DOT)
def dot(writer: TapeWriter, row: Row) -> None:
    (out,), (x, y) = operands(writer, row)
    require_dense(out)
    products = writer.temporary(x.shape, out.dtype)
    expression(writer, lambda x, y: x * y, [products], [x, y])
    add_up(writer, products, out.reshape((*x.shape[:-1], 1)))


@native(DOT.backward)
def dot_grad(writer: TapeWriter, row: Row) -> None:
    (of_x, of_y), (x, y, g) = operands(writer, row)
    require(g is not None)
    require_dense(g)
    g = g.reshape((*x.shape[:-1], 1))
    for out, other in ((of_x, y), (of_y, x)):
        if out is not None:
            expression(writer, lambda g, other: g * other, [out], [g, other])
