"""Loader workers: which of several a dataset is read for. They take turns on one thread; none is a process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from itertools import islice
from typing import Any, NamedTuple

from workbench.framework.current import Current, Replaced

Sample = tuple[int, Any]


class WorkerInfo(NamedTuple):
    """A worker as the dataset it reads sees it.

    Attributes:
        id: from 0. num_workers: how many there are. dataset: this worker's copy of the dataset. seed: of this worker.
    """

    id: int
    num_workers: int
    dataset: Any
    seed: int


_current: Current[WorkerInfo | None] = Current("workbench_loader_worker", None)


def get_worker_info() -> WorkerInfo | None:
    """The worker a dataset is being read for; None outside of `DataLoader(num_workers=N)`.

    Example:
        >>> class Range(wb.io.IterableDataset):
        ...     def __iter__(self):
        ...         worker = wb.io.get_worker_info()
        ...         yield from range(worker.id, 6, worker.num_workers)
        >>> [batch.tolist() for batch in wb.io.DataLoader(Range(), batch_size=2, num_workers=2)]
        [[0, 2], [1, 3], [4], [5]]
    """
    return _current.get()


def working(info: WorkerInfo) -> Replaced:
    """Read for a worker in the `with` body."""
    return _current.replaced(info)


def workers_of(dataset: Any, count: int, begin: Callable[[int], None] | None) -> list[WorkerInfo]:
    """The workers of an epoch, each with a copy of the dataset; `begin(id)` is called for each."""
    workers = [WorkerInfo(number, count, copy(dataset), number) for number in range(count)]
    for info in workers:
        if begin is not None:
            with working(info):
                begin(info.id)
    return workers


def in_turn(workers: list[WorkerInfo], stream: Callable[[Any], Iterator[Any]], size: int) -> Iterator[list[Sample]]:
    """Samples in groups of `size` with their numbers, a group of every worker in turn until all have ended."""
    left = [(info, enumerate(stream(info.dataset))) for info in workers]
    while left:
        going_on = []
        for info, samples in left:
            with working(info):
                chunk = list(islice(samples, size))
            if chunk:
                yield chunk
                going_on.append((info, samples))
        left = going_on
