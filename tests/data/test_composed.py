"""Datasets made of others, samplers that choose, shares of processes, and workers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench import io
from workbench.errors import InvalidArgument, InvalidType


class Counting(io.Dataset):
    def __init__(self, start: int, stop: int) -> None:
        self.range = range(start, stop)

    def __getitem__(self, index: int) -> int:
        return self.range[index]

    def __len__(self) -> int:
        return len(self.range)


class Stream(io.IterableDataset):
    """The numbers below `stop`, shared by the workers."""

    def __init__(self, stop: int) -> None:
        self.start, self.stop = 0, stop

    def __iter__(self) -> Iterator[int]:
        worker = io.get_worker_info()
        step, first = (1, 0) if worker is None else (worker.num_workers, worker.id)
        return iter(range(self.start + first, self.stop, step))


def test_samples_side_by_side() -> None:
    data = io.ComposeDataset([Counting(0, 3), io.TensorDataset([np.arange(3), np.arange(3) * 10])])
    assert len(data) == 3 and data[2] == (2, 2, 20)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_samples_one_after_the_other(lengths: list[int]) -> None:
    parts, samples = [], []
    for k, length in enumerate(lengths):
        parts.append(Counting(10 * k, 10 * k + length))
        samples += list(parts[-1].range)
    data = io.ConcatDataset(parts)
    assert [data[i] for i in range(len(data))] == samples
    assert [data[-i] for i in range(1, len(data) + 1)] == samples[::-1]


def test_streams_one_after_the_other() -> None:
    assert list(io.ChainDataset([Stream(2), Stream(3)])) == [0, 1, 0, 1, 2]


def test_weights_are_probabilities() -> None:
    np.random.seed(0)
    drawn = Counter(io.WeightedRandomSampler([1, 0, 3], 4000))
    assert set(drawn) == {0, 2} and drawn[2] / 4000 == pytest.approx(0.75, abs=0.03)
    assert sorted(io.WeightedRandomSampler([1, 0, 3], 2, replacement=False)) == [0, 2]


def test_a_random_order_of_some_indices() -> None:
    np.random.seed(0)
    orders = {tuple(io.SubsetRandomSampler([7, 3, 5])) for _ in range(50)}
    assert len(orders) == 6 and all(sorted(order) == [3, 5, 7] for order in orders)


@given(st.integers(1, 30), st.integers(1, 4), st.integers(1, 4), st.booleans())
def test_processes_share_a_dataset(length: int, size: int, ranks: int, shuffle: bool) -> None:
    samplers = [io.DistributedBatchSampler(range(length), size, ranks, rank, shuffle) for rank in range(ranks)]
    shares = [list(sampler) for sampler in samplers]
    assert len({len(share) for share in shares}) == 1 and len(shares[0]) == len(samplers[0])
    counts = Counter(index for share in shares for batch in share for index in batch)
    assert set(counts) == set(range(length)) and sum(counts.values()) == -(-length // ranks) * ranks
    assert all(len(batch) == size for share in shares for batch in share[:-1])


def test_batches_of_processes_lie_side_by_side() -> None:
    """Observed in Paddle 2.6."""
    assert list(io.DistributedBatchSampler(range(10), 3, 2, 1)) == [[3, 4, 5], [8, 9]]
    shuffled = io.DistributedBatchSampler(range(13), 2, 3, 1, shuffle=True)
    assert list(shuffled) == [[8, 9], [10, 7], [5]]
    other_order = list(shuffled)
    shuffled.set_epoch(0)
    assert list(shuffled) == [[8, 9], [10, 7], [5]] != other_order


def test_workers_take_turns() -> None:
    loader = io.DataLoader(Stream(11), batch_size=2, num_workers=2)
    assert [np.asarray(batch).tolist() for batch in loader] == [[0, 2], [1, 3], [4, 6], [5, 7], [8, 10], [9]]
    whole = io.DataLoader(Stream(11), batch_size=2, num_workers=2, drop_last=True)
    assert [np.asarray(batch).tolist() for batch in whole][-1] == [8, 10]
    assert io.get_worker_info() is None


def test_a_worker_prepares_its_copy_of_the_dataset() -> None:
    begun = []

    def begin(number: int) -> None:
        worker = io.get_worker_info()
        begun.append((number, worker.id, worker.num_workers))
        worker.dataset.start = 100 * number

    data = Stream(104)
    loader = io.DataLoader(data, batch_size=2, num_workers=3, worker_init_fn=begin, prefetch=0)
    first = [np.asarray(batch).tolist() for _, batch in zip(range(3), loader)]
    assert first == [[0, 3], [101], [6, 9]] and begun == [(0, 0, 3), (1, 1, 3), (2, 2, 3)]
    assert data.start == 0


def test_an_indexed_dataset_knows_its_worker() -> None:
    class Who(Counting):
        def __getitem__(self, index: int) -> int:
            return io.get_worker_info().id

    loader = io.DataLoader(Who(0, 6), batch_size=2, num_workers=2)
    assert [np.asarray(batch).tolist() for batch in loader] == [[0, 0], [1, 1], [0, 0]]


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: io.ComposeDataset([Counting(0, 3), Counting(0, 2)]), InvalidArgument, r"same length, got \[3, 2\]"),
        (lambda: io.ComposeDataset([]), InvalidArgument, "at least one dataset"),
        (lambda: io.ConcatDataset([Stream(3)]), InvalidType, "got the stream Stream"),
        (lambda: io.ConcatDataset(Counting(0, 3)), InvalidType, "a list of datasets, got Counting"),
        (lambda: io.ConcatDataset([Counting(0, 3)])[3], InvalidArgument, "index 3 is outside the dataset, which has 3"),
        (lambda: io.ChainDataset([Counting(0, 3)]), InvalidType, "IterableDatasets, got a Counting"),
        (lambda: io.WeightedRandomSampler([1.0, -1.0], 2), InvalidArgument, "at least 0, and not all 0"),
        (lambda: io.WeightedRandomSampler([0.0], 2), InvalidArgument, "not all 0"),
        (lambda: io.WeightedRandomSampler([1.0, 0.0], 2, False), InvalidArgument, "more than the 1 weights"),
        (lambda: io.SubsetRandomSampler([]), InvalidArgument, "at least one index"),
        (lambda: io.DistributedBatchSampler(range(3), 1, 2, 2), InvalidArgument, "less than num_replicas, 2, got 2"),
        (
            lambda: io.DataLoader(Counting(0, 3), worker_init_fn=3),
            InvalidType,
            "a function of a worker's number, got 3",
        ),
        (lambda: io.DataLoader(Counting(0, 3), num_workers=-1), InvalidArgument, "num_workers must not be negative"),
    ],
)
def test_wrong_arguments_are_named(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()
