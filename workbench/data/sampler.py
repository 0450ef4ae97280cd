"""Samplers: in which order, and in which groups, the samples of a dataset are read.

Names and signatures are those of `paddle.io`. Ours: an order is a function of (seed, epoch), so a shuffle can
be repeated from the start and a stopped epoch can be taken up again in the middle.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from itertools import islice
from typing import Any

import numpy as np

from workbench.data.dataset import IterableDataset
from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.values.memory import MemoryFor


class Sampler:
    """Yields sample indices; subclasses define `__iter__` and, where it is known, `__len__`.

    Example:
        >>> class Backwards(wb.io.Sampler):
        ...     def __iter__(self):
        ...         return iter(range(len(self.data_source) - 1, -1, -1))
        ...     def __len__(self):
        ...         return len(self.data_source)
        >>> list(Backwards(range(3)))
        [2, 1, 0]
    """

    def __init__(self, data_source: Sized | None = None) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError(f"{type(self).__name__} has to define __iter__()")


class SequenceSampler(Sampler):
    """0, 1, 2, … len(data_source) - 1.

    Example:
        >>> list(wb.io.SequenceSampler(range(3)))
        [0, 1, 2]
    """

    data_source: Sized

    def __init__(self, data_source: Sized) -> None:
        super().__init__(data_source)

    def indices(self, epoch: int) -> np.ndarray:
        """The order of one epoch, int64 [len(self)]."""
        return np.arange(len(self.data_source))

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler):
    """Samples in a random order that differs from epoch to epoch.

    Args:
        data_source: whatever has a length.
        replacement: draw each index independently instead of shuffling.
        num_samples: how many indices an epoch has; default: `len(data_source)`.
        generator: an iterator of indices to use instead (it ends the epoch early when it ends).
        seed: fixes the orders of all epochs; default: drawn once from NumPy's global generator, so that
            `np.random.seed` fixes them too.

    Every `iter()` is the next epoch; `set_epoch` says which one the next `iter()` is.

    Example:
        >>> sorted(wb.io.RandomSampler(range(4), seed=1))
        [0, 1, 2, 3]
    """

    data_source: Sized

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Iterator[int] | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(data_source)
        self.replacement = checked_flag("replacement", replacement)
        self._num_samples = None if num_samples is None else checked_positive("num_samples", num_samples)
        if generator is not None and not hasattr(generator, "__next__"):
            kind = type(generator).__name__
            raise InvalidType(f"generator must be an iterator of indices, got {kind} (or use seed=)")
        self.generator = generator
        self.seed = draw_seed() if seed is None else checked_count("seed", seed)
        self.epoch = 0
        if not replacement and self.num_samples > len(data_source):
            raise InvalidArgument(
                f"num_samples is {self.num_samples}, more than the {len(data_source)} samples there are: "
                "pass replacement=True to draw some twice"
            )

    @property
    def num_samples(self) -> int:
        """Number of indices of an epoch."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def set_epoch(self, epoch: int) -> None:
        """Make `epoch` the one that the next `iter()` yields."""
        self.epoch = checked_count("epoch", epoch)

    def indices(self, epoch: int) -> np.ndarray:
        """The order of one epoch, int64 [num_samples]: a function of the seed and `epoch` alone.

        Raw Philox words are sorted instead of calling `Generator.permutation`, whose stream NumPy is free to
        change between versions.
        """
        total = len(self.data_source)
        if total == 0:
            return np.zeros(0, np.int64)
        philox = np.random.Philox(np.random.SeedSequence([self.seed, epoch]))
        with MemoryFor(f"the {self.num_samples:,} indices of an epoch"):
            if self.replacement:
                return (philox.random_raw(self.num_samples) % np.uint64(total)).astype(np.int64)
            return np.argsort(philox.random_raw(total), kind="stable")[: self.num_samples]

    def __iter__(self) -> Iterator[int]:
        if self.generator is not None:
            return islice(self.generator, self.num_samples)
        epoch, self.epoch = self.epoch, self.epoch + 1
        return iter(self.indices(epoch).tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler):
    """Groups the indices of a sampler into lists of `batch_size`.

    Args:
        dataset: what to sample, in order or (`shuffle`) at random; or else
        sampler: an iterable of indices.
        drop_last: leave out a last batch with fewer than `batch_size` indices.
        seed: of the shuffle, as in `RandomSampler`.

    Example:
        >>> list(wb.io.BatchSampler(range(5), batch_size=2))
        [[0, 1], [2, 3], [4]]
    """

    def __init__(
        self,
        dataset: Any = None,
        sampler: Iterable[int] | None = None,
        shuffle: bool = False,
        batch_size: int = 1,
        drop_last: bool = False,
        seed: int | None = None,
    ) -> None:
        super().__init__(dataset)
        if (dataset is None) == (sampler is None):
            raise InvalidArgument("BatchSampler takes either dataset= or sampler=")
        if isinstance(dataset, IterableDataset):
            raise InvalidType(f"{type(dataset).__name__} is an IterableDataset: it has no index to sample")
        self.shuffle = checked_flag("shuffle", shuffle)
        self.batch_size = checked_positive("batch_size", batch_size)
        self.drop_last = checked_flag("drop_last", drop_last)
        if sampler is not None and (shuffle or seed is not None):
            raise InvalidArgument("shuffle= and seed= belong to dataset=; a sampler= has its own order")
        if sampler is not None and not isinstance(sampler, Iterable):
            raise InvalidType(f"sampler must be an iterable of indices, got {type(sampler).__name__}")
        self.sampler: Any = sampler
        if sampler is None:
            self.sampler = RandomSampler(dataset, seed=seed) if shuffle else SequenceSampler(dataset)

    def set_epoch(self, epoch: int) -> None:
        """Pass the epoch on to the sampler, if it has one."""
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(epoch)

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(islice(indices, self.batch_size)):
            if len(batch) < self.batch_size and self.drop_last:
                return
            yield batch

    def __len__(self) -> int:
        full, rest = divmod(len(self.sampler), self.batch_size)
        return full + (rest > 0 and not self.drop_last)

    def last_rows(self) -> int:
        """Number of indices of the last batch; 0 if there is no batch."""
        full, rest = divmod(len(self.sampler), self.batch_size)
        if rest and not self.drop_last:
            return rest
        return self.batch_size if full else 0


