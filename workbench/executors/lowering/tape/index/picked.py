"""Entries that integers name one by one, or by several coordinates, as rows of a tape: picked, put, added.

What is only moved may be of any dtype of 4 or 8 bytes; what is added is float32 or float64. Indices of int32 are made
int64.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.executors.lowering.tape.index.labels import take, unit_of
from workbench.executors.lowering.tape.math.sums import add_up
from workbench.executors.lowering.tape.registry import native
from workbench.executors.lowering.tape.rules import (
    FLOATS,
    INTEGER,
    as_int64,
    copy,
    expression,
    move,
    operands,
    require,
    require_dense,
)
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.plan import Row
from workbench.executors.planning.sizes.unknowns import Unsettled
from workbench.framework.values.spec import sizes_along
from workbench.ops.index.along_axis import PUT_ALONG_AXIS, is_whole, sizes_named
from workbench.ops.index.coordinates import GATHER_ND, SCATTER_ND_ADD
from workbench.ops.index.gather import INDEX_ADD
from workbench.ops.index.put import PUT_AT
from workbench.ops.index.scatter import SCATTER

Array = np.ndarray


def _copied(writer: TapeWriter, x: Array, out: Array) -> None:
    """What is changed in place from here on."""
    if x.dtype in FLOATS:
        copy(writer, x, out)
    else:
        move(writer, x, out)


def _cleared(writer: TapeWriter, out: Array) -> None:
    unit_of(out)
    writer.row("clear_bytes", out, out.nbytes)


# Rows


def _add_rows(writer: TapeWriter, x: Array, ids: Array, out: Array, axis: int = 0) -> None:
    require_dense(x, out)
    outer, height, width = sizes_along(out.shape, axis)
    writer.row("add_rows_at", x, as_int64(writer, ids), out, outer, height, ids.size, width)


def _clear_rows(writer: TapeWriter, ids: Array, out: Array) -> None:
    _, height, width = sizes_along(out.shape, 0)
    width *= unit_of(out)
    writer.row("clear_rows_at", as_int64(writer, ids), out, 1, height, ids.size, width)


@native(SCATTER, integers=True)
def scatter(writer: TapeWriter, row: Row) -> None:
    (out,), (x, ids, updates) = operands(writer, row)
    unit = unit_of(out, updates)
    _copied(writer, x, out)
    if row.node.attrs["overwrite"]:
        _, height, width = sizes_along(out.shape, 0)
        writer.row("put_rows_at", updates, as_int64(writer, ids), out, 1, height, ids.size, unit * width)
        return
    _clear_rows(writer, ids, out)
    _add_rows(writer, updates, ids, out)


@native(SCATTER.backward)
def scatter_grad(writer: TapeWriter, row: Row) -> None:
    (of_x, of_updates), (_, ids, _, g) = operands(writer, row)
    require(g is not None)
    if of_x is not None:
        copy(writer, g, of_x)
        _clear_rows(writer, ids, of_x)
    if of_updates is not None:
        take(writer, g, ids, of_updates)


@native(INDEX_ADD)
def index_add(writer: TapeWriter, row: Row) -> None:
    (out,), (x, ids, value) = operands(writer, row)
    require_dense(out)
    copy(writer, x, out)
    _add_rows(writer, value, ids, out, row.node.attrs["axis"])


@native(INDEX_ADD.backward)
def index_add_grad(writer: TapeWriter, row: Row) -> None:
    (of_x, of_value), (_, ids, _, g) = operands(writer, row)
    require(g is not None)
    if of_x is not None:
        copy(writer, g, of_x)
    if of_value is not None:
        take(writer, g, ids, of_value, row.node.attrs["axis"])


# Coordinates


def _by_number(writer: TapeWriter, x: Array, index: Array) -> tuple[Array, Array]:
    """An array seen as one of entries, and the numbers of those that coordinates name."""
    depth = index.shape[-1]
    require(x.flags.c_contiguous, depth > 0)
    if not all(type(size) is int for size in x.shape):
        raise Unsettled("how many entries there are along each dimension has to be known")
    sizes = writer.tape.keep(np.array(x.shape[:depth], np.int64))
    numbers = writer.temporary(index.shape[:-1], INTEGER)
    writer.row("number_entries", as_int64(writer, index), sizes, numbers, numbers.size, depth)
    return x.reshape(math.prod(x.shape[:depth]), -1), numbers


@native(GATHER_ND, integers=True)
def gather_nd(writer: TapeWriter, row: Row) -> None:
    (out,), (x, index) = operands(writer, row)
    take(writer, *_by_number(writer, x, index), out)


@native(GATHER_ND.backward)
def gather_nd_grad(writer: TapeWriter, row: Row) -> None:
    (out,), (_, index, g) = operands(writer, row)
    require(g is not None)
    require_dense(out)
    _cleared(writer, out)
    entries, numbers = _by_number(writer, out, index)
    _add_rows(writer, g, numbers, entries)


@native(SCATTER_ND_ADD)
def scatter_nd_add(writer: TapeWriter, row: Row) -> None:
    (out,), (x, index, updates) = operands(writer, row)
    require_dense(out)
    copy(writer, x, out)
    entries, numbers = _by_number(writer, out, index)
    _add_rows(writer, updates, numbers, entries)


@native(SCATTER_ND_ADD.backward)
def scatter_nd_add_grad(writer: TapeWriter, row: Row) -> None:
    (of_x, of_updates), (_, index, _, g) = operands(writer, row)
    require(g is not None)
    if of_x is not None:
        copy(writer, g, of_x)
    if of_updates is not None:
        take(writer, *_by_number(writer, g, index), of_updates)


# One index per entry


def _along(x: Array, index: Array, axis: int) -> tuple[Any, ...]:
    require(is_whole(x, index, axis))
    return sizes_named(x, index, axis)


def _take(writer: TapeWriter, x: Array, index: Array, out: Array, axis: int) -> None:
    unit, sizes = unit_of(x, out), _along(x, index, axis)
    writer.row("take_along", x, as_int64(writer, index), out, *sizes, unit)


def put(writer: TapeWriter, x: Array, index: Array, out: Array, axis: int) -> None:
    """Entries to where an index names them in `out`, which has the others already."""
    unit, sizes = unit_of(x, out), _along(out, index, axis)
    writer.row("put_along", x, as_int64(writer, index), out, *sizes, unit, 0)


def _add(writer: TapeWriter, x: Array, index: Array, out: Array, axis: int) -> None:
    require_dense(x, out)
    sizes = _along(out, index, axis)
    writer.row("add_along", x, as_int64(writer, index), out, *sizes, 0)


@native(PUT_ALONG_AXIS, integers=True)
def put_along_axis(writer: TapeWriter, row: Row) -> None:
    (out,), (x, index, value) = operands(writer, row)
    attrs = row.node.attrs
    _copied(writer, x, out)
    if attrs["reduce"] == "add":
        _add(writer, value, index, out, attrs["axis"])
    else:
        put(writer, value, index, out, attrs["axis"])


@native(PUT_ALONG_AXIS.backward)
def put_along_axis_grad(writer: TapeWriter, row: Row) -> None:
    (of_x, of_value), (_, index, _, g) = operands(writer, row)
    attrs = row.node.attrs
    require(g is not None)
    if of_x is not None:
        copy(writer, g, of_x)
        if attrs["reduce"] != "add":
            zeros = writer.temporary(index.shape, of_x.dtype)
            _cleared(writer, zeros)
            put(writer, zeros, index, of_x, attrs["axis"])
    if of_value is not None:
        _take(writer, g, index, of_value, attrs["axis"])


# Positions in row-major order, as `x[...] = values` has them


@native(PUT_AT, integers=True)
def put_at(writer: TapeWriter, row: Row) -> None:
    (out,), (x, positions, values) = operands(writer, row)
    if values.shape != positions.shape and values.size != positions.size:
        require(values.dtype in FLOATS)
        repeated = writer.temporary(positions.shape, values.dtype)
        expression(writer, lambda x: x, [repeated], [values])
        values = repeated
    unit_of(out, values)
    require(positions.flags.c_contiguous)
    _copied(writer, x, out)
    put(writer, values.reshape(-1), positions.reshape(-1), out.reshape(-1), 0)


@native(PUT_AT.backward)
def put_at_grad(writer: TapeWriter, row: Row) -> None:
    (of_x, of_values), (_, positions, _, g) = operands(writer, row)
    require(g is not None and g.flags.c_contiguous, positions.flags.c_contiguous)
    if of_x is not None:
        unit_of(of_x)
        copy(writer, g, of_x)
        _clear_rows(writer, positions.reshape(-1), of_x.reshape(-1, 1))
    if of_values is not None:
        is_whole = of_values.size == positions.size
        parts = of_values if is_whole else writer.temporary(positions.shape, g.dtype)
        take(writer, g.reshape(-1, 1), positions, parts)
        if not is_whole:
            add_up(writer, parts, of_values)
