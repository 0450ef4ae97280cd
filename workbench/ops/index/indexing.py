"""`x[...]`: ints and ranges become one slice, index tensors a gather, None new dimensions."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, InvalidType, Unimplemented
from workbench.framework.op.infix import Infix, tensor_method
from workbench.framework.op.recorder import zero_dim
from workbench.ops.arguments import one_int
from workbench.ops.index.coordinates import GATHER_ND
from workbench.ops.index.gather import GATHER
from workbench.ops.index.picking import constant_index
from workbench.ops.index.selected import coordinates
from workbench.ops.tensor.join import stack
from workbench.ops.tensor.shape import RESHAPE, UNSQUEEZE
from workbench.ops.tensor.slicing import SLICE, STRIDED_SLICE
from workbench.ops.tensor.transpose import TRANSPOSE

FAR = 2**31 - 1  # stands for "to the end", whatever the dimension


class IndexOutOfRange(InvalidArgument, IndexError):
    """An integer index lies outside a dimension."""


@tensor_method("__getitem__")
def getitem(x: Any, item: Any) -> Any:
    """`x[item]` with NumPy's rules.

    Args:
        item: any mix of ints, slices, None, Ellipsis, lists or arrays of ints, and integer tensors. An
            integer tensor of shape [], in a program of shape [1] as well, stands for one int.
            Index tensors hold values in [0, dim); lists may hold negative ones where dim is known. A boolean mask
            stands for the places where it is True, of a tensor in a program as many as there are when it runs.

    Returns:
        the part; a result without dimensions has shape [1] in a program, as in Paddle 2.0 to 2.4, and [] in dynamic
        mode, where ints and slices give a view that shares the tensor's memory.

    Raises:
        IndexOutOfRange: an int outside a known dimension (an IndexError too).
        Unimplemented: a single truth value.
        InvalidArgument: more indices than dimensions; InvalidType: an index of another type.
    """
    given = item if isinstance(item, tuple) else (item,)
    unmasked = tuple(each for entry in given for each in _without_mask(entry))
    entries, ellipsis_at = _one_per_dimension(unmasked, len(x.shape))
    part = _basic_part(x, entries)
    if any(map(_is_array, entries)):
        return _advanced_part(x, part, entries, ellipsis_at)
    is_new = [e is None for e in entries if not _is_int(e)]
    # With nothing but ints and Nones the slice kept one dimension so as to have any.
    return RESHAPE(part, shape=[1] * len(is_new)) if is_new and all(is_new) else _new_axes(part, is_new)


def _is_int(entry: Any) -> bool:
    return type(entry) is int


def _is_array(entry: Any) -> bool:
    return not (entry is None or isinstance(entry, slice) or _is_int(entry))


def _one_per_dimension(item: tuple[Any, ...], rank: int) -> tuple[list[Any], int]:
    """One entry per dimension of the tensor, besides the Nones; and where the Ellipsis stood."""
    entries = [_plain(e) for e in item]
    places = [i for i, e in enumerate(entries) if e is Ellipsis]
    if len(places) > 1:
        raise InvalidArgument("an index holds at most one Ellipsis (...)")
    given = sum(e is not None and e is not Ellipsis for e in entries)
    if given > rank:
        raise InvalidArgument(f"too many indices\n  expected: at most {rank}\n  got:      {given}")
    at = places[0] if places else len(entries)
    return entries[:at] + [slice(None)] * (rank - given) + entries[at + 1 :], at


def _without_mask(entry: Any) -> Sequence[Any]:
    """A mask as the places where it is True, for each of its dimensions; any other entry as it is."""
    if not _is_mask(entry):
        return (entry,)
    if isinstance(entry, list | tuple):
        entry = np.asarray(entry)
    if isinstance(entry, np.ndarray) and entry.ndim and entry.dtype == np.bool_:
        return entry.nonzero()
    return coordinates(entry) if isinstance(entry, Infix) and len(entry.shape) else (entry,)


def _plain(entry: Any) -> Any:
    """An index entry, NumPy's integers as ints; single truth values are refused."""
    if entry is None or entry is Ellipsis or isinstance(entry, slice):
        return entry
    if _is_mask(entry):
        raise Unimplemented(
            "a single truth value gives a tensor with or without an element; use where(mask, x, y), or multiply by it"
        )
    if isinstance(entry, Infix | list | tuple) or getattr(entry, "ndim", 0) != 0:
        return entry
    try:
        return operator.index(entry)
    except TypeError:
        kind = type(entry).__name__
        raise InvalidType(f"a tensor is indexed by ints, slices, None, ... or integer tensors, got {kind}") from None


def _is_mask(entry: Any) -> bool:
    if isinstance(entry, list | tuple):
        return any(map(_is_mask, entry))
    return isinstance(entry, bool) or getattr(entry, "dtype", None) == "bool"


# Ints and slices


