"""The order of a `DataLoader`: what a seed fixes, and that a loader that goes on sees the very next batch."""

import itertools
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.data.test_loader import Numbers, Stream, in_and_out, labels
from workbench.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    TensorDataset,
)
from workbench.errors import InvalidArgument

# Shuffling


@in_and_out
def test_a_seed_fixes_every_epoch(prefetch: int) -> None:
    def make() -> DataLoader:
        return DataLoader(Numbers(20), batch_size=6, shuffle=True, seed=4, prefetch=prefetch)

    loader, again = make(), make()
    epochs = [labels(loader) for _ in range(3)]
    assert epochs == [labels(again) for _ in range(3)]
    assert len({str(epoch) for epoch in epochs}) == 3
    loader.set_epoch(1)
    assert loader.epoch == 1
    assert labels(loader) == epochs[1]
    assert labels(loader) == epochs[2]


def test_an_abandoned_epoch_is_followed_by_the_next() -> None:
    loader = DataLoader(Numbers(20), batch_size=6, shuffle=True, seed=4)
    epochs = [labels(loader) for _ in range(2)]
    loader.set_epoch(0)
    next(iter(loader))
    assert labels(loader) == epochs[1]


def test_two_iterators_at_once_are_two_epochs() -> None:
    loader = DataLoader(Numbers(20), batch_size=6, shuffle=True, seed=4)
    expected = [labels(loader) for _ in range(2)]
    loader.set_epoch(0)
    pairs = list(zip(loader, loader))
    assert [[a[1].tolist() for a, _ in pairs], [b[1].tolist() for _, b in pairs]] == expected


def test_numpy_seed_fixes_an_unseeded_loader() -> None:
    np.random.seed(7)
    first = DataLoader(Numbers(20), shuffle=True)
    np.random.seed(7)
    second = DataLoader(Numbers(20), shuffle=True)
    assert first.seed == second.seed
    assert labels(first) == labels(second)


# State


def resumed(make: Callable[[], DataLoader], stop_after: int) -> list[Any]:
    """Batches of three epochs, the process being "killed" after `stop_after` batches."""
    loader, seen = make(), []
    for batch in itertools.islice(itertools.chain.from_iterable(loader for _ in range(3)), stop_after):
        seen.append(batch[1].tolist())
        state = loader.state_dict()
    other = make()
    if stop_after:
        other.load_state_dict(json.loads(json.dumps(state)))
    while other.epoch < 3:
        seen += [batch[1].tolist() for batch in other]
    return seen


@given(st.integers(1, 12), st.integers(1, 5), st.booleans(), st.booleans(), st.integers(0, 3), st.integers(0, 40))
@settings(max_examples=60, deadline=None)
def test_a_resumed_run_sees_the_very_next_batch(
    count: int, size: int, shuffle: bool, rows: bool, prefetch: int, stop: int
) -> None:
    dataset = TensorDataset([np.arange(count)] * 2) if rows else Numbers(count)

    def make() -> DataLoader:
        return DataLoader(dataset, batch_size=size, shuffle=shuffle, prefetch=prefetch)

    seeds = itertools.repeat(11)

    def seeded() -> DataLoader:
        np.random.seed(next(seeds))
        return make()

    total = 3 * -(-count // size)
    assert resumed(seeded, min(stop, total)) == resumed(seeded, 0)


def test_the_state_carries_the_seed() -> None:
    first = DataLoader(Numbers(20), batch_size=4, shuffle=True)
    iterator = iter(first)
    next(iterator)
    second = DataLoader(Numbers(20), batch_size=4, shuffle=True, seed=first.seed + 1)
    second.load_state_dict(first.state_dict())
    assert [b[1].tolist() for b in iterator] == labels(second)
    assert first.seed == second.seed


@in_and_out
def test_prefetched_batches_do_not_count(prefetch: int) -> None:
    loader = DataLoader(Numbers(20), batch_size=2, prefetch=prefetch)
    iterator = iter(loader)
    assert loader.state_dict()["position"] == 0
    next(iterator)
    time.sleep(0.05)
    assert loader.state_dict()["position"] == 1
    list(iterator)
    assert (loader.state_dict()["epoch"], loader.state_dict()["position"]) == (1, 0)


def test_streams_and_given_samplers_resume_by_passing_over() -> None:
    for make in (
        lambda: DataLoader(Stream(7), batch_size=2),
        lambda: DataLoader(list(range(7)), batch_sampler=[[0, 1], [2, 3], [4, 5], [6]]),
        lambda: DataLoader(list(range(8)), batch_size=1, places=["cpu", "cpu"]),
    ):
        loader = make()
        iterator = loader.arrays()
        next(iterator)
        other = make()
        other.load_state_dict(loader.state_dict())
        np.testing.assert_equal(list(other.arrays()), list(iterator))


@in_and_out
@pytest.mark.parametrize("count", [6, 5])
def test_a_stream_stopped_after_its_last_batch_resumes_with_the_next_epoch(count: int, prefetch: int) -> None:
    def make() -> DataLoader:
        return DataLoader(Stream(count), batch_size=2, prefetch=prefetch)

    loader, other = make(), make()
    for _ in loader:
        state = loader.state_dict()  # in the last round: taken before the loader knows that it is the last
    other.load_state_dict(state)
    assert [batch.tolist() for batch in other] == [batch.tolist() for batch in loader]
    assert (other.epoch, loader.epoch) == (2, 2)


def test_an_empty_stream_is_empty() -> None:
    loader = DataLoader(Stream(0), batch_size=2)
    assert list(loader) == [] and list(loader) == []
    assert loader.epoch == 2


def test_a_sampler_of_a_given_batch_sampler_gets_its_seed_back() -> None:
    def make(seed: int) -> DataLoader:
        sampler = RandomSampler(range(10), seed=seed)
        return DataLoader(Numbers(10), batch_sampler=BatchSampler(sampler=sampler, batch_size=3))

    loader, other = make(1), make(2)
    other.load_state_dict(loader.state_dict())
    assert labels(other) == labels(loader)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"batch_size": 3}, "batch_size was 3, is 2"),
        ({"batches": 9}, "batches was 9, is 5"),
        ({"shuffle": False}, "shuffle was False"),
        ({"seed": None}, "seed was None"),
        ({"position": -1}, "position must not be negative"),
        ({"epoch": "1"}, "epoch must be an integer"),
        ({"surprise": 1}, "must have the keys"),
    ],
)
def test_a_foreign_state_is_refused_and_changes_nothing(change: dict[str, Any], text: str) -> None:
    loader = DataLoader(Numbers(10), batch_size=2, shuffle=True, seed=5)
    next(iter(loader))
    before = loader.state_dict()
    with pytest.raises(InvalidArgument, match=text):
        loader.load_state_dict({**before, "position": 3, **change})
    assert loader.state_dict() == before
