"""Datasets: what a `DataLoader` reads samples from. Names and signatures are those of `paddle.io`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from workbench.dygraph.tensor.tensor import Tensor
from workbench.errors import InvalidArgument, InvalidType, Unimplemented

RowReader = Callable[[np.ndarray], list[np.ndarray]]


class Dataset:
    """A map-style dataset: `dataset[i]` is sample i, `len(dataset)` the number of samples.

    A sample is an array, a number, a string, or a (nested) tuple, list or dict of those.

    Example:
        >>> class Squares(wb.io.Dataset):
        ...     def __getitem__(self, index):
        ...         return np.float32(index**2)
        ...     def __len__(self):
        ...         return 4
        >>> float(Squares()[3])
        9.0
    """

    def __getitem__(self, index: int) -> Any:
        raise Unimplemented(f"{type(self).__name__} has to define __getitem__(index)")

    def __len__(self) -> int:
        raise Unimplemented(f"{type(self).__name__} has to define __len__()")


class IterableDataset(Dataset):
    """A stream of samples: subclasses define `__iter__`; there is no length and no index.

    Example:
        >>> class Stream(wb.io.IterableDataset):
        ...     def __iter__(self):
        ...         yield from np.arange(3.0)
        >>> [float(value) for value in Stream()]
        [0.0, 1.0, 2.0]
    """

    def __iter__(self) -> Iterator[Any]:
        raise Unimplemented(f"{type(self).__name__} has to define __iter__()")

    def __getitem__(self, index: int) -> Any:
        raise InvalidType(f"{type(self).__name__} is an IterableDataset: it has no sample by index")

    def __len__(self) -> int:
        raise InvalidType(f"{type(self).__name__} is an IterableDataset: its length is unknown")


class TensorDataset(Dataset):
    """Arrays or tensors in memory; sample i is the tuple of row i of each.

    A `DataLoader` reads a whole batch of it with one `take` per array.

    Args:
        tensors: list or tuple of arrays, each of shape [rows, ...], all with the same number of rows.

    Raises:
        InvalidType: `tensors` is not a list or tuple.
        InvalidArgument: no array, a 0-d array, or different numbers of rows.

    Example:
        >>> data = wb.io.TensorDataset([np.zeros((5, 4)), np.arange(5)])
        >>> len(data), int(data[3][1])
        (5, 3)
    """

    def __init__(self, tensors: Sequence[Any]) -> None:
        if not isinstance(tensors, (list, tuple)):
            kind = type(tensors).__name__
            raise InvalidType(f"TensorDataset expects a list or tuple of arrays, got {kind}: write [array]")
        if not tensors:
            raise InvalidArgument("TensorDataset expects at least one array, got none")
        self.tensors = [np.asarray(tensor) for tensor in tensors]
        for position, array in enumerate(self.tensors):
            if array.ndim == 0:
                raise InvalidArgument(f"tensors[{position}] has shape []: a TensorDataset needs rows")
        rows = [len(array) for array in self.tensors]
        if len(set(rows)) > 1:
            raise InvalidArgument(f"the arrays of a TensorDataset need the same number of rows, got {rows}")
        self._given = [t if isinstance(t, Tensor) else a for t, a in zip(tensors, self.tensors, strict=True)]

    def __getitem__(self, index: int) -> tuple[Any, ...]:
        return tuple(given[index] for given in self._given)

    def __len__(self) -> int:
        return len(self.tensors[0])

    def rows(self, indices: np.ndarray) -> list[np.ndarray]:
        """Copies of the rows at `indices` (int64, [n]) of every array, each [n, ...]."""
        return [array.take(indices, axis=0) for array in self.tensors]


class Subset(Dataset):
    """The samples of `dataset` at `indices`, in that order.

    Raises:
        InvalidArgument: an index that `dataset` does not have.

    Example:
        >>> float(wb.io.Subset(wb.io.TensorDataset([np.arange(5.0)]), [4, 2])[0][0])
        4.0
    """

    def __init__(self, dataset: Any, indices: Sequence[int] | np.ndarray) -> None:
        self.dataset = dataset
        self.indices = _checked_indices(indices, len(dataset))

    def __getitem__(self, index: int) -> Any:
        return self.dataset[int(self.indices[index])]

    def __len__(self) -> int:
        return len(self.indices)


def _checked_indices(indices: Sequence[int] | np.ndarray, length: int) -> np.ndarray:
    array = np.asarray(indices)
    if array.size == 0:
        return np.zeros(0, np.int64)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        got = f"{array.dtype} of shape {list(array.shape)}"
        raise InvalidType(f"indices must be a list of integers, got {got}")
    wrong = array[(array < -length) | (array >= length)]
    if wrong.size:
        raise InvalidArgument(f"index {wrong[0]} is outside the dataset, which has {length} samples")
    return array.astype(np.int64)


def row_reader(dataset: Any) -> RowReader | None:
    """A function that reads many samples of `dataset` at once, already stacked, or None.

    Only datasets in memory have one; a subclass with its own `__getitem__` is read sample by sample.
    """
    kind = type(dataset)
    if isinstance(dataset, TensorDataset) and kind.__getitem__ is TensorDataset.__getitem__:
        return dataset.rows
    if isinstance(dataset, Subset) and kind.__getitem__ is Subset.__getitem__:
        return _subset_reader(dataset)
    return None


def row_bytes(dataset: Any) -> int | None:
    """Bytes that one sample takes in a batch, for datasets that have a `row_reader`."""
    reader = row_reader(dataset)
    if reader is None or len(dataset) == 0:
        return None
    return sum(array.nbytes for array in reader(np.zeros(1, np.int64)))


def _subset_reader(subset: Subset) -> RowReader | None:
    inner = row_reader(subset.dataset)
    if inner is None:
        return None
    return lambda indices: inner(subset.indices[indices])


def random_split(
    dataset: Any,
    lengths: Sequence[int | float],
    generator: np.random.Generator | None = None,
    *,
    seed: int | None = None,
) -> list[Subset]:
    """Split `dataset` at random into disjoint subsets.

    Args:
        lengths: numbers of samples adding up to `len(dataset)`, or fractions adding up to 1 (each part gets
            the floor of its share, the remaining samples go to the first parts, one each).
        generator: source of the permutation; by default NumPy's global one.
        seed: instead of `generator`, for the same split every time.

    Example:
        >>> train, valid = wb.io.random_split(range(10), [8, 2], seed=0)
        >>> len(train), len(valid)
        (8, 2)
    """
    total = len(dataset)
    sizes = _split_sizes(lengths, total)
    order = _permutation(total, generator, seed)
    ends = np.cumsum(sizes)
    return [Subset(dataset, order[end - size : end]) for size, end in zip(sizes, ends)]


def _split_sizes(lengths: Sequence[int | float], total: int) -> list[int]:
    if any(length < 0 for length in lengths):
        raise InvalidArgument(f"lengths must not be negative, got {list(lengths)}")
    if sum(lengths) == total and all(float(length).is_integer() for length in lengths):
        return [int(length) for length in lengths]
    fractions = any(isinstance(length, float) for length in lengths)
    if not (fractions and math.isclose(sum(lengths), 1.0, rel_tol=0, abs_tol=1e-9)):
        raise InvalidArgument(
            f"lengths {list(lengths)} add up to {sum(lengths)}: expected the {total} samples of the dataset, "
            "or fractions adding up to 1"
        )
    sizes = [math.floor(total * fraction) for fraction in lengths]
    for part in range(total - sum(sizes)):
        sizes[part % len(sizes)] += 1
    return sizes


def _permutation(total: int, generator: np.random.Generator | None, seed: int | None) -> np.ndarray:
    if generator is not None and seed is not None:
        raise InvalidArgument("random_split takes generator= or seed=, not both")
    if generator is not None and not isinstance(generator, np.random.Generator):
        raise InvalidType(f"generator must be a numpy.random.Generator, got {type(generator).__name__}")
    if seed is not None:
        generator = np.random.default_rng(seed)
    return np.random.permutation(total) if generator is None else generator.permutation(total)
