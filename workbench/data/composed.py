"""Datasets made of others: side by side, or one after the other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

from workbench.data.dataset import Dataset, IterableDataset
from workbench.errors import InvalidArgument, InvalidType


class ComposeDataset(Dataset):
    """Sample i has the fields of sample i of every dataset, which all have the same length.

    Raises:
        InvalidType: no list of datasets with an index. InvalidArgument: none, or different lengths.

    Example:
        >>> data = wb.io.ComposeDataset([wb.io.TensorDataset([np.arange(3)]), wb.io.TensorDataset([np.arange(3) * 10])])
        >>> [int(value) for value in data[2]]
        [2, 20]
    """

    def __init__(self, datasets: Sequence[Dataset]) -> None:
        self.datasets = _with_index("ComposeDataset", datasets)
        lengths = [len(dataset) for dataset in self.datasets]
        if len(set(lengths)) > 1:
            raise InvalidArgument(f"the datasets of a ComposeDataset need the same length, got {lengths}")

    def __len__(self) -> int:
        return len(self.datasets[0])

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        fields: list[Any] = []
        for dataset in self.datasets:
            sample = dataset[index]
            fields.extend(sample if isinstance(sample, list | tuple) else [sample])
        return tuple(fields)


class ConcatDataset(Dataset):
    """The samples of the first dataset, then those of the second …

    Raises:
        InvalidType: no list of datasets with an index. InvalidArgument: none.

    Example:
        >>> data = wb.io.ConcatDataset([wb.io.TensorDataset([np.arange(3)]), wb.io.TensorDataset([np.arange(9)])])
        >>> len(data), int(data[5][0]), int(data[-1][0])
        (12, 2, 8)
    """

    def __init__(self, datasets: Sequence[Dataset]) -> None:
        self.datasets = _with_index("ConcatDataset", datasets)
        self.cumulative_sizes = list(accumulate(len(dataset) for dataset in self.datasets))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        length = len(self)
        if not -length <= index < length:
            raise InvalidArgument(f"index {index} is outside the dataset, which has {length} samples")
        position = index % length
        which = bisect_right(self.cumulative_sizes, position)
        return self.datasets[which][position - (self.cumulative_sizes[which - 1] if which else 0)]


class ChainDataset(IterableDataset):
    """The samples of the first stream, then those of the second …

    Raises:
        InvalidType: no list of `IterableDataset`. InvalidArgument: none.

    Example:
        >>> class Stream(wb.io.IterableDataset):
        ...     def __iter__(self):
        ...         yield from (1, 2)
        >>> list(wb.io.ChainDataset([Stream(), Stream()]))
        [1, 2, 1, 2]
    """

    def __init__(self, datasets: Sequence[IterableDataset]) -> None:
        self.datasets = _listed("ChainDataset", datasets)
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise InvalidType(f"ChainDataset takes IterableDatasets, got a {type(dataset).__name__}")

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            yield from dataset


def _listed(owner: str, datasets: Any) -> list[Any]:
    if not isinstance(datasets, list | tuple):
        raise InvalidType(f"{owner} takes a list of datasets, got {type(datasets).__name__}")
    if not datasets:
        raise InvalidArgument(f"{owner} takes at least one dataset, got none")
    return list(datasets)


def _with_index(owner: str, datasets: Any) -> list[Any]:
    listed = _listed(owner, datasets)
    for dataset in listed:
        if isinstance(dataset, IterableDataset):
            raise InvalidType(f"{owner} takes datasets with an index, got the stream {type(dataset).__name__}")
    return listed
