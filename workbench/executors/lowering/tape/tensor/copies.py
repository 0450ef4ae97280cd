"""Constants, copies, joins and parts as rows of a tape: ops that only move numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.executors.lowering.tape.math.elementwise import elementwise
from workbench.executors.lowering.tape.math.sums import add_up
from workbench.executors.lowering.tape.math.whole import WHOLE, fill_whole
from workbench.executors.lowering.tape.registry import native
from workbench.executors.lowering.tape.rules import (
    FLOATS,
    copy,
    expression,
    fill,
    move,
    operands,
    repeat,
    require,
    require_dense,
    require_floating,
)
from workbench.executors.lowering.tape.tensor.rearranged import copy_bordered
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.plan import Row
from workbench.framework.values.dtype import HALVES
from workbench.framework.values.spec import normalize_axis
from workbench.ops.math.cast import CAST
from workbench.ops.tensor.assign import ASSIGN, DETACH
from workbench.ops.tensor.batch_like import FILL_BATCH_LIKE
from workbench.ops.tensor.creation import FILL_ANY_LIKE, FILL_CONSTANT
from workbench.ops.tensor.join import CONCAT, SPLIT, SPLIT_LIKE, STACK, UNSTACK
from workbench.ops.tensor.pad import CONSTANT, PAD, UNPAD
from workbench.ops.tensor.slicing import SLICE, SLICE_PUT, STRIDED_SLICE, sliced
from workbench.ops.tensor.tile import EXPAND, EXPAND_AS, TILE

Array = np.ndarray


def _require_floats(*arrays: Array) -> None:
    require_floating(*arrays)


def _require_alike(*arrays: Array) -> None:
    """All are of one dtype: they are only moved."""
    require(all(isinstance(a, np.ndarray) and a.dtype == arrays[0].dtype for a in arrays))


def _require_apart(out: Array, *sources: Array) -> None:
    """A result that is not written in one go lies where nothing it is made of is."""
    require(not any(np.may_share_memory(out, source) for source in sources))


# Constants and copies


@native(FILL_CONSTANT, FILL_ANY_LIKE, FILL_BATCH_LIKE)
def fill_constant(writer: TapeWriter, row: Row) -> None:
    (out,), _ = operands(writer, row)
    if out.dtype in WHOLE:
        fill_whole(writer, out, row.node.attrs["value"])
    else:
        fill(writer, out, row.node.attrs["value"])


@native(ASSIGN, DETACH)
def assign(writer: TapeWriter, row: Row) -> None:
    (out,), (x,) = operands(writer, row)
    if out.dtype in WHOLE:
        move(writer, x, out)
    else:
        copy(writer, x, out)


@native(CAST)
def cast(writer: TapeWriter, row: Row) -> None:
    """Of integers there is a kernel, floats and truth values are element-wise work."""
    (out,), (x,) = operands(writer, row)
    if out.dtype.char in HALVES and x.dtype != np.int64:
        expression(writer, lambda x: x.astype("float32"), [out], [x])
        return
    if x.dtype != np.int64 or out.dtype not in FLOATS:
        elementwise(writer, row)
        return
    require(x.flags.c_contiguous, out.flags.c_contiguous)
    writer.row("floats_of", x, out, x.size)


# Joins and parts


def _cut(whole: Array, sizes: Sequence[int], axis: int) -> list[Array]:
    """Views of consecutive parts along an axis."""
    ends = np.cumsum(sizes)
    return [whole[(slice(None),) * axis + (slice(end - n, end),)] for n, end in zip(sizes, ends, strict=True)]


def _join(writer: TapeWriter, parts: Sequence[Array | None], targets: Sequence[Array], out: Array) -> None:
    """Parts, zeros where one is missing, to the views of `out` they belong to."""
    given = [part for part in parts if part is not None]
    _require_alike(out, *given)
    _require_apart(out, *given)
    if len(given) < len(targets):
        fill(writer, out, 0.0)
    _copy_each(writer, parts, targets)


def _take_apart(writer: TapeWriter, parts: Sequence[Array], outs: Sequence[Array | None]) -> None:
    """Views of one array, each to where it is wanted."""
    wanted = [out for out in outs if out is not None]
    _require_alike(*parts, *wanted)
    for out in wanted:
        _require_apart(out, *parts)
    _copy_each(writer, parts, outs)


def _copy_each(writer: TapeWriter, sources: Sequence[Array | None], outs: Sequence[Array | None]) -> None:
    for source, out in zip(sources, outs, strict=True):
        if source is not None and out is not None and out.size:
            copy(writer, source, out)


def _lengths(arrays: Sequence[Array], axis: int) -> list[int]:
    return [a.shape[axis] for a in arrays]


def _entries(whole: Array, axis: int) -> list[Array]:
    """Views of the entries along an axis, also where an entry is one number."""
    entries = np.moveaxis(whole, axis, 0)
    return [entries[i, ...] for i in range(len(entries))]


def _axis(row: Row, whole: Array) -> int:
    return normalize_axis(row.node.attrs["axis"], whole.ndim)


@native(CONCAT, integers=True)
def concat(writer: TapeWriter, row: Row) -> None:
    (out,), (xs,) = operands(writer, row)
    axis = _axis(row, out)
    _join(writer, xs, _cut(out, _lengths(xs, axis), axis), out)


@native(CONCAT.backward)
def concat_grad(writer: TapeWriter, row: Row) -> None:
    (outs,), (likes, g) = operands(writer, row)
    require(g is not None)
    axis = _axis(row, g)
    _take_apart(writer, _cut(g, _lengths(likes, axis), axis), outs)


@native(SPLIT, SPLIT_LIKE, integers=True)
def split(writer: TapeWriter, row: Row) -> None:
    (outs,), (x, *_) = operands(writer, row)
    require(all(out is not None for out in outs))
    axis = _axis(row, x)
    _take_apart(writer, _cut(x, _lengths(outs, axis), axis), outs)


@native(SPLIT.backward)
def split_grad(writer: TapeWriter, row: Row) -> None:
    (out,), (_, parts) = operands(writer, row)
    require(all(part is not None for part in parts))
    axis = _axis(row, out)
    _join(writer, parts, _cut(out, _lengths(parts, axis), axis), out)


@native(STACK, integers=True)
def stack(writer: TapeWriter, row: Row) -> None:
    (out,), (xs,) = operands(writer, row)
    _join(writer, xs, _entries(out, _axis(row, out)), out)


@native(STACK.backward)
def stack_grad(writer: TapeWriter, row: Row) -> None:
    (outs,), (_, g) = operands(writer, row)
    require(g is not None)
    _take_apart(writer, _entries(g, _axis(row, g)), outs)


@native(UNSTACK, integers=True)
def unstack(writer: TapeWriter, row: Row) -> None:
    (outs,), (x,) = operands(writer, row)
    _take_apart(writer, _entries(x, _axis(row, x)), outs)


@native(UNSTACK.backward)
def unstack_grad(writer: TapeWriter, row: Row) -> None:
    (out,), (_, parts) = operands(writer, row)
    _join(writer, parts, _entries(out, _axis(row, out)), out)


# Slices and borders: their inputs are views, their adjoints put something into zeros


@native(SLICE.backward, STRIDED_SLICE.backward, SLICE_PUT)
def put_slice(writer: TapeWriter, row: Row) -> None:
    (out,), ins = operands(writer, row)
    x = ins[0] if row.node.record is SLICE_PUT else ins[1]
    require(x is not None)
    place = sliced(out, **row.node.attrs)
    _require_floats(x, out)
    require(x.flags.c_contiguous)
    _put(writer, x.reshape(place.shape), place, out, 0.0)


@native(SLICE_PUT.backward)
def slice_put_grad(writer: TapeWriter, row: Row) -> None:
    (out,), (_, _, g) = operands(writer, row)
    require(g is not None, out.flags.c_contiguous)
    _require_floats(g, out)
    part = sliced(g, **row.node.attrs)
    copy(writer, part, out.reshape(part.shape))


def _put(writer: TapeWriter, x: Array, place: Array, out: Array, around: float) -> None:
    """`x` to a view of `out`, one number all around."""
    _require_floats(x, out)
    _require_apart(out, x)
    if place.size < out.size:
        fill(writer, out, around)
    _copy_each(writer, [x], [place])


def _inside(row: Row, padded: Array) -> Array:
    """The part of a padded array that is no border; a view even of an array without dimensions."""
    paddings = row.node.attrs["paddings"]
    require(row.node.attrs["mode"] == CONSTANT)
    widths = zip(padded.shape, paddings[::2], paddings[1::2], strict=True)
    part: Any = (*(slice(before, size - after) for size, before, after in widths), ...)
    return padded[part]


@native(PAD)
def pad(writer: TapeWriter, row: Row) -> None:
    (out,), (x,) = operands(writer, row)
    if row.node.attrs["mode"] != CONSTANT:
        copy_bordered(writer, row, x, out)
        return
    _put(writer, x, _inside(row, out), out, row.node.attrs["value"])


@native(PAD.backward, UNPAD)
def unpad(writer: TapeWriter, row: Row) -> None:
    (out,), (*_, g) = operands(writer, row)
    require(g is not None)
    _take_apart(writer, [_inside(row, g)], [out])


@native(UNPAD.backward)
def unpad_grad(writer: TapeWriter, row: Row) -> None:
    (out,), (_, g) = operands(writer, row)
    require(g is not None)
    _put(writer, g, _inside(row, out), out, 0.0)


# Repetitions


@native(EXPAND, EXPAND_AS, integers=True)
def expand(writer: TapeWriter, row: Row) -> None:
    (out,), (x, *_) = operands(writer, row)
    repeat(writer, x, out)


@native(EXPAND.backward, EXPAND_AS.backward)
def expand_grad(writer: TapeWriter, row: Row) -> None:
    (out,), (*_, g) = operands(writer, row)
    require(g is not None)
    add_up(writer, g, out)


def _by_copies(row: Row, x: Array) -> tuple[list[int], list[int]]:
    """Sizes of a repeated array with the copies as axes of their own, and of what is repeated in those dimensions."""
    times = row.node.attrs["repeat_times"]
    rank = max(x.ndim, len(times))
    dims, times = (1,) * (rank - x.ndim) + x.shape, [1] * (rank - len(times)) + list(times)
    pairs = list(zip(times, dims, strict=True))
    return [n for pair in pairs for n in pair], [n for _, dim in pairs for n in (1, dim)]


@native(TILE, integers=True)
def tile(writer: TapeWriter, row: Row) -> None:
    (out,), (x,) = operands(writer, row)
    require(x.flags.c_contiguous, out.flags.c_contiguous)
    many, once = _by_copies(row, x)
    repeat(writer, x.reshape(once), out.reshape(many))


@native(TILE.backward)
def tile_grad(writer: TapeWriter, row: Row) -> None:
    (out,), (x, g) = operands(writer, row)
    require(g is not None)
    many, once = _by_copies(row, x)
    require_dense(g, out)
    add_up(writer, g.reshape(many), out.reshape(once))
