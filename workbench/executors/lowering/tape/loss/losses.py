"""Softmax and cross entropy as rows of a tape: along the last axis, where another one is brought first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from workbench.executors.lowering.tape.math.sums import add_up, with_last
from workbench.executors.lowering.tape.registry import native
from workbench.executors.lowering.tape.rules import copy, expression, operands, require, require_plain
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.plan import Row
from workbench.framework.expr.expr import Recording
from workbench.framework.values.spec import normalize_axis
from workbench.ops.loss.softmax import LOG_SOFTMAX, SOFTMAX, SOFTMAX_WITH_CROSS_ENTROPY


def _axis(row: Row, x: np.ndarray) -> int:
    """The axis an op is about."""
    return normalize_axis(row.node.attrs["axis"], x.ndim)


def _rows(x: np.ndarray) -> tuple[int, int]:
    """Number and length of the vectors along the last axis."""
    return x.size // x.shape[-1], x.shape[-1]


def _turned(writer: TapeWriter, row: Row, *arrays: np.ndarray) -> list[np.ndarray]:
    """Arrays with the op's axis as the last one."""
    return [with_last(writer, a, [_axis(row, a)]) for a in arrays]


def _written(writer: TapeWriter, row: Row, out: np.ndarray, write: Callable[[np.ndarray], None]) -> None:
    """`write` a result with the op's axis as the last one, then bring it to its place."""
    seen = np.moveaxis(out, _axis(row, out), -1)
    if seen.flags.c_contiguous:
        write(seen)
        return
    beside = writer.temporary(seen.shape)
    write(beside)
    copy(writer, beside, seen)


@native(SOFTMAX)
def softmax(writer: TapeWriter, row: Row) -> None:
    (out,), (x,) = operands(writer, row)
    require_plain(x, out)
    (x,) = _turned(writer, row, x)
    _written(writer, row, out, lambda out: write_softmax(writer, x, out, _rows(x)))


def write_softmax(writer: TapeWriter, x: np.ndarray, out: np.ndarray, sizes: tuple[int, int]) -> None:
    most, total = writer.temporary(sizes[:1]), writer.temporary(sizes[:1])
    writer.row("softmax", x, out, most, total, *sizes)


@native(SOFTMAX.backward)
def softmax_grad(writer: TapeWriter, row: Row) -> None:
    (out,), (_, y, g) = operands(writer, row)
    require(g is not None)
    require_plain(y, g, out)
    y, g = _turned(writer, row, y, g)
    _written(writer, row, out, lambda out: writer.row("softmax_grad", y, g, out, *_rows(y)))


@native(LOG_SOFTMAX)
def log_softmax(writer: TapeWriter, row: Row) -> None:
    (out,), (x,) = operands(writer, row)
    require_plain(x, out)
    (x,) = _turned(writer, row, x)
    _written(writer, row, out, lambda out: write_log_softmax(writer, x, out, _rows(x)))


def write_log_softmax(writer: TapeWriter, x: np.ndarray, out: np.ndarray, sizes: tuple[int, int]) -> None:
    """x - max - log(sum of exp(x - max)) of every row."""
    rows, width = sizes
    x, out = x.reshape(sizes), out.reshape(sizes)
    most, grown, total = (writer.temporary(shape) for shape in ((rows, 1), sizes, (rows, 1)))
    writer.row("extreme_of_rows", x, most, rows, width, 1.0)
    expression(writer, lambda x, m: Recording.exp(x - m), [grown], [x, most])
    add_up(writer, grown, total)
    expression(writer, lambda x, m, t: x - m - Recording.log(t), [out], [x, most, total])


@native(LOG_SOFTMAX.backward)
def log_softmax_grad(writer: TapeWriter, row: Row) -> None:
    """g - exp(y) sum(g)."""
    (out,), (_, y, g) = operands(writer, row)
    require(g is not None)
    require_plain(y, g, out)
    total = writer.temporary(tuple(1 if a == _axis(row, y) else d for a, d in enumerate(y.shape)))
    add_up(writer, g, total)
    expression(writer, lambda y, g, t: g - Recording.exp(y) * t, [out], [y, g, total])


# Cross entropy


@native(SOFTMAX_WITH_CROSS_ENTROPY)
def cross_entropy(writer: TapeWriter, row: Row) -> None:
    (softmax, loss), (logits, label) = operands(writer, row)
    require_plain(logits, *_given(softmax, loss))
    (logits,), soft = _turned(writer, row, logits), row.node.attrs["soft_label"]
    rows, classes = _rows(logits)
    (_require_soft if soft else _require_labels)(label, logits.size, rows)
    loss = writer.temporary((rows,)) if loss is None else loss
    (label,) = _turned(writer, row, label) if soft else (label,)

    def write(softmax: np.ndarray) -> None:
        if soft:
            _soft_loss(writer, logits, label, softmax, loss, (rows, classes))
            return
        writer.row(
            "cross_entropy", logits, label, softmax, loss,
            writer.temporary((rows,)), rows, classes, row.node.attrs["ignore_index"],
        )  # fmt: skip

    if softmax is None:
        write(writer.temporary(logits.shape))
    else:
        _written(writer, row, softmax, write)


def _given(*arrays: Any) -> Sequence[np.ndarray]:
    return [a for a in arrays if a is not None]


def _require_labels(label: Any, size: int, rows: int) -> None:
    require(isinstance(label, np.ndarray), label.dtype == np.int64, label.flags.c_contiguous, label.size == rows)


def _require_soft(label: Any, size: int, rows: int) -> None:
    require_plain(label)
    require(label.size == size)


def _soft_loss(
    writer: TapeWriter, logits: np.ndarray, label: np.ndarray, softmax: np.ndarray, loss: np.ndarray,
    sizes: tuple[int, int],
) -> None:  # fmt: skip
    """Softmax, and -sum(label * log(softmax)) of every row."""
    shares = writer.temporary(sizes)
    write_log_softmax(writer, logits, shares, sizes)
    expression(writer, lambda label, share: -(label * share), [shares], [label.reshape(sizes), shares])
    add_up(writer, shares, loss.reshape(sizes[0], 1))
    write_softmax(writer, logits, softmax, sizes)


@native(SOFTMAX_WITH_CROSS_ENTROPY.backward)
def cross_entropy_grad(writer: TapeWriter, row: Row) -> None:
    (out,), (_, label, softmax, g_softmax, g) = operands(writer, row)
    require(g_softmax is None, g is not None, out is not None)
    require_plain(out, softmax, g)
    (softmax,), soft = _turned(writer, row, softmax), row.node.attrs["soft_label"]
    rows, classes = _rows(softmax)
    (_require_soft if soft else _require_labels)(label, softmax.size, rows)
    (label,) = _turned(writer, row, label) if soft else (label,)

    def write(out: np.ndarray) -> None:
        if soft:
            _soft_grad(writer, softmax, label, g, out, (rows, classes))
            return
        writer.row(
            "cross_entropy_grad", softmax, label, g, out, rows, classes,
            row.node.attrs["ignore_index"],
        )  # fmt: skip

    _written(writer, row, out, write)


def _soft_grad(
    writer: TapeWriter, softmax: np.ndarray, label: np.ndarray, g: np.ndarray, out: np.ndarray, sizes: tuple[int, int]
) -> None:
    """(softmax sum(label) - label) g."""
    softmax, label, out = (a.reshape(sizes) for a in (softmax, label, out))
    total, g = writer.temporary((sizes[0], 1)), g.reshape(-1, 1)
    add_up(writer, label, total)
    expression(writer, lambda p, label, t, g: (p * t - label) * g, [out], [softmax, label, total, g])