def _basic_part(x: Any, entries: list[Any]) -> Any:
    """The part that ints and slices name, with the dimensions of index tensors whole."""
    ranges: list[tuple[int, int, int, int]] = []
    gone = []
    for axis, entry in enumerate(e for e in entries if e is not None):
        if _is_int(entry):
            _require_index(entry, axis, x.shape[axis])
            ranges.append((axis, entry, entry + 1 or FAR, 1))
            gone.append(axis)
        elif isinstance(entry, slice) and entry != slice(None):
            ranges.append((axis, *_bounds(entry)))
    axes, starts, ends, strides = (list(column) for column in zip(*ranges, strict=True)) if ranges else ([], [], [], [])
    if any(s != 1 for s in strides):
        where: dict[str, Any] = {"axes": axes, "starts": starts, "ends": ends, "strides": strides}
        return STRIDED_SLICE(x, **where, decrease_axis=gone, zero_dim=zero_dim())
    if axes or not any(map(_is_array, entries)):
        return SLICE(x, axes=axes, starts=starts, ends=ends, decrease_axis=gone, zero_dim=zero_dim())
    return x


def _require_index(index: int, axis: int, dim: int) -> None:
    if dim >= 0 and not -dim <= index < dim:
        raise IndexOutOfRange(
            f"index {index} is out of range for dimension {axis}\n"
            f"  expected: an int in [{-dim}, {dim})\n  got:      {index}"
        )


def _bounds(entry: slice) -> tuple[int, int, int]:
    stride = 1 if entry.step is None else one_int("a slice's step", entry.step)
    if stride == 0:
        raise InvalidArgument("the step of a slice is not 0")
    first, last = (0, FAR) if stride > 0 else (FAR, -FAR)
    start = first if entry.start is None else one_int("a slice's start", entry.start)
    stop = last if entry.stop is None else one_int("a slice's stop", entry.stop)
    return start, stop, stride


def _new_axes(x: Any, layout: list[bool]) -> Any:
    """Insert a dimension wherever `layout` says True."""
    axes = [i for i, is_new in enumerate(layout) if is_new]
    return UNSQUEEZE(x, axes=axes) if axes else x


# Index tensors


def _advanced_part(x: Any, part: Any, entries: list[Any], ellipsis_at: int) -> Any:
    """Gather from `part`, which has a dimension for every slice and index tensor among the entries."""
    given = [(e, x.shape[axis]) for axis, e in enumerate(e for e in entries if e is not None)]
    indices = [_as_index(e, dim) for e, dim in given if _is_array(e)]
    axes = [i for i, e in enumerate(e for e in entries if e is not None and not _is_int(e)) if _is_array(e)]
    if len(indices) == 1:
        gathered, place = GATHER(part, indices[0], axis=axes[0]), axes[0]
    else:
        gathered, place = _gather_coordinates(part, indices, axes), 0
    count = len(gathered.shape) - (len(part.shape) - len(indices))  # dimensions that the indices make
    before = _entries_before_indices(entries, ellipsis_at)
    is_new = [e is None for e in entries if e is None or isinstance(e, slice)]
    gathered = _moved(gathered, place, count, to=is_new[:before].count(False))
    gathered = _new_axes(gathered, is_new[:before] + [False] * count + is_new[before:])
    return gathered if len(gathered.shape) or zero_dim() else RESHAPE(gathered, shape=[1])


def _as_index(entry: Any, dim: int) -> Any:
    if not isinstance(entry, Infix):
        return constant_index(entry, dim)
    if not entry.dtype.is_integer:
        raise InvalidType(f"an index tensor holds integers\n  expected: int32 or int64\n  got:      {entry.dtype}")
    return RESHAPE(entry, shape=[]) if tuple(entry.shape) == (1,) and not zero_dim() else entry


def _gather_coordinates(part: Any, indices: list[Any], axes: list[int]) -> Any:
    """The entries at the coordinates given by several indices; index dimensions come first."""
    order = [*axes, *(a for a in range(len(part.shape)) if a not in axes)]
    front = part if order == sorted(order) else TRANSPOSE(part, axis=order)
    return GATHER_ND(front, stack(_one_shape(indices), axis=-1))


def _one_shape(indices: list[Any]) -> list[Any]:
    """Index tensors broadcast together, as int64."""
    indices = [i.astype("int64") for i in indices]
    if len({tuple(i.shape) for i in indices}) == 1 and -1 not in indices[0].shape:
        return indices
    zero = sum((i * 0 for i in indices[1:]), indices[0] * 0)
    return [i + zero for i in indices]


def _entries_before_indices(entries: list[Any], ellipsis_at: int) -> int:
    """How many slices and Nones stand before the dimensions that the indices make.

    NumPy's rule: they stay in place if the indices (ints count) are neighbours, else they come first. An
    Ellipsis between them parts them even if it stands for no dimension.
    """
    is_index = [_is_array(e) or _is_int(e) for e in entries]
    first, last = is_index.index(True), len(is_index) - is_index[::-1].index(True)
    return first if all(is_index[first:last]) and not first < ellipsis_at < last else 0


def _moved(x: Any, place: int, count: int, to: int) -> Any:
    """`x` with the `count` dimensions from `place` on moved behind the first `to` others."""
    if place == to or not count:
        return x
    block = list(range(place, place + count))
    others = [a for a in range(len(x.shape)) if a not in block]
    return TRANSPOSE(x, axis=[*others[:to], *block, *others[to:]])
