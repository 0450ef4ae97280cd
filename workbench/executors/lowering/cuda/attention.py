"""Attention on a device: no matrix of scores is kept, neither for the result nor for the gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.cuda.kernels.attention import (
    Attention,
    AttentionKernel,
    attention_kernel,
    attention_keys_kernel,
    attention_queries_kernel,
    attention_rows_kernel,
    attention_sizes,
)
from workbench.executors.lowering.cuda.rules import on_device
from workbench.executors.lowering.tape.rules import copy, operands, require
from workbench.executors.planning.plan import Row
from workbench.ops.loss.fused_attention import FUSED_ATTENTION


class _Launches:
    """Of one attention.

    Args:
        arrays: q, k, v and mask, as they lie.
    """

    def __init__(self, writer: Any, row: Row, arrays: Sequence[Any]) -> None:
        attrs = row.node.attrs
        require(all(a is None or (isinstance(a, np.ndarray) and a.size > 0) for a in arrays))
        q, k, v, mask = arrays
        of_mask = None if mask is None else mask.shape
        self.one: Attention = attention_sizes(q.shape, k.shape, v.shape, of_mask, bool(attrs["trans_k"]))
        self.factor, self.dtype = 1.0 / attrs["by"] if attrs["divides"] else float(attrs["by"]), q.dtype
        self._writer = writer
        self.given = [_dense(writer, a) for a in arrays if a is not None]

    def add(self, kernel: AttentionKernel, *others: np.ndarray) -> None:
        """A kernel on these operands and others."""
        places = [self._writer.at(a) for a in (*self.given, *others)]
        self._writer.give(self._writer.launch(kernel.kernel, kernel.launch(self.one, self.factor), places))


def _dense(writer: Any, array: np.ndarray) -> np.ndarray:
    """The array as kernels read it: heads are views of what lies together."""
    if array.flags.c_contiguous:
        return array
    beside: np.ndarray = writer.temporary(array.shape, array.dtype)
    copy(writer, array, beside)
    return beside


def _room(writer: Any, out: Any, like: np.ndarray) -> np.ndarray:
    """Where a result is written: in its place, or beside it if that is strided or nobody wants it."""
    if out is not None and out.flags.c_contiguous:
        room: np.ndarray = out
    else:
        room = writer.temporary(like.shape, like.dtype)
    return room


def _brought_back(writer: Any, outs: Sequence[Any], rooms: Sequence[np.ndarray]) -> None:
    for out, room in zip(outs, rooms, strict=True):
        if out is not None and out is not room:
            copy(writer, room, out)


@on_device(FUSED_ATTENTION)
def attention(writer: Any, row: Row) -> None:
    (out,), arrays = operands(writer, row)
    launches = _Launches(writer, row, arrays)
    room = _room(writer, out, out)
    launches.add(attention_kernel(launches.dtype, launches.one), room)
    _brought_back(writer, [out], [room])


@on_device(FUSED_ATTENTION.backward)
def attention_grad(writer: Any, row: Row) -> None:
    outs, (*arrays, g) = operands(writer, row)
    require(g is not None)
    launches = _Launches(writer, row, arrays)
    one, dtype = launches.one, launches.dtype
    rooms = [_room(writer, out, like) for out, like in zip(outs, arrays[:3], strict=True)]
    g = _dense(writer, g)
    wide = np.float64 if dtype == np.float64 else np.float32
    rows = [writer.temporary((one.batch * one.queries,), wide) for _ in range(2)]
    launches.add(attention_rows_kernel(dtype, one), g, *rows)
    if outs[0] is not None:
        launches.add(attention_queries_kernel(dtype, one), g, rooms[0], *rows)
    if outs[1] is not None or outs[2] is not None:
        launches.add(attention_keys_kernel(dtype, one), g, *rooms[1:], *rows)
    _brought_back(writer, outs, rooms)
