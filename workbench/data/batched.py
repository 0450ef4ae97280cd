"""Readers that give lists of samples: `paddle.batch`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from workbench.errors import InvalidArgument


def batch(
    reader: Callable[[], Iterable[Any]], batch_size: int, drop_last: bool = False
) -> Callable[[], Iterator[list[Any]]]:
    """A reader of lists of `batch_size` samples each; the last one is shorter, or left out.

    Args:
        reader: a function that gives samples to iterate over.

    Raises:
        InvalidArgument: batch_size < 1.

    Example:
        >>> list(wb.batch(lambda: range(5), batch_size=2)())
        [[0, 1], [2, 3], [4]]
    """
    if int(batch_size) < 1:
        raise InvalidArgument(f"batch takes a batch_size of at least 1, got {batch_size!r}")

    def batches() -> Iterator[list[Any]]:
        samples = iter(reader())
        while samples_here := list(itertools.islice(samples, int(batch_size))):
            if len(samples_here) == batch_size or not drop_last:
                yield samples_here

    return batches
