"""Prepared calls of ops that only move elements: constants, copies, joins, parts, tables (see `bound`).

They work for every dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from workbench.framework.values.dtype import as_dtype
from workbench.framework.values.spec import normalize_axis
from workbench.ops.bound import Calls, Scratch, copied, filled, seen_as
from workbench.ops.index_range import in_range_check, require_in_range

FEW = 3  # parts: up to here one assignment each is quicker than np.concatenate


def _dense(*arrays: Any) -> bool:
    return all(isinstance(a, np.ndarray) for a in arrays)


def bind_fill(outs: Sequence[Any], arrays: Sequence[Any], scratch: Scratch, value: Any, **attrs: Any) -> Calls:
    """`bind` of fill_constant and fill_any_like."""
    return [filled(outs[0], value)]


def bind_values(
    outs: Sequence[Any], arrays: Sequence[Any], scratch: Scratch, values: Any, shape: Sequence[int], dtype: str
) -> Calls:
    """`bind` of assign_value."""
    return [copied(np.array(values, as_dtype(dtype).numpy).reshape(tuple(shape)), outs[0])]


def bind_assign(outs: Sequence[Any], arrays: Sequence[Any], scratch: Scratch) -> Calls | None:
    """`bind` of assign."""
    return [copied(arrays[0], outs[0])] if _dense(arrays[0]) else None


def bind_reshape(outs: Sequence[Any], arrays: Sequence[Any], scratch: Scratch, **attrs: Any) -> Calls | None:
    """`bind` of the ops that keep the elements in their order, for results that are no views; and of their gradients.

    A gradient comes last, whatever was there before; of the forward ops only X holds values.
    """
    source, (out,) = arrays[0] if len(arrays) == 1 else arrays[-1], outs
    return _refilled(source, out)


def bind_reshape_like(outs: Sequence[Any], arrays: Sequence[Any], scratch: Scratch) -> Calls | None:
    """`bind` of reshape_like."""
    return _refilled(arrays[0], outs[0])


def _refilled(source: Any, out: np.ndarray) -> Calls | None:
    if not _dense(source):
        return None
    target = seen_as(out, source.shape)
    return None if target is None else [copied(source, target)]


def bind_view(forward: Callable[..., Any]) -> Callable[..., Calls | None]:
    """`bind` of an op whose `forward` always gives a view of the last operand, for results that are to be copies."""

    def bind(outs: Sequence[Any], arrays: Sequence[Any], scratch: Scratch, **attrs: Any) -> Calls | None:
        if not _dense(*arrays[-1:]):
            return None
        return [copied(forward(arrays[-1], **attrs), outs[0])]

    return bind


def bind_parts(parts: Callable[..., Sequence[np.ndarray]]) -> Callable[..., Calls | None]:
    """`bind` of an op with a list of results, `parts(*arrays, **attrs)` being the views to copy."""

    def bind(outs: Sequence[Any], arrays: Sequence[Any], scratch: Scratch, **attrs: Any) -> Calls | None:
        sources = parts(*arrays, **attrs)
        return [copied(part, out) for part, out in zip(sources, outs[0], strict=True) if out is not None]

    return bind


# Joins


def bind_concat(outs: Sequence[Any], arrays: Sequence[Any], scratch: Scratch, axis: int) -> Calls | None:
    """`bind` of concat."""
    (out,), (xs,) = outs, arrays
    return _joined(xs, normalize_axis(axis, out.ndim), out) if _dense(*xs) else None


def bind_stack(outs: Sequence[Any], arrays: Sequence[Any], scratch: Scratch, axis: int) -> Calls | None:
    """`bind` of stack."""
    (out,), (xs,) = outs, arrays
    axis = normalize_axis(axis, out.ndim)
    return _joined([np.expand_dims(x, axis) for x in xs], axis, out) if _dense(*xs) else None


def _joined(xs: Sequence[np.ndarray], axis: int, out: np.ndarray) -> Calls:
    if len(xs) > FEW:
        return [partial(np.concatenate, tuple(xs), axis, out)]
    calls: Calls = []
    start = 0
    for x in xs:
        stop = start + x.shape[axis]
        calls.append(copied(x, out[(slice(None),) * axis + (slice(start, stop),)]))
        start = stop
    return calls


# Tables


def bind_lookup(
    outs: Sequence[Any], arrays: Sequence[Any], scratch: Scratch, padding_idx: int, is_sparse: bool
) -> Calls | None:
    """`bind` of lookup_table_v2."""
    (out,), (table, ids) = outs, arrays
    if not _dense(table, ids) or not all(a.flags.c_contiguous for a in (table, ids, out)):
        return None
    in_range, take = in_range_check(ids, table.shape[0]), table.take

    def run() -> None:
        if not in_range():
            require_in_range(np, "embedding: id", ids, table.shape[0])
        take(ids, 0, out, "clip")

    if padding_idx < 0 or not ids.size:
        return [run] if ids.size else []
    is_padding = scratch(ids.shape, bool)
    return [
        run,
        partial(np.equal, ids, padding_idx, is_padding),
        partial(np.copyto, out, out.dtype.type(0), where=is_padding[..., None]),
    ]
