"""Readers of Paddle 1.x (`fluid.io.shuffle` …), functions that give samples to iterate over, made of other readers."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import numpy as np

from workbench.data.prefetch import Prefetcher
from workbench.errors import InvalidArgument

Reader = Callable[[], Iterable[Any]]


class ComposeNotAligned(InvalidArgument):
    """One of several readers has fewer samples than another."""


def shuffle(reader: Reader, buf_size: int) -> Callable[[], Iterator[Any]]:
    """The samples of a reader in random order, within stretches of `buf_size` samples; NumPy's global generator
    chooses, so that `numpy.random.seed` repeats it.

    Raises:
        InvalidArgument: buf_size < 1.

    Example:
        >>> import workbench.fluid as fluid
        >>> sorted(fluid.io.shuffle(lambda: range(5), buf_size=3)())
        [0, 1, 2, 3, 4]
    """
    size = _at_least_one("shuffle's buf_size", buf_size)

    def shuffled() -> Iterator[Any]:
        samples = iter(reader())
        while stretch := list(itertools.islice(samples, size)):
            yield from (stretch[i] for i in np.random.permutation(len(stretch)))

    return shuffled


def _at_least_one(what: str, count: Any) -> int:
    if int(count) < 1:
        raise InvalidArgument(f"{what} is at least 1, got {count!r}")
    return int(count)


def buffered(reader: Reader, size: int) -> Callable[[], Iterator[Any]]:
    """The samples of a reader, read up to `size` ahead by a thread.

    Raises:
        InvalidArgument: size < 1.
    """
    depth = _at_least_one("buffered's size", size)
    return lambda: Prefetcher(iter(reader()), depth)


def chain(*readers: Reader) -> Callable[[], Iterator[Any]]:
    """The samples of several readers, one reader after the other."""
    return lambda: itertools.chain.from_iterable(reader() for reader in readers)


def compose(*readers: Reader, check_alignment: bool = True) -> Callable[[], Iterator[tuple[Any, ...]]]:
    """Samples of several readers side by side: the fields of all of them in one tuple.

    Args:
        check_alignment: False stops where the first reader ends.

    Raises:
        ComposeNotAligned: when read, a reader ends before another.

    Example:
        >>> import workbench.fluid as fluid
        >>> list(fluid.io.compose(lambda: [1, 2], lambda: [("a", "b"), ("c", "d")])())
        [(1, 'a', 'b'), (2, 'c', 'd')]
    """
    end = object()

    def composed() -> Iterator[tuple[Any, ...]]:
        rows = itertools.zip_longest(*(reader() for reader in readers), fillvalue=end)
        for row in rows:
            if any(field is end for field in row):
                if check_alignment:
                    raise ComposeNotAligned("compose takes readers of as many samples, one ended before another")
                return
            yield tuple(itertools.chain.from_iterable(f if isinstance(f, tuple) else (f,) for f in row))

    return composed


def map_readers(func: Callable[..., Any], *readers: Reader) -> Callable[[], Iterator[Any]]:
    """What a function makes of a sample of each reader."""
    return lambda: map(func, *(reader() for reader in readers))


def firstn(reader: Reader, n: int) -> Callable[[], Iterator[Any]]:
    """The first `n` samples of a reader."""
    return lambda: itertools.islice(reader(), n)


def cache(reader: Reader) -> Callable[[], Iterator[Any]]:
    """The samples of a reader, read once, now, and kept in memory."""
    samples = tuple(reader())
    return lambda: iter(samples)


def xmap_readers(
    mapper: Callable[[Any], Any], reader: Reader, process_num: int, buffer_size: int, order: bool = False
) -> Callable[[], Iterator[Any]]:
    """What a function makes of each sample, by several threads.

    Args:
        process_num: how many threads. buffer_size: how many samples are on their way at most.
        order: accepted for Paddle's sake; results come in order in any case.

    Raises:
        InvalidArgument: a number below 1. Whatever the function raises, when read.
    """
    threads, room = _at_least_one("process_num", process_num), _at_least_one("buffer_size", buffer_size)

    def mapped() -> Iterator[Any]:
        with ThreadPoolExecutor(threads, "workbench-reader") as pool:
            samples, under_way = iter(reader()), deque[Future[Any]]()
            try:
                for sample in samples:
                    under_way.append(pool.submit(mapper, sample))
                    if len(under_way) >= room:
                        yield under_way.popleft().result()
                while under_way:
                    yield under_way.popleft().result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    return mapped
