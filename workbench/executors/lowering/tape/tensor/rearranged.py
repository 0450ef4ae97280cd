"""Tensors whose parts come to lie elsewhere: reversed, rolled, continued at their borders, cut to triangles.

Parts are views of what is copied and of where it goes, so that every number keeps its bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from workbench.executors.lowering.tape.registry import native
from workbench.executors.lowering.tape.rules import copy, expression, operands, require, require_floating
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.plan import Row
from workbench.executors.planning.sizes.unknowns import Unsettled
from workbench.framework.expr.expr import Recording
from workbench.framework.values.spec import normalize_axis
from workbench.ops.tensor.pad import CIRCULAR, REFLECT
from workbench.ops.tensor.tile import FLIP, ROLL
from workbench.ops.tensor.triangles import TRIL_TRIU

Array = np.ndarray
Piece = tuple[slice, slice]  # of one dimension: where something comes from, and where it goes

_WHOLE: Piece = slice(None), slice(None)
_MOST = 27  # pieces: three in each of three dimensions


def copy_pieces(writer: TapeWriter, x: Array, out: Array, pieces: Sequence[Sequence[Piece]]) -> None:
    """Copy every combination of the pieces of the dimensions; a source of one entry is repeated."""
    require_floating(x, out)
    require(out.size > 0, not np.may_share_memory(x, out))
    combinations = list(product(*pieces))
    require(len(combinations) <= _MOST)
    for combination in combinations:
        sources: tuple[Any, ...] = tuple(piece[0] for piece in combination)
        targets: tuple[Any, ...] = tuple(piece[1] for piece in combination)
        source, target = x[sources], out[targets]
        if source.shape == target.shape:
            copy(writer, source, target)
        else:
            expression(writer, lambda x: x, [target], [source])


def require_fixed(*arrays: Array) -> None:
    """The sizes are numbers: where pieces end depends on them.

    Raises:
        Unsettled: some are open; the row is written when they are known.
    """
    if not all(type(size) is int for a in arrays for size in a.shape):
        raise Unsettled("where the pieces of an array end has to be known")


def _moved(writer: TapeWriter, row: Row) -> tuple[Array, Array]:
    """What is moved, and where to: of a gradient row the last operand, as the ops need their input's shape alone."""
    (out,), (*_, x) = operands(writer, row)
    return x, out


@native(FLIP, FLIP.backward)
def flip(writer: TapeWriter, row: Row) -> None:
    x, out = _moved(writer, row)
    require_fixed(x, out)
    turned = {normalize_axis(axis, x.ndim) for axis in row.node.attrs["axis"]}
    backwards: Piece = slice(None, None, -1), slice(None)
    copy_pieces(writer, x, out, [[backwards if axis in turned else _WHOLE] for axis in range(x.ndim)])


@native(ROLL)
def roll(writer: TapeWriter, row: Row) -> None:
    _roll(writer, row, direction=1)


@native(ROLL.backward)
def roll_grad(writer: TapeWriter, row: Row) -> None:
    _roll(writer, row, direction=-1)


def _roll(writer: TapeWriter, row: Row, direction: int) -> None:
    x, out = _moved(writer, row)
    require_fixed(x, out)
    require(x.size > 0)
    shifts = [0] * x.ndim
    for shift, axis in zip(row.node.attrs["shifts"], row.node.attrs["axis"], strict=True):
        shifts[normalize_axis(axis, x.ndim)] += direction * shift
    copy_pieces(writer, x, out, [_rolled(size, shift) for size, shift in zip(x.shape, shifts, strict=True)])


def _rolled(size: int, shift: int) -> list[Piece]:
    first = shift % size
    if not first:
        return [_WHOLE]
    return [(slice(size - first, None), slice(first)), (slice(size - first), slice(first, None))]


def copy_bordered(writer: TapeWriter, row: Row, x: Array, out: Array) -> None:
    """A padded array whose border repeats what is inside."""
    require_fixed(x, out)
    require(x.size > 0)
    paddings, mode = row.node.attrs["paddings"], row.node.attrs["mode"]
    widths = zip(x.shape, paddings[::2], paddings[1::2], strict=True)
    copy_pieces(writer, x, out, [_bordered(size, before, after, mode) for size, before, after in widths])


def _bordered(size: int, before: int, after: int, mode: str) -> list[Piece]:
    end = before + size
    pieces: list[Piece] = [(slice(None), slice(before, end))]
    if before:
        pieces.append((_before(size, before, mode), slice(before)))
    if after:
        pieces.append((_behind(size, after, mode), slice(end, None)))
    return pieces


def _before(size: int, width: int, mode: str) -> slice:
    if mode == REFLECT:
        return slice(width, 0, -1)
    return slice(size - width, size) if mode == CIRCULAR else slice(1)


def _behind(size: int, width: int, mode: str) -> slice:
    if mode == REFLECT:
        stop = size - 2 - width
        return slice(size - 2, stop if stop >= 0 else None, -1)
    return slice(width) if mode == CIRCULAR else slice(size - 1, size)


@native(TRIL_TRIU, TRIL_TRIU.backward)
def triangle(writer: TapeWriter, row: Row) -> None:
    x, out = _moved(writer, row)
    require_fixed(x, out)
    require_floating(x, out)
    require(out.size > 0)
    attrs: dict[str, Any] = row.node.attrs
    is_kept = writer.tape.keep(TRIL_TRIU.forward(np, np.ones(x.shape[-2:], bool), **attrs))
    expression(writer, lambda x, kept: Recording.where(kept, x, 0.0), [out], [x, is_kept])
