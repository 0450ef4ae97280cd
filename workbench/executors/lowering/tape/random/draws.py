"""Dropout, uniform and normal random numbers as rows of a tape; their bits are those of `framework.values.random`."""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

from workbench.executors.lowering.tape.registry import native
from workbench.executors.lowering.tape.rules import (
    FLOATS,
    computed_in,
    expression,
    fill,
    operands,
    require,
    require_dense,
    require_floating,
)
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.plan import Row
from workbench.framework.expr.expr import Recording
from workbench.ops.random.batch_like import GAUSSIAN_BATCH_LIKE, UNIFORM_BATCH_LIKE
from workbench.ops.random.distributions import BERNOULLI, GAUSSIAN_RANDOM, RANDINT, UNIFORM_LIKE, UNIFORM_RANDOM
from workbench.ops.random.dropout import DROPOUT, kept_factor, mask_shape, masked, through_mask
from workbench.runtime.words.stream import BITS, CHUNK


def _stream(writer: TapeWriter, row: Row) -> tuple[np.ndarray, np.ndarray]:
    """A node's stream, told which passes of loops it is in, and memory for its words."""
    stream, passes = writer.context.stream(row.node), writer.context.passes
    if passes:
        writer.row("outside_loops", stream)
    for number in passes:
        writer.row("inside_pass", stream, number)
    return stream, writer.temporary((CHUNK,))


def _factor(row: Row, x: np.ndarray) -> np.floating[Any]:
    """What kept elements are multiplied by, as a number of their dtype."""
    attrs = row.node.attrs
    require_floating(x)
    return computed_in(x.dtype).type(
        kept_factor(attrs["dropout_prob"], attrs["is_test"], attrs["dropout_implementation"])
    )


@native(DROPOUT, integers=True)
def dropout(writer: TapeWriter, row: Row) -> None:
    (out, mask), (x,) = operands(writer, row)
    attrs, factor = row.node.attrs, _factor(row, x)
    require(x.size > 0)
    if attrs["is_test"]:
        if mask is not None:
            writer.row("draw_truths", *_stream(writer, row), mask, mask.size, 0)  # all are
        expression(writer, lambda x: x * factor, [out], [x])
        return
    mask = writer.temporary(mask_shape(x.shape, attrs["axis"]), np.uint8) if mask is None else mask
    require(mask.flags.c_contiguous)
    least = ceil(float(np.float32(attrs["dropout_prob"])) * 2**BITS)  # as the op compares: in float32
    writer.row("draw_truths", *_stream(writer, row), mask, mask.size, least)
    if out is not None:
        kept = mask.view(bool)
        expression(writer, lambda x, kept: masked(Recording, x, kept, factor), [out], [x, kept])


@native(DROPOUT.backward)
def dropout_grad(writer: TapeWriter, row: Row) -> None:
    (out,), (_, mask, g, _) = operands(writer, row)
    require(g is not None)
    factor = _factor(row, g)
    if row.node.attrs["is_test"]:
        expression(writer, lambda g: g * factor, [out], [g])
        return
    expression(writer, lambda g, kept: through_mask(g, kept, factor), [out], [g, mask.view(bool)])


@native(UNIFORM_RANDOM, UNIFORM_BATCH_LIKE)
def uniform(writer: TapeWriter, row: Row) -> None:
    (out,), _ = operands(writer, row)
    _require_drawn(row)
    require_dense(out)
    low, high = row.node.attrs["min"], row.node.attrs["max"]
    writer.row("draw_uniform", *_stream(writer, row), out, out.size)
    if (low, high) == (0, 1):
        return
    below = np.nextafter(out.dtype.type(high), out.dtype.type(low))  # as the op does: rounding must not reach the bound
    expression(writer, lambda x: Recording.minimum(x * (high - low) + low, below), [out], [out])


@native(UNIFORM_LIKE, joined=True)
def uniform_like(writer: TapeWriter, row: Row) -> None:
    """Halves are not rounded from float32: they are made of fewer bits."""
    (out,), _ = operands(writer, row)
    _require_drawn(row)
    require_dense(out)
    low, high = row.node.attrs["min"], row.node.attrs["max"]
    if row.node.attrs["is_test"]:
        fill(writer, out, (low + high) / 2)
        return
    writer.row("draw_uniform", *_stream(writer, row), out, out.size)
    if (low, high) != (0, 1):
        expression(writer, lambda x: x * (high - low) + low, [out], [out])


@native(RANDINT, integers=True)
def randint(writer: TapeWriter, row: Row) -> None:
    (out,), _ = operands(writer, row)
    require(not row.node.attrs["startup"], out.dtype == np.int64, out.flags.c_contiguous, out.size > 0)
    low, high = row.node.attrs["low"], row.node.attrs["high"]
    require(-(2**62) < low < high < 2**62)
    writer.row("draw_integers", *_stream(writer, row), out, out.size, low, high - low)


@native(BERNOULLI)
def bernoulli(writer: TapeWriter, row: Row) -> None:
    (out,), (x,) = operands(writer, row)
    _require_drawn(row)
    require_dense(out, x)
    writer.row("draw_chances", *_stream(writer, row), x, out, out.size)


def _require_drawn(row: Row) -> None:
    """Initialisers draw anew at every run, whatever the step; and halves are made of other bits."""
    require(not row.node.attrs["startup"], row.node.writes[0].spec.dtype.numpy in FLOATS)


@native(GAUSSIAN_RANDOM, GAUSSIAN_BATCH_LIKE)
def normal(writer: TapeWriter, row: Row) -> None:
    (out,), _ = operands(writer, row)
    attrs = row.node.attrs
    _require_drawn(row)
    require_dense(out)
    writer.row("draw_normal", *_stream(writer, row), out, out.size)
    if (attrs["mean"], attrs["std"]) != (0, 1):
        expression(writer, lambda x: x * attrs["std"] + attrs["mean"], [out], [out])
