"""Prepared calls of softmax, of cross entropy and of their gradients (see `bound`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from workbench.framework.values.spec import Spec, normalize_axis
from workbench.framework.values.sums import add_up_along, add_up_into, chained_axis
from workbench.ops.bound import Calls, Scratch, is_plain, or_scratch
from workbench.ops.index.label import checked_labels, reduced_shape
from workbench.ops.index_range import in_range_check


def _shifted(x: np.ndarray, axis: int, out: np.ndarray, scratch: Scratch) -> Calls:
    """x - max along `axis` into `out`.

    Along the last axis `argmax` finds the maximum in half the time of `maximum.reduce`. Of two zeros of different
    sign it may choose the other one, which exp(x - max) does not show.
    """
    top = scratch(reduced_shape(x.shape, axis), x.dtype)
    if axis != x.ndim - 1:
        return [partial(np.maximum.reduce, x, axis, None, top, True), partial(np.subtract, x, top, out)]
    flat, rows, width = x.reshape(-1), top.size, x.shape[axis]
    starts, place, values = np.arange(rows) * width, scratch((rows,), np.intp), top.reshape(-1)
    return [
        partial(x.reshape(rows, width).argmax, 1, place),
        partial(np.add, starts, place, place),
        partial(flat.take, place, None, values, "clip"),
        partial(np.subtract, x, top, out),
    ]


def _summed(x: np.ndarray, axis: int, out: np.ndarray) -> Callable[[], Any]:
    """The sum along an axis, which `out` keeps with size 1."""
    if chained_axis(x, (axis,)) is not None:
        return partial(add_up_into, x, (axis,), out)
    return partial(np.add.reduce, x, axis, None, out, True)


def prepare_softmax(x: Spec, axis: int) -> Callable[..., Any] | None:
    """`prepare` of softmax: of floats that are summed in their own precision."""
    if x.dtype.name not in ("float32", "float64") or 0 in x.shape:
        return None
    most: Any = np.maximum.reduce
    is_last = normalize_axis(axis, len(x.shape)) == len(x.shape) - 1
    total: Any = partial(np.add.reduce, keepdims=True) if is_last else add_up_along

    def body(array: Any) -> Any:
        grown = np.subtract(array, most(array, axis, None, None, True))
        np.exp(grown, grown)
        return np.divide(grown, total(grown, axis), grown)

    return body


def bind_softmax(outs: Sequence[Any], arrays: Sequence[Any], scratch: Scratch, axis: int) -> Calls | None:
    """`bind` of softmax."""
    (out,), (x,) = outs, arrays
    if not is_plain(x, out) or not x.size:
        return None
    axis = normalize_axis(axis, x.ndim)
    total = scratch(reduced_shape(x.shape, axis), x.dtype)
    return [
        *_shifted(x, axis, out, scratch),
        partial(np.exp, out, out),
        _summed(out, axis, total),
        partial(np.divide, out, total, out),
    ]


def bind_softmax_grad(outs: Sequence[Any], arrays: Sequence[Any], scratch: Scratch, axis: int) -> Calls | None:
    """`bind` of softmax_grad: y g - y sum(y g)."""
    (out,), (_, y, g) = outs, arrays
    if not is_plain(y, out) or not is_plain(g, out):
        return None
    axis = normalize_axis(axis, y.ndim)
    total, share = scratch(reduced_shape(y.shape, axis), y.dtype), scratch(y.shape, y.dtype)
    return [
        partial(np.multiply, y, g, out),
        _summed(out, axis, total),
        partial(np.multiply, y, total, share),
        partial(np.subtract, out, share, out),
    ]


# Class labels


class Places:
    """Where class labels point in scores that lie in memory row by row.

    Attributes:
        flat: index into the flattened scores, one per label, in the shape of the scores with 1 along the axis.
        find: brings `flat` up to date with the labels. Returns where they are ignored (their index is that of
            class 0), or None if none is. Raises InvalidArgument as `forward` does.
    """

    def __init__(self, label: np.ndarray, shape: tuple[int, ...], axis: int, ignore: int, scratch: Scratch) -> None:
        kept = reduced_shape(shape, axis)
        classes, inner = shape[axis], math.prod(shape[axis + 1 :])
        whole = np.arange(math.prod(shape)).reshape(shape)
        starts = np.ascontiguousarray(whole.take([0], axis))
        self.flat = scratch(kept, np.intp)
        self.find = self._finder(label, shape, axis, ignore, starts, inner, classes)

    def _finder(
        self, label: np.ndarray, shape: tuple[int, ...], axis: int, ignore: int,
        starts: np.ndarray, inner: int, classes: int,
    ) -> Callable[[], Any]:  # fmt: skip
        flat, index = self.flat, label.reshape(starts.shape)
        signed = index.view(np.int64) if label.itemsize == 8 else index
        in_range = (lambda: False) if 0 <= ignore < classes else in_range_check(label, classes)
        add, multiply, step = np.add, np.multiply, np.full(1, inner)

        def find() -> Any:
            given, ignored = signed, None
            if not in_range():
                given, ignored = checked_labels(np, "softmax_with_cross_entropy", label, shape, axis, ignore)
                given = given.astype(np.int64)
            if inner == 1:
                add(starts, given, flat)
            else:
                multiply(given, step, flat)
                add(starts, flat, flat)
            return ignored

        return find


def _has_places(label: Any) -> bool:
    return isinstance(label, np.ndarray) and label.dtype.kind in "iu" and label.flags.c_contiguous


# softmax_with_cross_entropy


def bind_cross_entropy(
    outs: Sequence[Any], arrays: Sequence[Any], scratch: Scratch,
    soft_label: bool, ignore_index: int, axis: int, **attrs: Any,
) -> Calls | None:  # fmt: skip
    """`bind` of softmax_with_cross_entropy."""
    (softmax, loss), (logits, label) = outs, arrays
    if not is_plain(logits, *outs) or not logits.size or not (soft_label or _has_places(label)):
        return None
    axis = normalize_axis(axis, logits.ndim)
    shifted = scratch(logits.shape, logits.dtype)
    grown = or_scratch(softmax, scratch, logits.shape, logits.dtype)
    kept = reduced_shape(logits.shape, axis)
    total = scratch(kept, logits.dtype)
    calls: Calls = [
        *_shifted(logits, axis, shifted, scratch),
        partial(np.exp, shifted, grown),
        _summed(grown, axis, total),
        partial(np.divide, grown, total, grown),
        partial(np.log, total, total),
    ]
    loss = or_scratch(loss, scratch, kept, logits.dtype)
    if not soft_label:
        return [*calls, _hard_loss(shifted, total, loss, Places(label, logits.shape, axis, ignore_index, scratch))]
    if not is_plain(logits, label):
        return None
    return [
        *calls,
        partial(np.subtract, total, shifted, shifted),
        partial(np.multiply, label, shifted, shifted),
        _summed(shifted, axis, loss),
    ]


def _hard_loss(shifted: np.ndarray, log_total: np.ndarray, loss: np.ndarray, places: Places) -> Callable[[], None]:
    """`log_total - shifted[label]`, 0 where the label is ignored; one call, for it has to look at the labels."""
    find, flat, take, subtract = places.find, places.flat, shifted.reshape(-1).take, np.subtract

    def run() -> None:
        ignored = find()
        take(flat, None, loss, "clip")
        subtract(log_total, loss, loss)
        if ignored is not None:
            loss[ignored] = 0

    return run


def bind_cross_entropy_grad(
    outs: Sequence[Any], arrays: Sequence[Any], scratch: Scratch,
    soft_label: bool, ignore_index: int, axis: int, **attrs: Any,
) -> Calls | None:  # fmt: skip
    """`bind` of softmax_with_cross_entropy_grad, if only the loss has a gradient."""
    (out,), (_, label, softmax, g_softmax, g) = outs, arrays
    if g_softmax is not None or g is None or not is_plain(softmax, g, out):
        return None
    axis = normalize_axis(axis, softmax.ndim)
    if soft_label:
        return _soft_grad(out, label, softmax, g, axis, scratch)
    if not _has_places(label):
        return None
    return [_hard_grad(out, softmax, g, Places(label, softmax.shape, axis, ignore_index, scratch), scratch)]


def _hard_grad(out: np.ndarray, softmax: np.ndarray, g: np.ndarray, places: Places, scratch: Scratch) -> Any:
    """`softmax * g`, and g taken off where the labels point."""
    picked, flat_out = scratch(g.shape, g.dtype), out.reshape(-1)
    find, flat, take, put = places.find, places.flat, flat_out.take, flat_out.put
    multiply, subtract, zero = np.multiply, np.subtract, g.dtype.type(0)

    def run() -> None:
        ignored = find()
        weight = g if ignored is None else np.where(ignored, zero, g)
        multiply(softmax, weight, out)
        take(flat, None, picked, "clip")
        subtract(picked, weight, picked)
        put(flat, picked, "clip")

    return run


def _soft_grad(
    out: np.ndarray, label: Any, softmax: np.ndarray, g: np.ndarray, axis: int, scratch: Scratch
) -> Calls | None:
    """(softmax sum(label) - label) g."""
    if not is_plain(softmax, label):
        return None
    total = scratch(reduced_shape(softmax.shape, axis), softmax.dtype)
    return [
        _summed(label, axis, total),
        partial(np.multiply, softmax, total, out),
        partial(np.subtract, out, label, out),
        partial(np.multiply, out, g, out),
    ]
