"""From every device's value of a fetched variable to what the user gets (rules X-41 … X-43, X-45).

The devices' arrays one after the other on dimension 0. Nothing is averaged: N devices' losses `[1]` make `[N]` (X-45).
The result is a copy, which never changes afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import setitem
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, InvalidType
from workbench.executors.fetching.fetch import fetchable
from workbench.framework.values.number import allocator
from workbench.framework.values.place import Place, place_text
from workbench.framework.values.spec import Shape, shape_text, size_of
from workbench.runtime.undisturbed import Call, in_one_call


def check_merge(
    name: str, shapes: Sequence[Shape | None], training: bool, places: Sequence[Place] = ()
) -> Shape | None:
    """Whether the devices' values of a variable can be joined on dimension 0 (X-42).

    Args:
        shapes: one per device, None for a device without a value. A single device's value is taken as it is; among
            several, `[]` counts as `[1]`, and values without elements are left out unless all are the same.
        training: whether the message suggests to fetch without merging.
        places: what the message calls the devices; by their indexes, if there are none.

    Returns:
        the shape of the merged value, None if no device has one.

    Raises:
        InvalidArgument: different ranks, or dimensions other than the first differ.
    """
    first = shapes[0]
    if len(shapes) == 1:
        return first
    if first and shapes.count(first) == len(shapes):  # as good as always
        return (len(shapes) * first[0], *first[1:])
    return _joined_shape(name, shapes, training, places)


def _joined_shape(name: str, shapes: Sequence[Shape | None], training: bool, places: Sequence[Place]) -> Shape | None:
    taken = _taken(shapes)
    if not taken:
        return next((shape or (1,) for shape in shapes if shape is not None), None)
    first, *others = ((device, shapes[device] or (1,)) for device in taken)
    for other in others:
        if other[1][1:] != first[1][1:]:
            raise _different(name, first, other, training, places)
    return (sum(_rows(shapes[device]) for device in taken), *first[1][1:])


def _taken(shapes: Sequence[Shape | None]) -> list[int]:
    """The devices that contribute elements."""
    return [device for device, shape in enumerate(shapes) if shape is not None and size_of(shape)]


def _rows(shape: Shape | None) -> int:
    return shape[0] if shape else 1


def _different(
    name: str, a: tuple[int, Shape], b: tuple[int, Shape], training: bool, places: Sequence[Place]
) -> InvalidArgument:
    advice = (
        "fetch it from every device with Executor.run(..., return_merged=False)"
        if training
        else "feed batches that give every device such shapes, or run it on one device"
    )
    return InvalidArgument(
        f"fetch {name!r}: the devices' values cannot be merged on dimension 0; {advice}\n"
        f"  expected: equal ranks, and equal dimensions after the first\n"
        f"  got:      {', '.join(f'{shape_text(shape)} on {place_text(places, device)}' for device, shape in (a, b))}"
    )


class Merger:
    """A merge prepared for known shapes: memory is taken before a step commits, and filled afterwards.

    Args:
        name: the variable, for messages.
        shapes: of each device's value, None for a device without one.
        dtype: of all of them.
        training, places: see `check_merge`.

    Attributes:
        shape: of the merged value, None if no device has one.

    Raises:
        InvalidArgument: the shapes cannot be merged (X-42).
    """

    def __init__(
        self,
        name: str,
        shapes: Sequence[Shape | None],
        dtype: Any,
        training: bool = True,
        places: Sequence[Place] = (),
    ) -> None:
        self.shape, self.dtype = check_merge(name, shapes, training, places), np.dtype(dtype)
        self._allocate = allocator(self.shape or ())
        self._taken = _taken(shapes)
        # np.concatenate does without views of the parts, but does not take what has no dimensions.
        self._plain = len(shapes) > 1 and len(self._taken) == len(shapes) and () not in shapes

    def allocate(self) -> np.ndarray | None:
        """Memory for the result, its content undefined; None if no device has a value."""
        return None if self.shape is None else self._allocate(self.shape, self.dtype)

    def fill(self, out: np.ndarray | None, arrays: Sequence[Any]) -> None:
        """Copy the devices' arrays, of the shapes announced, into what `allocate` gave."""
        if out is None:
            return
        if self._plain:
            np.concatenate(arrays, out=out)
        elif len(arrays) == 1:
            out[...] = arrays[0]
        else:
            in_one_call(self.filling(out, arrays))

    def filling(self, out: np.ndarray | None, arrays: Sequence[Any]) -> list[Call]:
        """`fill` as C functions."""
        if out is None:
            return []
        if len(arrays) == 1:
            return [partial(setitem, out, ..., arrays[0])]
        calls: list[Call] = []
        start = 0
        for device in self._taken:
            end = start + _rows(arrays[device].shape)
            calls.append(partial(setitem, out, slice(start, end), arrays[device]))
            start = end
        return calls


def merge(name: str, values: Sequence[Any], training: bool = True, places: Sequence[Place] = ()) -> np.ndarray | None:
    """The devices' values of a variable joined on dimension 0 in device order (X-41).

    Args:
        values: one per device: an array, a sparse gradient (made dense), or None for a device that has no value or
            took no part.
        training, places: see `check_merge`.

    Returns:
        a new array; that of a single device keeps its shape. None if no device has a value.

    Raises:
        InvalidArgument: the values cannot be merged (X-42), or are what a branch or loop keeps for its gradient.
        InvalidType: their dtypes differ.
    """
    arrays = [None if value is None else fetchable(value) for value in values]
    dtypes = dict.fromkeys(array.dtype for array in arrays if array is not None and array.size)
    if len(dtypes) > 1:
        raise InvalidType(f"fetch {name!r}: the devices' values have different dtypes: {', '.join(map(str, dtypes))}")
    shapes = [None if array is None else array.shape for array in arrays]
    dtype = next(iter(dtypes), None) or next((array.dtype for array in arrays if array is not None), np.float32)
    merger = Merger(name, shapes, dtype, training, places)
    out = merger.allocate()
    merger.fill(out, arrays)
    return out
