"""Attention as one row of a tape, which goes through a few queries at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.executors.lowering.tape.math.products import gemm, lines_of, product_rows, write
from workbench.executors.lowering.tape.registry import native
from workbench.executors.lowering.tape.rows import write_op
from workbench.executors.lowering.tape.rules import FLOAT, FLOATS, expression, operands, require
from workbench.executors.lowering.tape.writer import TapeWriter
from workbench.executors.planning.plan import Row
from workbench.ops.loss.fused_attention import FUSED_ATTENTION
from workbench.ops.loss.softmax import SOFTMAX
from workbench.runtime.words.attention import backward_memory, forward_memory

SMALLEST = 8  # matrices with fewer rows or columns are left to the BLAS, which gives other bits
_ITEM = FLOAT.itemsize


class _Attention:
    """What is common to attention and its gradient.

    Args:
        q, k, v: [..., m, d], [..., n, d] and [..., n, e]. mask: broadcasts against [..., m, n].

    Attributes:
        suits: whether one row does it: otherwise there are rows for every product.
    """

    def __init__(self, row: Row, q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None) -> None:
        attrs = row.node.attrs
        self.by, self.divides, self.turned = attrs["by"], attrs["divides"], not attrs["trans_k"]
        given = [a for a in (q, k, v, mask) if a is not None]
        require(q.dtype in FLOATS, *(isinstance(a, np.ndarray) and a.dtype == q.dtype and a.size > 0 for a in given))
        self.q, self.k, self.v = q, self.by_rows(k), v
        (self.m, self.d), self.n, self.e = q.shape[-2:], self.k.shape[-2], v.shape[-1]
        self.scores = (*q.shape[:-2], self.m, self.n)
        require(self.k.shape[:-2] == q.shape[:-2] == v.shape[:-2], mask is None or _fits(mask.shape, self.scores))
        self.mask = None if mask is None else np.broadcast_to(mask, self.scores)

    def by_rows(self, k: np.ndarray) -> np.ndarray:
        """Keys, or their gradient, as [..., n, d]."""
        return k.swapaxes(-1, -2) if self.turned else k

    def suits(self, *outs: np.ndarray | None) -> bool:
        """Whether one row does it, which there is for float32."""
        if self.q.dtype != FLOAT:
            return False
        if self.m < SMALLEST or self.n < SMALLEST or self.d < SMALLEST or self.e < SMALLEST:
            return False
        masked = self.mask is None or self.mask.strides[-1] == _ITEM
        return masked and all(_ITEM in a.strides[-2:] for a in (self.q, self.k, self.v)) and all(map(_by_rows, outs))

    @property
    def sizes(self) -> tuple[Any, ...]:
        return self.m, self.n, self.d, self.e, self.by, int(self.divides)

    def scaled(self, writer: TapeWriter, x: np.ndarray, mask: np.ndarray | None) -> None:
        """Scale what goes through the scores, and add a mask, in place."""
        by, divides = x.dtype.type(self.by), self.divides

        def body(x: Any, *mask: Any) -> Any:
            y = x / by if divides else x * by
            return y + mask[0] if mask else y

        expression(writer, body, [x], [x] if mask is None else [x, mask])

    def weights(self, writer: TapeWriter) -> np.ndarray:
        """Of all queries, by a row for each of their ops."""
        scores = writer.temporary(self.scores, self.q.dtype)
        gemm(writer, self.q, self.k.swapaxes(-1, -2), scores)
        self.scaled(writer, scores, self.mask)
        write_op(writer, SOFTMAX, [scores], [scores], {"axis": -1})
        return scores


def _fits(mask: Sequence[int], scores: Sequence[int]) -> bool:
    """Whether scores stay as they are when a mask of some shape is added."""
    pairs = zip(mask[::-1], scores[::-1], strict=False)
    return len(mask) <= len(scores) and all(a == 1 or a == b for a, b in pairs)


def _by_rows(out: np.ndarray | None) -> bool:
    return out is None or bool(out.strides[-1] == _ITEM)


def _loops(arrays: Sequence[np.ndarray | None]) -> tuple[int, ...]:
    """The batch of matrices as two loops: sizes, each with the strides of all arrays.

    Raises:
        Unsuitable: it takes more than two.
    """
    shape = next(a.shape[:-2] for a in arrays if a is not None)
    dims: list[tuple[int, ...]] = []
    for axis in reversed(range(len(shape))):
        strides = tuple(0 if a is None else a.strides[axis] for a in arrays)
        if shape[axis] == 1:
            continue
        if dims and strides == tuple(dims[0][0] * stride for stride in dims[0][1:]):
            dims[0] = (dims[0][0] * shape[axis], *dims[0][1:])
        else:
            dims.insert(0, (shape[axis], *strides))
    require(len(dims) <= 2)
    padded = [(1, *(0 for _ in arrays))] * (2 - len(dims)) + dims
    return tuple(number for dim in padded for number in dim)


@native(FUSED_ATTENTION, joined=True)
def attention(writer: TapeWriter, row: Row) -> None:
    (out,), (q, k, v, mask) = operands(writer, row)
    a = _Attention(row, q, k, v, mask)
    if not a.suits(out):
        gemm(writer, a.weights(writer), v, out)
        return
    writer.row(
        "attention", *_seen(a.q), *_seen(a.k), *_seen(a.v), a.mask, _down(a.mask), out, _down(out), *a.sizes,
        lines_of(writer, forward_memory(a.n, a.d, a.e)), *_loops([a.q, a.k, a.v, a.mask, out]),
    )  # fmt: skip


@native(FUSED_ATTENTION.backward, joined=True)
def attention_grad(writer: TapeWriter, row: Row) -> None:
    (gq, gk, gv), (q, k, v, mask, g) = operands(writer, row)
    a = _Attention(row, q, k, v, mask)
    require(g is not None)
    gk = None if gk is None else a.by_rows(gk)
    if not (a.suits(gq, gv) and _ITEM in g.strides[-2:] and (gk is None or _ITEM in gk.strides[-2:])):
        _by_products(writer, a, g, (gq, gk, gv))
        return
    turned = (0, 0) if gk is None else gk.strides[-2:]
    writer.row(
        "attention_grad", *_seen(a.q), *_seen(a.k), *_seen(a.v), a.mask, _down(a.mask), *_seen(g), gq, _down(gq),
        gk, *turned, gv, _down(gv), *a.sizes, lines_of(writer, backward_memory(a.n, a.d, a.e)),
        *_loops([a.q, a.k, a.v, a.mask, g, gq, gk, gv]),
    )  # fmt: skip


def _seen(array: np.ndarray) -> tuple[Any, ...]:
    return array, *array.strides[-2:]


def _down(array: np.ndarray | None) -> int:
    return 0 if array is None else array.strides[-2]


def _by_products(writer: TapeWriter, a: _Attention, g: np.ndarray, outs: Sequence[np.ndarray | None]) -> None:
    """A row for each of the ops this stands for."""
    gq, gk, gv = outs
    weights, through = a.weights(writer), writer.temporary(a.scores, g.dtype)
    gemm(writer, g, a.v.swapaxes(-1, -2), through)
    if gv is not None:
        gemm(writer, weights.swapaxes(-1, -2), g, gv)
    write_op(writer, SOFTMAX.backward, [through], [None, weights, through], {"axis": -1})
    a.scaled(writer, through, None)
    rows = [] if gq is None else product_rows(writer, through, a.k, gq)
    rows += [] if gk is None else product_rows(writer, through.swapaxes(-1, -2), a.q, gk)
    write(writer, rows)
