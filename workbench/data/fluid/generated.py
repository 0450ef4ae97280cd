"""`fluid.io.DataLoader` and `fluid.io.PyReader`: loaders that are given a generator of samples or batches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from workbench.data.batched import batch
from workbench.data.fluid.feeder import DataFeeder, grouped
from workbench.data.loader import DataLoader
from workbench.data.prefetch import Prefetcher
from workbench.data.tensors import as_tensors
from workbench.errors import InvalidArgument, PreconditionNotMet, Unimplemented
from workbench.framework.program.guard import in_static_mode

Generator = Callable[[], Iterable[Any]]


class GeneratorLoader:
    """Iterates over what a generator gives, as feeds: `fluid.io.DataLoader.from_generator`.

    A program is fed lists with a dictionary `{name: array}` for each place; with `return_list`, lists of arrays. In
    dynamic mode an item is a list of tensors.

    Args:
        feed_list: the variables that are fed, in the order of a sample's fields; None in dynamic mode.
        capacity: how many items are made ahead by a thread, with `use_double_buffer`; 0 makes none.
        iterable: only True.
        return_list: whether items are lists, without names.
        use_multiprocess: accepted for Paddle's sake.
        drop_last: leave out what is too little for all places.

    Raises:
        Unimplemented: `iterable=False`, for which executors would read by themselves. InvalidArgument: no variables.

    Example:
        >>> import workbench.fluid as fluid
        >>> x = fluid.data("x", [None, 2])
        >>> loader = fluid.io.DataLoader.from_generator([x], capacity=2)
        >>> samples = lambda: (([i, i + 1],) for i in range(4))
        >>> _ = loader.set_sample_generator(samples, batch_size=2, places=fluid.cpu_places(1))
        >>> [feeds[0]["x"].tolist() for feeds in loader()]
        [[[0.0, 1.0], [1.0, 2.0]], [[2.0, 3.0], [3.0, 4.0]]]
    """

    def __init__(
        self,
        feed_list: Sequence[Any] | None = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
        use_multiprocess: bool = False,
        drop_last: bool = True,
    ) -> None:
        if not iterable:
            raise Unimplemented(
                "loaders are iterated over (iterable=True): for feed in loader(): exe.run(feed=feed); "
                "executors do not read from start() to reset() by themselves"
            )
        if feed_list is None and in_static_mode():
            raise InvalidArgument("a loader takes feed_list, the variables that a program is fed")
        self._feeder = DataFeeder(feed_list) if feed_list is not None else None
        self._ahead = int(capacity or 0) if use_double_buffer else 0
        self._is_plain = return_list
        self._drop_last = drop_last
        self._batches: Generator | None = None
        self._place_count = 1

    def set_sample_generator(
        self, reader: Generator, batch_size: int, drop_last: bool = True, places: Any = None
    ) -> GeneratorLoader:
        """Read samples: each a tuple of fields, or one field alone; `batch_size` of them are a batch."""

        def samples() -> Iterator[tuple[Any, ...]]:
            return (tuple(s) if isinstance(s, list | tuple) else (s,) for s in reader())

        return self.set_sample_list_generator(batch(samples, batch_size, drop_last), places)

    def set_sample_list_generator(self, reader: Generator, places: Any = None) -> GeneratorLoader:
        """Read batches: lists of samples, as `paddle.batch` makes them."""
        feeder = self._feeder
        if feeder is not None:
            return self._reads(lambda: map(feeder.feed, reader()), places)
        return self._reads(lambda: ([np.array(c) for c in zip(*rows, strict=True)] for rows in reader()), places)

    def set_batch_generator(self, reader: Generator, places: Any = None) -> GeneratorLoader:
        """Read batches: an array for each variable."""
        return self._reads(lambda: map(self._named, reader()), places)

    def _named(self, arrays: Any) -> Any:
        values = list(arrays) if isinstance(arrays, list | tuple) else [arrays]
        if self._feeder is None:
            return values
        names = self._feeder.feed_names
        if len(values) != len(names):
            raise InvalidArgument(f"a batch has an array for each of {', '.join(names)}, got {len(values)}")
        return dict(zip(names, values, strict=True))

    def _reads(self, batches: Generator, places: Any) -> GeneratorLoader:
        self._batches = batches
        self._place_count = len(places) if isinstance(places, list | tuple) else 1
        return self

    def __iter__(self) -> Iterator[Any]:
        if self._batches is None:
            raise PreconditionNotMet("a loader is given a generator first: set_sample_list_generator and its like")
        items = self._items()
        return Prefetcher(items, self._ahead) if self._ahead else items

    def _items(self) -> Iterator[Any]:
        assert self._batches is not None
        if not in_static_mode():
            return (as_tensors(self._without_names(b)) for b in self._batches())
        feeds = map(self._without_names, self._batches()) if self._is_plain else self._batches()
        return grouped(feeds, self._place_count, self._drop_last)

    def _without_names(self, feed: Any) -> list[Any]:
        return list(feed.values()) if isinstance(feed, dict) else list(feed)

    def __call__(self) -> Iterator[Any]:
        return iter(self)


class PyReader(GeneratorLoader):
    """`GeneratorLoader` with the names that 1.x had before: `decorate_sample_list_generator` and its like."""

    def __init__(
        self,
        feed_list: Sequence[Any] | None = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
    ) -> None:
        super().__init__(feed_list, capacity, use_double_buffer, iterable, return_list)

    def decorate_sample_generator(
        self, sample_generator: Generator, batch_size: int, drop_last: bool = True, places: Any = None
    ) -> None:
        """See `set_sample_generator`."""
        self.set_sample_generator(sample_generator, batch_size, drop_last, places)

    def decorate_sample_list_generator(self, reader: Generator, places: Any = None) -> None:
        """See `set_sample_list_generator`."""
        self.set_sample_list_generator(reader, places)

    def decorate_batch_generator(self, reader: Generator, places: Any = None) -> None:
        """See `set_batch_generator`."""
        self.set_batch_generator(reader, places)


class FeedLoader(DataLoader):
    """`io.DataLoader` in the form of 1.x: batches of a dataset are feed dictionaries, unless `return_list` is given."""

    def __init__(
        self,
        dataset: Any,
        feed_list: Sequence[Any] | None = None,
        places: Any = None,
        return_list: bool = False,
        *args: Any,
        **options: Any,
    ) -> None:
        super().__init__(dataset, feed_list, places, return_list or not in_static_mode(), *args, **options)

    @staticmethod
    def from_generator(
        feed_list: Sequence[Any] | None = None,
        capacity: int | None = None,
        use_double_buffer: bool = True,
        iterable: bool = True,
        return_list: bool = False,
        use_multiprocess: bool = False,
        drop_last: bool = True,
    ) -> GeneratorLoader:
        """A loader of what a generator gives; see `GeneratorLoader`."""
        return GeneratorLoader(feed_list, capacity, use_double_buffer, iterable, return_list, drop_last=drop_last)
