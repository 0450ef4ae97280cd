"""Tensor with everything that needs ops: indexing, and methods that write in place.

Users get the class from here; the files that make tensors need not load the ops.
"""

from __future__ import annotations

from operator import index
from typing import Any

import numpy as np

import workbench.ops  # noqa: F401 (methods and operators every tensor has)
from workbench.dygraph.tensor import inplace, operators, varying, views  # noqa: F401 (they attach theirs)
from workbench.dygraph.tensor.tensor import Tensor
from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.gradmode import recording_gradients
from workbench.framework.op.infix import is_number
from workbench.framework.op.recorder import zero_dim
from workbench.framework.values.dtype import bool_
from workbench.ops.index.indexing import FAR, IndexOutOfRange, getitem
from workbench.ops.index.put import PUT_AT
from workbench.ops.tensor.shape import RESHAPE
from workbench.ops.tensor.slicing import SLICE

__all__ = ["Tensor"]


def _get(x: Tensor, item: Any) -> Any:
    """`x[item]`; a boolean mask picks the elements where it is True."""
    entries = item if type(item) is tuple else (item,)
    part = _part(x, entries)
    if part is not None:
        return part
    if any(map(_is_mask, entries)):
        item = tuple(entry_part for entry in entries for entry_part in _without_mask(entry))
    return getitem(x, item)


def _part(x: Tensor, entries: tuple[Any, ...]) -> Any:
    """`x[entries]`, the quick way for ints and slices without a step; None for other entries, and wrong ones."""
    shape = x.kind.shape
    if len(entries) > len(shape):
        return None
    axes, starts, ends, gone = [], [], [], []
    for axis, entry in enumerate(entries):
        if type(entry) is int:
            if not -shape[axis] <= entry < shape[axis]:
                return None
            first, last = entry, entry + 1 or FAR
            gone.append(axis)
        elif type(entry) is slice and entry.step is None:
            first, last = entry.start or 0, FAR if entry.stop is None else entry.stop
            if not type(first) is int is type(last):
                return None
        else:
            return None
        axes.append(axis)
        starts.append(first)
        ends.append(last)
    return SLICE(x, axes=axes, starts=starts, ends=ends, decrease_axis=gone, zero_dim=zero_dim())


def _is_mask(entry: Any) -> bool:
    if isinstance(entry, list):
        return any(map(_is_mask, entry))
    if isinstance(entry, bool):
        return True
    return entry.dtype == bool_ if isinstance(entry, Tensor) else getattr(entry, "dtype", None) == np.bool_


def _without_mask(entry: Any) -> Any:
    """A mask as the indices of its True elements, one array per dimension."""
    if not _is_mask(entry):
        return (entry,)
    mask = np.asarray(entry.as_read() if isinstance(entry, Tensor) else entry)
    return mask.nonzero() if mask.ndim else ((None, np.zeros(int(mask), np.int64)) if not mask else (None,))


def _set(x: Tensor, item: Any, value: Any) -> None:
    """`x[item] = value` with NumPy's rules.

    Args:
        item: ints, slices, None, Ellipsis, lists, arrays or tensors of ints, boolean masks.
        value: a number, array or tensor that broadcasts to the part.

    Raises:
        IndexOutOfRange: an index outside a dimension.
        InvalidArgument: a value of another shape; or `x` is a leaf that wants a gradient, while gradients are recorded.
    """
    x._require_writable("x[...] = value")
    where = _as_numpy(item)
    given = _as_value(x, value)
    wants = not x.stop_gradient or not given.stop_gradient
    if (wants and recording_gradients.get()) or not given.has_value:
        x._become(_put(x, where, given), "x[...] = value")
        return
    x._require_unrecorded("x[...] = value")
    target = x.array if x.array.flags.writeable else x.array.copy()
    try:
        target[where] = given.as_read()
    except (IndexError, ValueError) as error:
        raise _refused(x, error) from None
    x._changed(target, "x[...] = value")


def _put(x: Tensor, where: Any, value: Tensor) -> Any:
    places = np.arange(x.size).reshape(x.kind.shape)
    try:
        positions = places[where]
        np.broadcast_shapes(positions.shape, value.kind.shape)
    except (IndexError, ValueError) as error:
        raise _refused(x, error) from None
    while value.ndim > positions.ndim and value.shape[0] == 1:
        value = RESHAPE(value, shape=value.shape[1:])
    return PUT_AT(inplace.as_it_was(x), Tensor(np.asarray(positions)), value)


def _refused(x: Tensor, error: Exception) -> Exception:
    kind = IndexOutOfRange if isinstance(error, IndexError) else InvalidArgument
    return kind(f"a tensor of shape {x.shape} cannot be written to there: {error}")


def _as_numpy(item: Any) -> Any:
    if isinstance(item, tuple):
        return tuple(_as_numpy(entry) for entry in item)
    if isinstance(item, list):
        return [_as_numpy(entry) for entry in item]
    if isinstance(item, slice):
        return slice(*(_as_bound(part) for part in (item.start, item.stop, item.step)))
    if not isinstance(item, Tensor):
        return item
    return item.as_read() if item.ndim else item.as_read()[()]


def _as_bound(part: Any) -> Any:
    """Where a slice begins or ends; a tensor of one integer, whatever its shape, stands for that."""
    array = part.as_read() if isinstance(part, Tensor) else part
    if isinstance(array, np.ndarray) and array.size == 1:
        array = array.reshape(())[()]
    try:
        return None if array is None else index(array)
    except TypeError:
        text = f"a slice takes ints, None or tensors of one integer, got {type(part).__name__} {part!r}"
        raise InvalidType(text) from None


def _as_value(x: Tensor, value: Any) -> Tensor:
    if isinstance(value, Tensor):
        return value if value.dtype is x.dtype else value.astype(x.dtype)
    if is_number(value) or isinstance(value, list | tuple | np.ndarray):
        return Tensor(np.asarray(value).astype(x.array.dtype))
    raise InvalidType(f"a tensor's elements are numbers, arrays or tensors, got {type(value).__name__} {value!r}")


setattr(Tensor, "__getitem__", _get)  # noqa: B010 (mypy: a method is not assigned to)
setattr(Tensor, "__setitem__", _set)  # noqa: B010
