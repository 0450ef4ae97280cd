"""Softmax and cross entropy as rows of a tape; along the last axis."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.executors.plan import Row
from workbench.executors.tape.rules import expression, native, operands, require, require_plain
from workbench.executors.tape.sums import add_up
from workbench.executors.tape.writer import TapeWriter
from workbench.framework.expr import Recording
from workbench.framework.spec import normalize_axis
from workbench.runtime.native.tape import address


def _rows(row: Row, x: np.ndarray) -> tuple[int, int]:
    """Number and length of the vectors along the last axis, the one the op has to be about."""
    require(normalize_axis(row.node.attrs["axis"], x.ndim) == x.ndim - 1)
    return x.size // x.shape[-1], x.shape[-1]


@native("softmax")
def softmax(writer: TapeWriter, row: Row) -> None:
    (out,), (x,) = operands(writer, row)
    require_plain(x, out)
    write_softmax(writer, x, out, _rows(row, x))


def write_softmax(writer: TapeWriter, x: np.ndarray, out: np.ndarray, sizes: tuple[int, int]) -> None:
    most, total = writer.temporary(sizes[:1]), writer.temporary(sizes[:1])
    writer.row("softmax", address(x), address(out), address(most), address(total), *sizes)


@native("softmax_grad")
def softmax_grad(writer: TapeWriter, row: Row) -> None:
    (out,), (_, y, g) = operands(writer, row)
    require(g is not None)
    require_plain(y, g, out)
    writer.row("softmax_grad", address(y), address(g), address(out), *_rows(row, y))


@native("log_softmax")
def log_softmax(writer: TapeWriter, row: Row) -> None:
    (out,), (x,) = operands(writer, row)
    require_plain(x, out)
    write_log_softmax(writer, x, out, _rows(row, x))


def write_log_softmax(writer: TapeWriter, x: np.ndarray, out: np.ndarray, sizes: tuple[int, int]) -> None:
    """x - max - log(sum of exp(x - max)) of every row."""
    rows, width = sizes
    x, out = x.reshape(sizes), out.reshape(sizes)
    most, grown, total = (writer.temporary(shape) for shape in ((rows, 1), sizes, (rows, 1)))
    writer.row("extreme_of_rows", address(x), address(most), rows, width, 1.0)
    expression(writer, lambda x, m: Recording.exp(x - m), [grown], [x, most])
    add_up(writer, grown, total)
    expression(writer, lambda x, m, t: x - m - Recording.log(t), [out], [x, most, total])


@native("log_softmax_grad")
def log_softmax_grad(writer: TapeWriter, row: Row) -> None:
    """g - exp(y) sum(g)."""
    (out,), (_, y, g) = operands(writer, row)
    require(g is not None)
    require_plain(y, g, out)
    sizes = _rows(row, y)
    y, g, out = (a.reshape(sizes) for a in (y, g, out))
    total = writer.temporary((sizes[0], 1))
    add_up(writer, g, total)
    expression(writer, lambda y, g, t: g - Recording.exp(y) * t, [out], [y, g, total])


# Cross entropy


@native("softmax_with_cross_entropy")
def cross_entropy(writer: TapeWriter, row: Row) -> None:
    (softmax, loss), (logits, label) = operands(writer, row)
    attrs = row.node.attrs
    require_plain(logits, *_given(softmax, loss))
    rows, classes = _rows(row, logits)
    (_require_soft if attrs["soft_label"] else _require_labels)(label, logits, rows)
    softmax = writer.temporary(logits.shape) if softmax is None else softmax
    loss = writer.temporary((rows,)) if loss is None else loss
    if attrs["soft_label"]:
        _soft_loss(writer, logits, label, softmax, loss, (rows, classes))
        return
    writer.row(
        "cross_entropy", address(logits), address(label), address(softmax), address(loss),
        address(writer.temporary((rows,))), rows, classes, attrs["ignore_index"],
    )  # fmt: skip


def _given(*arrays: Any) -> Sequence[np.ndarray]:
    return [a for a in arrays if a is not None]


def _require_labels(label: Any, logits: np.ndarray, rows: int) -> None:
    require(isinstance(label, np.ndarray), label.dtype == np.int64, label.flags.c_contiguous, label.size == rows)


def _require_soft(label: Any, logits: np.ndarray, rows: int) -> None:
    require_plain(label)
    require(label.shape == logits.shape)


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


@native("softmax_with_cross_entropy_grad")
def cross_entropy_grad(writer: TapeWriter, row: Row) -> None:
    (out,), (_, label, softmax, g_softmax, g) = operands(writer, row)
    attrs = row.node.attrs
    require(g_softmax is None, g is not None, out is not None)
    require_plain(out, softmax, g)
    rows, classes = _rows(row, softmax)
    if attrs["soft_label"]:
        _require_soft(label, softmax, rows)
        _soft_grad(writer, softmax, label, g, out, (rows, classes))
        return
    _require_labels(label, softmax, rows)
    writer.row(
        "cross_entropy_grad", address(softmax), address(label), address(g), address(out), rows, classes,
        attrs["ignore_index"],
    )  # fmt: skip


def _soft_grad(
    writer: TapeWriter, softmax: np.ndarray, label: np.ndarray, g: np.ndarray, out: np.ndarray, sizes: tuple[int, int]
) -> None:
    """(softmax sum(label) - label) g."""
    softmax, label, out = (a.reshape(sizes) for a in (softmax, label, out))
    total, g = writer.temporary((sizes[0], 1)), g.reshape(-1, 1)
    add_up(writer, label, total)
    expression(writer, lambda p, label, t, g: (p * t - label) * g, [out], [softmax, label, total, g])
