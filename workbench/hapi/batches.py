"""Batches of a model: from data sets to tensors, from tensors to arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from workbench.data.dataset import Dataset
from workbench.data.loader import DataLoader
from workbench.dygraph.tensor.making import to_tensor
from workbench.dygraph.tensor.tensor import Tensor
from workbench.errors import InvalidType


def listed(value: Any) -> list[Any]:
    """A list of a value: of its entries, of itself, or of nothing for None."""
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def tensors(values: Any) -> list[Tensor]:
    """One or several arrays as tensors."""
    return [value if isinstance(value, Tensor) else to_tensor(np.asarray(value)) for value in listed(values)]


def arrays(values: Any) -> list[np.ndarray]:
    """One or several tensors as arrays."""
    return [np.asarray(value) for value in listed(values)]


def loader_of(
    data: Any, what: str, batch_size: int, shuffle: bool, drop_last: bool, num_workers: int
) -> Iterable[Any] | None:
    """Batches of a data set; a loader, or anything else that gives batches, as it is.

    Raises:
        InvalidType: neither.
    """
    if data is None or isinstance(data, DataLoader):
        return data
    if isinstance(data, Dataset):
        return DataLoader(data, batch_size=batch_size, shuffle=shuffle, drop_last=drop_last, num_workers=num_workers)
    if isinstance(data, Iterable):
        return data
    raise InvalidType(f"{what} is a Dataset, a DataLoader or batches, got {type(data).__name__}")


def steps_of(loader: Any) -> int | None:
    """Number of batches, None if the loader does not tell."""
    try:
        return len(loader)
    except TypeError:
        return None


def parted(batch: Any, inputs: int | None, what: str) -> tuple[list[Any], list[Any]]:
    """A batch as (inputs, labels).

    Args:
        inputs: how many of its fields are inputs; None for all but the last, or the only one.

    Raises:
        InvalidType: it has no fields.
    """
    fields = listed(batch)
    if isinstance(batch, Sequence) and len(fields) == 2 and all(isinstance(field, list | tuple) for field in fields):
        return listed(fields[0]), listed(fields[1])
    if not fields:
        raise InvalidType(f"{what} gave an empty batch")
    count = inputs if inputs is not None else max(1, len(fields) - 1)
    return fields[:count], fields[count:]


def rows_of(values: Sequence[Any]) -> int:
    """Rows of the first field of a batch."""
    return int(values[0].shape[0]) if len(values[0].shape) else 1
