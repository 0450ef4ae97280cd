"""Means and cross entropy as rows of a tape."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.executors.plan import Row
from workbench.executors.tape.rules import expression, native, operands, require, require_plain
from workbench.executors.tape.writer import TapeWriter
from workbench.framework.spec import normalize_axis
from workbench.runtime.native.tape import address


@native("mean")
def mean(writer: TapeWriter, row: Row) -> None:
    (out,), (x,) = operands(writer, row)
    require_plain(out, x)
    writer.row("mean_of_all", address(x), address(out), x.size)


@native("mean_grad")
def mean_grad(writer: TapeWriter, row: Row) -> None:
    (out,), (x, g) = operands(writer, row)
    require(g is not None and g.size == 1)
    count = np.float32(x.size)
    expression(writer, lambda g: g / count, [out], [g])


def _labels(label: Any, rows: int) -> None:
    require(isinstance(label, np.ndarray), label.dtype == np.int64, label.flags.c_contiguous, label.size == rows)


@native("softmax_with_cross_entropy")
def cross_entropy(writer: TapeWriter, row: Row) -> None:
    (softmax, loss), (logits, label) = operands(writer, row)
    attrs = row.node.attrs
    require(not attrs["soft_label"], normalize_axis(attrs["axis"], logits.ndim) == logits.ndim - 1)
    require_plain(logits, *(a for a in (softmax, loss) if a is not None))
    classes = logits.shape[-1]
    rows = logits.size // classes
    _labels(label, rows)
    softmax = writer.temporary(logits.shape) if softmax is None else softmax
    loss = writer.temporary((rows,)) if loss is None else loss
    writer.row(
        "cross_entropy", address(logits), address(label), address(softmax), address(loss), rows, classes,
        attrs["ignore_index"],
    )  # fmt: skip


@native("softmax_with_cross_entropy_grad")
def cross_entropy_grad(writer: TapeWriter, row: Row) -> None:
    (out,), (_, label, softmax, g_softmax, g) = operands(writer, row)
    attrs = row.node.attrs
    require(not attrs["soft_label"], g_softmax is None, g is not None, out is not None)
    require(normalize_axis(attrs["axis"], softmax.ndim) == softmax.ndim - 1)
    require_plain(out, softmax, g)
    classes = softmax.shape[-1]
    rows = softmax.size // classes
    _labels(label, rows)
    writer.row(
        "cross_entropy_grad", address(softmax), address(label), address(g), address(out), rows, classes,
        attrs["ignore_index"],
    )  # fmt: skip
