"""Layer and batch normalisation as rows of a tape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.executors.lowering.tape.math.sums import sum_axes
from workbench.executors.lowering.tape.registry import native
from workbench.executors.lowering.tape.rules import expression, operands, require, require_plain
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.plan import Row
from workbench.framework.expr.expr import Recording
from workbench.ops.nn.channels import channel_axis, uses_given_statistics
from workbench.ops.nn.norm import BATCH_NORM, LAYER_NORM
from workbench.runtime.native.tape import address

Array = np.ndarray


def _require_all_plain(*arrays: Any) -> None:
    """All that are there are plain."""
    require_plain(*(a for a in arrays if a is not None))


def _or_temporary(writer: TapeWriter, out: Array | None, shape: Sequence[int]) -> Array:
    return writer.temporary(shape) if out is None else out


def _weights(writer: TapeWriter, given: Array | None, count: int, number: float) -> Array:
    """A scale or bias, or at least so many of its neutral number."""
    return writer.tape.constant(np.float32(number).tobytes(), count) if given is None else given


# Layers


def _blocks(row: Row, x: Array) -> tuple[int, int]:
    """Number and size of the blocks normalised by themselves."""
    begin = row.node.attrs["begin_norm_axis"]
    return math.prod(x.shape[:begin]), math.prod(x.shape[begin:])


@native(LAYER_NORM)
def layer_norm(writer: TapeWriter, row: Row) -> None:
    (y, mean, variance), (x, scale, bias) = operands(writer, row)
    _require_all_plain(y, mean, variance, x, scale, bias)
    rows, width = _blocks(row, x)
    y = _or_temporary(writer, y, x.shape)
    mean, variance = (_or_temporary(writer, a, (rows,)) for a in (mean, variance))
    writer.row(
        "layer_norm", x, _weights(writer, scale, width, 1), _weights(writer, bias, width, 0), y, mean, variance, rows,
        width, row.node.attrs["epsilon"],
    )  # fmt: skip


@native(LAYER_NORM.backward)
def layer_norm_grad(writer: TapeWriter, row: Row) -> None:
    (g_x, g_scale, g_bias), (x, scale, _, mean, variance, g, *_) = operands(writer, row)
    require(g is not None)
    _require_all_plain(g_x, g_scale, g_bias, x, scale, mean, variance, g)
    rows, width = _blocks(row, x)
    g_x = _or_temporary(writer, g_x, x.shape)
    g_scale, g_bias = (_or_temporary(writer, a, (width,)) for a in (g_scale, g_bias))
    writer.row(
        "layer_norm_grad", x, g, _weights(writer, scale, width, 1), mean, variance, g_x, g_scale, g_bias,
        writer.temporary((2, width)), rows, width, row.node.attrs["epsilon"],
    )  # fmt: skip


# Batches


class _Channels:
    """An array whose channels are normalised, [batch, channels, width].

    Where the width is 1 (channels come last) its rows suit vector code; otherwise its planes have kernels.
    """

    def __init__(self, writer: TapeWriter, x: Array, data_layout: str) -> None:
        axis = channel_axis(x.ndim, data_layout)
        self.writer = writer
        self.batch, self.count, self.width = math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :])

    @property
    def size(self) -> int:
        """Numbers per channel."""
        return self.batch * self.width

    @property
    def are_last(self) -> bool:
        return self.width == 1

    def temporary(self) -> Array:
        """A number per channel."""
        return self.writer.temporary((self.count,))

    def rows(self, *arrays: Array) -> list[Array]:
        return [a.reshape(self.batch, self.count) for a in arrays]

    def over_planes(self, kernel: str, *arrays: Array) -> None:
        """A row for a kernel that takes arrays and the three sizes."""
        self.writer.row(kernel, *arrays, self.batch, self.count, self.width)

    def of_channels(self, kernel: str, *arrays: Array) -> None:
        """The same for one that also takes how many channels it does."""
        self.writer.row(kernel, *arrays, self.batch, self.count, self.width, self.count)

    def total(self, x: Array, out: Array, count: int = 1) -> None:
        """The sum of every channel, divided by a number."""
        sum_axes(self.writer, x.reshape(self.batch, self.count, self.width), (0, 2), out, count)

    # Forward

    def moments(self, x: Array, mean: Array, variance: Array) -> None:
        """Mean and biased variance."""
        if not self.are_last:
            self.of_channels("plane_moments", x, mean, variance)
            return
        squares = self.writer.temporary((self.batch, self.count))
        self.total(x, mean, self.size)
        expression(self.writer, lambda x, m: (x - m) * (x - m), [squares], [*self.rows(x), mean])
        self.total(squares, variance, self.size)

    def shift(self, x: Array, mean: Array, slope: Array, bias: Array, y: Array) -> None:
        """(x - mean) slope + bias."""
        if not self.are_last:
            self.over_planes("plane_shift", x, mean, slope, bias, y)
            return
        expression(self.writer, lambda x, m, s, b: (x - m) * s + b, self.rows(y), [*self.rows(x), mean, slope, bias])

    # Backward

    def sums(self, x: Array, g: Array, mean: Array, inverse: Array, g_scale: Array, g_bias: Array) -> None:
        """The sums of g * normal and of g."""
        if not self.are_last:
            self.of_channels("plane_sums", x, g, mean, inverse, g_scale, g_bias)
            return
        products = self.writer.temporary((self.batch, self.count))
        expression(self.writer, lambda x, g, m, i: g * ((x - m) * i), [products], [*self.rows(x, g), mean, inverse])
        self.total(products, g_scale)
        self.total(g, g_bias)

    def gradients(
        self, x: Array, g: Array, mean: Array, inverse: Array, along: Array, level: Array, slope: Array, g_x: Array
    ) -> None:
        """(g - level - normal along) slope."""
        if not self.are_last:
            self.over_planes("plane_gradients", x, g, mean, inverse, along, level, slope, g_x)
            return
        expression(
            self.writer,
            lambda x, g, m, i, a, b, s: (g - b - (x - m) * i * a) * s,
            self.rows(g_x),
            [*self.rows(x, g), mean, inverse, along, level, slope],
        )


def _uses_given(row: Row) -> bool:
    attrs = row.node.attrs
    return uses_given_statistics(attrs["is_test"], attrs["use_global_stats"], attrs["trainable_statistics"])


@native(BATCH_NORM)
def batch_norm(writer: TapeWriter, row: Row) -> None:
    write_batch_norm(writer, row, *operands(writer, row))


def write_batch_norm(writer: TapeWriter, row: Row, outs: Sequence[Any], ins: Sequence[Any]) -> None:
    """The rows of a batch norm, or of the one in a node that does more.

    Args:
        outs, ins: in the slots of `batch_norm`.
    """
    (y, *moved, saved_mean, saved_inverse), (x, scale, bias, *moving) = outs, ins
    _require_all_plain(y, *moved, saved_mean, saved_inverse, x, scale, bias, *moving)
    attrs, channels = row.node.attrs, _Channels(writer, x, row.node.attrs["data_layout"])
    y = _or_temporary(writer, y, x.shape)
    mean, inverse = (_or_temporary(writer, a, moving[0].shape) for a in (saved_mean, saved_inverse))
    if _uses_given(row):
        variance = moving[1]
        _copy_each(writer, (*moving, moving[0]), (*moved, mean))
    else:
        variance = channels.temporary()
        channels.moments(x, mean, variance)
        _move(writer, moving, (mean, variance), moved, attrs["momentum"])
    _write_inverse(writer, variance, attrs["epsilon"], inverse)
    slope = _slope(writer, inverse, scale, channels.temporary())
    channels.shift(x, mean, slope, _zeros(writer, channels.count) if bias is None else bias, y)


def _copy_each(writer: TapeWriter, sources: Sequence[Array], outs: Sequence[Array | None]) -> None:
    for source, out in zip(sources, outs, strict=True):
        if out is not None and address(out) != address(source):
            expression(writer, lambda x: x, [out], [source])


def _move(
    writer: TapeWriter, moving: Sequence[Array], batch: Sequence[Array], outs: Sequence[Array | None], momentum: float
) -> None:
    """momentum * moving + (1 - momentum) * batch."""
    for old, new, out in zip(moving, batch, outs, strict=True):
        if out is not None:
            expression(writer, lambda old, new: old * momentum + new * (1 - momentum), [out], [old, new])


def _write_inverse(writer: TapeWriter, variance: Array, epsilon: float, out: Array) -> None:
    expression(writer, lambda v: 1.0 / Recording.sqrt(v + epsilon), [out], [variance])


def _slope(writer: TapeWriter, inverse: Array, scale: Array | None, beside: Array) -> Array:
    """What numbers of a channel are multiplied with; `beside` is memory for it."""
    if scale is None:
        return inverse
    expression(writer, lambda i, s: i * s, [beside], [inverse, scale])
    return beside


@native(BATCH_NORM.backward)
def batch_norm_grad(writer: TapeWriter, row: Row) -> None:
    outs, (x, scale, _, _, _, mean, inverse, g, *_) = operands(writer, row)
    require(g is not None)
    write_batch_norm_grad(writer, row, outs, (x, scale, mean, inverse, g))


def write_batch_norm_grad(writer: TapeWriter, row: Row, outs: Sequence[Any], ins: Sequence[Any]) -> None:
    """The rows of a batch norm's gradient.

    Args:
        outs: gradients of X, scale and bias. ins: X, scale, saved mean and inverse deviation, gradient of Y.
    """
    (g_x, g_scale, g_bias), (x, scale, mean, inverse, g) = outs, ins
    _require_all_plain(g_x, g_scale, g_bias, x, scale, mean, inverse, g)
    channels = _Channels(writer, x, row.node.attrs["data_layout"])
    g_scale, g_bias = (_or_temporary(writer, a, mean.shape) for a in (g_scale, g_bias))
    channels.sums(x, g, mean, inverse, g_scale, g_bias)
    if g_x is None:
        return
    slope = _slope(writer, inverse, scale, channels.temporary())
    if _uses_given(row):
        zeros = _zeros(writer, channels.count)
        channels.shift(g, zeros, slope, zeros, g_x)
        return
    along, level, size = channels.temporary(), channels.temporary(), np.float32(channels.size)
    expression(writer, lambda s, b: (s / size, b / size), [along, level], [g_scale, g_bias])
    channels.gradients(x, g, mean, inverse, along, level, slope, g_x)


def _zeros(writer: TapeWriter, count: int) -> Array:
    zeros = np.zeros(count, np.float32)
    writer.tape.keep(zeros)
    return zeros