def batches_from(batch_sampler: Any, epoch: int, start: int) -> Iterator[Sequence[int] | np.ndarray]:
    """The index batches number `start`, `start + 1`, … of an epoch.

    Our samplers give slices of the epoch's order; anything else is iterated and its first `start` batches are
    passed over.
    """
    order = _order(batch_sampler, epoch)
    if order is None:
        if hasattr(batch_sampler, "set_epoch"):
            batch_sampler.set_epoch(epoch)
        return islice(iter(batch_sampler), start, None)
    size = batch_sampler.batch_size
    return (order[k * size : (k + 1) * size] for k in range(start, len(batch_sampler)))


def groups_plainly(batch_sampler: Any) -> bool:
    """Whether this is a `BatchSampler` whose grouping no subclass overrides."""
    return isinstance(batch_sampler, BatchSampler) and type(batch_sampler).__iter__ is BatchSampler.__iter__


def random_sampler_of(batch_sampler: Any) -> RandomSampler | None:
    """The sampler that shuffles for `batch_sampler`, if its order is a function of a seed."""
    sampler = getattr(batch_sampler, "sampler", None)
    return sampler if isinstance(sampler, RandomSampler) and sampler.generator is None else None


def _order(batch_sampler: Any, epoch: int) -> np.ndarray | None:
    """The whole order of an epoch, when neither the sampler nor the grouping was overridden."""
    if not groups_plainly(batch_sampler):
        return None
    sampler = batch_sampler.sampler
    if type(sampler) is SequenceSampler or (type(sampler) is RandomSampler and sampler.generator is None):
        return sampler.indices(epoch)
    return None


def draw_seed() -> int:
    """A seed from NumPy's global generator."""
    return int(np.random.randint(1 << 31))


def checked_positive(name: str, value: Any) -> int:
    """`value` as an int >= 1."""
    if checked_count(name, value) == 0:
        raise InvalidArgument(f"{name} must be a positive integer, got 0")
    return int(value)


def checked_count(name: str, value: Any) -> int:
    """`value` as an int >= 0."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise InvalidType(f"{name} must be an integer, got {value!r}")
    if value < 0:
        raise InvalidArgument(f"{name} must not be negative, got {value}")
    return int(value)


def checked_flag(name: str, value: Any) -> bool:
    """`value` as a bool."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidType(f"{name} must be True or False, got {value!r}")
    return bool(value)
