"""What is done with a feed of one signature: decided once, when such a feed first comes, and then only carried out.

A signature is the names of a feed in order, with the type, shape and dtype of every array; of a list one per device.
`Splitter` decides, and explains what it refuses; a `FeedPlan` says which rows of which array go to which device, and a
`FeedConversion` makes arrays of what is none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import EllipsisType
from typing import Any, NamedTuple

import numpy as np

Arrays = dict[str, np.ndarray]
Index = slice | EllipsisType  # which rows of an array a device gets; `...` is the whole array
Row = tuple[tuple[str, Index], ...]  # of one device: (name, rows) for every variable
Signature = tuple[Any, ...]

_NO_ARRAYS = object()


class FeedPlan(NamedTuple):
    """The rows each device gets, for feeds of one signature.

    Attributes:
        data: one row per active device. persistable: one row per device, empty if there are no such feeds (X-19).
        devices: number of all of them.
        rows: for every variable in `data`, the rows each active device gets (a 0-d array counts as one).
    """

    data: list[Row]
    persistable: list[Row]
    devices: int
    rows: Mapping[str, tuple[int, ...]]

    def hand_out(self, dicts: Sequence[Mapping[str, np.ndarray]]) -> Fed:
        """Element i for device i; the last devices may get none."""
        return Fed(self, [*dicts, *[_NOTHING] * (self.devices - len(dicts))])


_NOTHING: Mapping[str, np.ndarray] = {}


class FeedConversion(NamedTuple):
    """From a feed with values of certain types to arrays by name.

    Attributes:
        entries: of every value its key in the feed, its name, and what makes an array of it.
    """

    entries: tuple[tuple[Any, str, Callable[[Any], np.ndarray]], ...]

    def __call__(self, feed: Mapping[Any, Any]) -> Arrays:
        return {name: convert(feed[key]) for key, name, convert in self.entries}


class Fed:
    """What the devices are fed in one step; every array is a view of the user's.

    Args:
        plan: the same object comes back for the same signature only, as long as it is remembered.
        sources: the dict each device's rows are taken from.
    """

    __slots__ = ("_data", "_persistable", "plan", "sources")

    def __init__(self, plan: FeedPlan, sources: Sequence[Mapping[str, np.ndarray]]) -> None:
        self.plan, self.sources = plan, sources
        self._data: list[Arrays] | None = None
        self._persistable: list[Arrays] | None = None

    @property
    def active(self) -> int:
        """Number of devices that take part, the first ones; fewer than all only where `partial` allows it."""
        return len(self.plan.data)

    @property
    def is_divided(self) -> bool:
        """Whether one batch was split over the devices; else each was given its own."""
        return all(source is self.sources[0] for source in self.sources)

    @property
    def rows(self) -> Mapping[str, tuple[int, ...]]:
        """Of the plan."""
        return self.plan.rows

    @property
    def per_device(self) -> list[Arrays]:
        """For each device that takes part, its data by name."""
        if self._data is None:
            self._data = _cut(self.sources, self.plan.data)
        return self._data

    @property
    def persistable(self) -> list[Arrays]:
        """For each device, idle ones too, what is fed for persistable variables."""
        if self._persistable is None:
            self._persistable = _cut(self.sources, self.plan.persistable or [()] * self.plan.devices)
        return self._persistable

    def feeding(self, persistable: Sequence[Mapping[str, np.ndarray]]) -> Fed:
        """The same data with other arrays for persistable variables."""
        kept: list[Row] = [tuple((name, ...) for name in arrays) for arrays in persistable]
        data: list[Row] = [tuple((name, ...) for name in arrays) for arrays in self.per_device]
        sources = [dict(arrays) for arrays in persistable]
        for source, arrays in zip(sources, self.per_device):
            source.update(arrays)
        return Fed(FeedPlan(data, kept, self.plan.devices, self.rows), sources)


def _cut(sources: Sequence[Mapping[str, np.ndarray]], rows: list[Row]) -> list[Arrays]:
    return [{name: source[name][index] for name, index in row} for source, row in zip(sources, rows)]


def signature_of(arrays: Mapping[Any, Any]) -> Signature:
    """Names, shapes and dtypes of a feed; what is no array has no signature that was ever kept.

    The type belongs to it: other libraries' arrays have shapes and dtypes too, and are converted first.
    """
    signature: Signature = ()
    try:
        for name, array in arrays.items():
            signature += name, type(array), array.shape, array.dtype
    except AttributeError:
        return (_NO_ARRAYS,)
    return signature


def types_of(feed: Mapping[Any, Any]) -> Signature:
    """Keys and types of a feed: what its conversion depends on."""
    return *feed, *map(type, feed.values())
