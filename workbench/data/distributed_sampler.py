"""DistributedBatchSampler: every process reads its own share of a dataset."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from workbench.data.sampler import BatchSampler, checked_count, checked_positive
from workbench.errors import InvalidArgument
from workbench.runtime.standing import ALONE, standing


class DistributedBatchSampler(BatchSampler):
    """Batches of the share one of several processes reads; all have the same number.

    The order is filled up from its beginning so that it can be shared evenly, and dealt out batch by batch.

    Args:
        dataset: what to sample. batch_size: rows of a batch.
        num_replicas, rank: number of processes, and which one this is; as those who started it say if None.
        shuffle: in an order that differs from epoch to epoch, the same in all processes.
        drop_last: leave out a last batch with fewer rows.

    Raises:
        InvalidArgument: a rank there is not.

    Example:
        >>> list(wb.io.DistributedBatchSampler(range(5), batch_size=2, num_replicas=2, rank=1))
        [[2, 3], [0]]
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = False,
        drop_last: bool = False,
    ) -> None:
        super().__init__(dataset, None, shuffle, batch_size, drop_last, seed=0 if shuffle else None)
        self.dataset, self.epoch = dataset, 0
        here = standing() if num_replicas is None or rank is None else ALONE
        size, own = here.size if num_replicas is None else num_replicas, here.rank if rank is None else rank
        self.nranks, self.local_rank = checked_positive("num_replicas", size), checked_count("rank", own)
        if self.local_rank >= self.nranks:
            raise InvalidArgument(f"rank must be less than num_replicas, {self.nranks}, got {self.local_rank}")
        self.num_samples = -(-len(dataset) // self.nranks)
        self.total_size = self.num_samples * self.nranks

    def set_epoch(self, epoch: int) -> None:
        """Make `epoch` the one that the next `iter()` yields."""
        self.epoch = checked_count("epoch", epoch)

    def __iter__(self) -> Iterator[list[int]]:
        order = np.resize(np.arange(len(self.dataset)), self.total_size)
        if self.shuffle:
            np.random.RandomState(self.epoch).shuffle(order)
            self.epoch += 1
        share = self._own(order).tolist()
        for start in range(0, len(share), self.batch_size):
            batch = share[start : start + self.batch_size]
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def _own(self, order: np.ndarray) -> np.ndarray:
        """What this process reads: a batch of every round, and its part of what is left."""
        round_size = self.batch_size * self.nranks
        rest = self.total_size % round_size
        rounds, last = order[: self.total_size - rest], order[self.total_size - rest :]
        dealt = rounds.reshape(-1, self.nranks, self.batch_size)[:, self.local_rank].reshape(-1)
        return np.concatenate([dealt, last.reshape(self.nranks, -1)[self.local_rank]])

    def __len__(self) -> int:
        full, rest = divmod(self.num_samples, self.batch_size)
        return full + (rest > 0 and not self.drop_last)

    def last_rows(self) -> int:
        """Number of indices of the last batch; 0 if there is no batch."""
        full, rest = divmod(self.num_samples, self.batch_size)
        if rest and not self.drop_last:
            return rest
        return self.batch_size if full else 0
