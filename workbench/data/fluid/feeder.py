"""`fluid.DataFeeder`: samples as rows of arrays that a program is fed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.program.guard import default_main_program
from workbench.framework.program.program import Program
from workbench.framework.program.variable import Variable
from workbench.framework.values.spec import shape_text


class DataFeeder:
    """Makes feeds of lists of samples, with the dtypes and shapes of variables.

    Args:
        feed_list: variables, or their names, in the order of a sample's fields.
        place: accepted for Paddle's sake: executors bring feeds where they are needed.
        program: where names are looked up, the default main program if None.

    Raises:
        InvalidArgument: no variable of that name. InvalidType: neither a variable nor a name.

    Example:
        >>> import workbench.fluid as fluid
        >>> x, label = fluid.data("x", [None, 2]), fluid.data("label", [None, 1], "int64")
        >>> feed = fluid.DataFeeder([x, label], fluid.CPUPlace()).feed([([1.0, 2.0], 3), ([4.0, 5.0], 6)])
        >>> feed["x"].shape, feed["label"].tolist()
        ((2, 2), [[3], [6]])
    """

    def __init__(self, feed_list: Sequence[Any], place: Any = None, program: Program | None = None) -> None:
        self.place = place
        self.variables = [_variable(given, program) for given in feed_list]
        self.feed_names = [variable.name for variable in self.variables]

    def feed(self, iterable: Iterable[Sequence[Any]]) -> dict[str, np.ndarray]:
        """An array for each variable, with a row for each sample.

        Args:
            iterable: samples, each with a field for every variable: numbers, lists or arrays. Fields are given the
                variable's shape where they have another number of dimensions, as `[N, 1]` for plain labels.

        Raises:
            InvalidArgument: a sample with more or fewer fields, fields that do not fit the variable.
        """
        samples = list(iterable)
        for sample in samples:
            if len(sample) != len(self.variables):
                raise InvalidArgument(
                    f"every sample has a field for each of {', '.join(self.feed_names)}, got one with {len(sample)}"
                )
        columns = zip(*samples, strict=True) if samples else [()] * len(self.variables)
        return {v.name: _rows(v, column) for v, column in zip(self.variables, columns, strict=True)}

    def feed_parallel(
        self, iterable: Iterable[Iterable[Sequence[Any]]], num_places: int | None = None
    ) -> Iterator[dict[str, np.ndarray]]:
        """A feed for each device, of a list of samples for each.

        Raises:
            InvalidArgument: as `feed`; another number of lists than `num_places`.
        """
        lists = list(iterable)
        if num_places is not None and len(lists) != num_places:
            raise InvalidArgument(f"feed_parallel takes a list of samples for each of {num_places}, got {len(lists)}")
        return map(self.feed, lists)

    def decorate_reader(
        self,
        reader: Callable[[], Iterable[Any]],
        multi_devices: bool,
        num_places: int | None = None,
        drop_last: bool = True,
    ) -> Callable[[], Iterator[Any]]:
        """A reader of feeds, of one of lists of samples; for several devices a list of one feed each.

        Args:
            multi_devices: whether feeds are for `num_places` devices. drop_last: leave out what is too little for all.

        Raises:
            InvalidArgument: no number of places; when read, too few lists for all devices, unless they are dropped.
        """
        if not multi_devices:
            return lambda: map(self.feed, reader())
        if num_places is None:
            raise InvalidArgument("decorate_reader for several devices takes num_places, how many they are")
        return lambda: grouped(map(self.feed, reader()), num_places, drop_last)


def grouped(feeds: Iterable[Any], count: int, drop_last: bool) -> Iterator[list[Any]]:
    """Lists of `count` feeds, one for each device.

    Raises:
        InvalidArgument: too few are left for all devices, unless they are dropped.
    """
    group = []
    for feed in feeds:
        group.append(feed)
        if len(group) == count:
            yield group
            group = []
    if group and not drop_last:
        raise InvalidArgument(f"{len(group)} feeds are left for {count} devices; drop_last=True leaves them out")


def _variable(given: Any, program: Program | None) -> Variable:
    if isinstance(given, str):
        return (program or default_main_program()).global_block().var(given)
    if not isinstance(given, Variable):
        raise InvalidType(f"DataFeeder takes variables, or their names, got {given!r}")
    return given


def _rows(variable: Variable, column: Sequence[Any]) -> np.ndarray:
    try:
        rows = np.array(column, variable.dtype.numpy)
        unknown = sum(size < 0 for size in variable.shape)
        if rows.ndim != len(variable.shape) and unknown <= 1:
            rows = rows.reshape(variable.shape)
    except ValueError as error:
        raise InvalidArgument(
            f"{len(column)} samples do not make an array for {variable.name!r}, "
            f"{variable.dtype}{shape_text(variable.shape)}: {error}"
        ) from None
    return rows
