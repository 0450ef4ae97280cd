"""`DataLoader`: batches, feeds, devices."""

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    Subset,
    TensorDataset,
)
from workbench.errors import InvalidArgument, InvalidType


class Numbers(Dataset):
    """Sample i is (i as a row of two float32, i)."""

    def __init__(self, count: int, broken: int | None = None) -> None:
        self.count, self.broken = count, broken

    def __getitem__(self, index: int) -> tuple[np.ndarray, int]:
        if index == self.broken:
            raise KeyError("no such file")
        return np.full(2, index, np.float32), index

    def __len__(self) -> int:
        return self.count


class Stream(IterableDataset):
    def __init__(self, count: int, broken: int | None = None) -> None:
        self.count, self.broken = count, broken

    def __iter__(self) -> Iterator[int]:
        for number in range(self.count):
            if number == self.broken:
                raise OSError("connection lost")
            yield number


class Named:
    def __init__(self, name: str) -> None:
        self.name = name


def labels(loader: DataLoader) -> list[list[int]]:
    """The labels of each batch of one epoch."""
    return [batch[1].tolist() for batch in loader]


in_and_out = pytest.mark.parametrize("prefetch", [0, 2], ids=["inline", "thread"])


# Batches


@in_and_out
def test_batches_are_stacked_samples(prefetch: int) -> None:
    loader = DataLoader(Numbers(5), batch_size=2, prefetch=prefetch)
    batches = list(loader)
    assert len(loader) == len(batches) == 3
    assert batches[1][0].tolist() == [[2, 2], [3, 3]] and batches[1][0].dtype == np.float32
    assert batches[2][1].tolist() == [4] and batches[2][1].dtype == np.int64
    assert [batch[1].tolist() for batch in loader()] == [[0, 1], [2, 3], [4]]


@given(
    count=st.integers(0, 40),
    size=st.integers(1, 12),
    shuffle=st.booleans(),
    drop_last=st.booleans(),
    prefetch=st.integers(0, 3),
    seed=st.integers(0, 100),
)
@settings(max_examples=60, deadline=None)
def test_rows_and_samples_give_the_same_batches(
    count: int, size: int, shuffle: bool, drop_last: bool, prefetch: int, seed: int
) -> None:
    """Reading whole rows is checked against reading sample by sample."""
    arrays = [np.arange(2 * count, dtype=np.float32).reshape(count, 2), np.arange(count)]

    class Slow(TensorDataset):
        def __getitem__(self, index: int) -> tuple[Any, ...]:
            return super().__getitem__(index)

    def batches(dataset: Dataset) -> list[Any]:
        fixed = seed if shuffle else None
        loader = DataLoader(
            dataset, batch_size=size, shuffle=shuffle, drop_last=drop_last, seed=fixed, prefetch=prefetch
        )
        assert len(loader) == (count // size if drop_last else -(-count // size))
        return [[(a.dtype, a.tolist()) for a in batch] for batch in loader]

    fast, slow = batches(TensorDataset(arrays)), batches(Slow(arrays))
    assert fast == slow
    rows = [label for batch in fast for label in batch[1][1]]
    assert len(rows) == (count - count % size if drop_last else count)
    assert len(set(rows)) == len(rows)


def test_batches_do_not_alias_the_dataset() -> None:
    array = np.zeros((4, 2))
    for batch in DataLoader(TensorDataset([array]), batch_size=4).arrays():
        batch[0][:] = 1
    assert not array.any()


def test_subsets_are_read_by_rows_too() -> None:
    dataset = Subset(TensorDataset([np.arange(10)]), [9, 1, 5])
    assert [batch[0].tolist() for batch in DataLoader(dataset, batch_size=2)] == [[9, 1], [5]]


def test_structures_follow_the_sample() -> None:
    class Dicts(Numbers):
        def __getitem__(self, index: int) -> Any:
            return {"x": np.zeros(3, np.float32), "y": float(index)}

    class Arrays(Numbers):
        def __getitem__(self, index: int) -> Any:
            return np.full(3, index)

    (batch,) = DataLoader(Dicts(2), batch_size=2).arrays()
    assert batch["x"].shape == (2, 3) and batch["y"].dtype == np.float32
    (array,) = DataLoader(Arrays(2), batch_size=2).arrays()
    assert array.shape == (2, 3)


def test_plain_sequences_are_datasets() -> None:
    assert [batch.tolist() for batch in DataLoader([1, 2, 3], batch_size=2)] == [[1, 2], [3]]


def test_collate_fn_and_no_batching() -> None:
    loader = DataLoader(Numbers(3), batch_size=2, collate_fn=lambda samples: [label for _, label in samples])
    assert list(loader) == [[0, 1], [2]]
    samples = list(DataLoader(Numbers(3), batch_size=None))
    assert [label for _, label in samples] == [0, 1, 2] and samples[2][0].tolist() == [2, 2]
    shuffled = list(DataLoader(Numbers(20), batch_size=None, shuffle=True, seed=1))
    assert [s[1] for s in shuffled] != list(range(20))
    assert list(DataLoader(Stream(3), batch_size=None, collate_fn=lambda n: n * 10)) == [0, 10, 20]


@in_and_out
def test_streams(prefetch: int) -> None:
    loader = DataLoader(Stream(5), batch_size=2, prefetch=prefetch)
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3], [4]]
    short = DataLoader(Stream(5), batch_size=2, drop_last=True, prefetch=prefetch)
    assert [batch.tolist() for batch in short] == [[0, 1], [2, 3]]
    with pytest.raises(TypeError, match="unknown"):
        len(loader)
    assert list(map(len, list(loader))) == [2, 2, 1]


def test_given_batch_samplers() -> None:
    assert labels(DataLoader(Numbers(9), batch_sampler=[[3, 1], [8]])) == [[3, 1], [8]]
    sampler = BatchSampler(Numbers(9), shuffle=True, batch_size=4, seed=3)
    loader = DataLoader(Numbers(9), batch_sampler=sampler)
    first, second = labels(loader), labels(loader)
    assert sorted(itertools.chain(*first)) == list(range(9)) and first != second
    assert labels(DataLoader(TensorDataset([np.arange(9)] * 2), batch_sampler=[[3, 1]])) == [[3, 1]]


# Feeds


def test_feed_dicts() -> None:
    feeds = [Named("image"), Named("label")]
    batches = list(DataLoader(Numbers(3), feed_list=feeds, return_list=False, batch_size=2))
    assert [list(batch) for batch in batches] == [["image", "label"]] * 2
    assert batches[0]["image"].shape == (2, 2) and batches[1]["label"].tolist() == [2]
    assert isinstance(next(iter(DataLoader(Numbers(3), feed_list=feeds))), list)


def test_feed_dicts_from_dict_samples_go_by_key() -> None:
    class Dicts(Numbers):
        def __getitem__(self, index: int) -> Any:
            return {"label": index, "image": 0.5}

    (batch,) = DataLoader(Dicts(2), feed_list=[Named("image"), Named("label")], return_list=False, batch_size=2)
    assert batch["image"].tolist() == [0.5, 0.5] and batch["label"].tolist() == [0, 1]
    with pytest.raises(InvalidArgument, match=r"fields \['image', 'label'\], feed_list names \['x'\]"):
        list(DataLoader(Dicts(2), feed_list=[Named("x")], return_list=False))


def test_feed_list_must_fit() -> None:
    with pytest.raises(InvalidArgument, match=r"batch 0 of epoch 0 has 2 fields, feed_list names 1: \['x'\]"):
        list(DataLoader(Numbers(2), feed_list=[Named("x")], return_list=False))
    with pytest.raises(InvalidArgument, match="needs feed_list"):
        DataLoader(Numbers(2), return_list=False)
    with pytest.raises(InvalidArgument, match="twice"):
        DataLoader(Numbers(2), feed_list=[Named("x"), Named("x")])
    with pytest.raises(InvalidType, match=r"feed_list\[0\] must be a variable"):
        DataLoader(Numbers(2), feed_list=["x"])


def test_several_places_get_a_batch_each() -> None:
    loader = DataLoader(
        Numbers(8), feed_list=[Named("x"), Named("y")], return_list=False, batch_size=2, places=["cpu"] * 2
    )
    items = list(loader)
    assert len(loader) == len(items) == 2
    assert [[feed["y"].tolist() for feed in item] for item in items] == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]
    assert labels(DataLoader(Numbers(3), places=["cpu"])) == [[0], [1], [2]]


def test_places_that_cannot_share_the_batches() -> None:
    with pytest.raises(InvalidArgument, match="5 batches cannot be shared evenly by 2 places"):
        iter(DataLoader(Numbers(10), batch_size=2, places=["cpu"] * 2))
    assert len(list(DataLoader(Numbers(10), batch_size=2, places=["cpu"] * 2, drop_last=True))) == 2
    stream = iter(DataLoader(Stream(3), batch_size=1, places=["cpu"] * 2))
    next(stream)
    with pytest.raises(InvalidArgument, match="1 batches cannot be shared"):
        next(stream)


# Devices


@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_last_batch_smaller_than_the_devices_is_refused_before_the_epoch(prefetch: int) -> None:
    read: list[int] = []

    class Watched(Numbers):
        def __getitem__(self, index: int) -> Any:
            read.append(index)
            return super().__getitem__(index)

    loader = DataLoader(Watched(25), batch_size=4, devices=2, prefetch=prefetch)
    with pytest.raises(InvalidArgument) as caught:
        iter(loader)
    for part in (
        "the last batch (number 6",
        "has 1 row,",
        "2 devices",
        "25 samples",
        "batch_size is 4",
        "drop_last=True",
        "batch_size=5",
    ):
        assert part in str(caught.value), str(caught.value)
    assert read == []


@given(st.integers(1, 60), st.integers(1, 30), st.integers(1, 8), st.booleans())
def test_check_devices_refuses_exactly_the_epochs_with_a_small_batch(
    count: int, size: int, devices: int, drop_last: bool
) -> None:
    loader = DataLoader(Numbers(count), batch_size=size, drop_last=drop_last, prefetch=0)
    rows = [len(batch[1]) for batch in loader]
    if all(n >= devices for n in rows):
        loader.check_devices(devices)
        return
    with pytest.raises(InvalidArgument) as caught:
        loader.check_devices(devices)
    follow_advice(str(caught.value), count, size, devices)


def follow_advice(message: str, count: int, size: int, devices: int) -> None:
    """What the message proposes has to work."""
    if "drop_last=True" in message:
        advised = DataLoader(Numbers(count), batch_size=size, drop_last=True)
        advised.check_devices(devices)
        assert len(advised) > 0
    if "Pass" in message:
        size = int(message.rsplit("batch_size=", 1)[1].rstrip("."))
        DataLoader(Numbers(count), batch_size=size).check_devices(devices)
    else:
        assert count < devices and f"at most {count} devices" in message


def test_streams_are_checked_batch_by_batch() -> None:
    loader = DataLoader(Stream(5), batch_size=2, devices=2)
    loader.check_devices(2)
    iterator = iter(loader)
    next(iterator), next(iterator)
    with pytest.raises(InvalidArgument, match="batch 2 of epoch 0 has 1 row, fewer than the 2 devices"):
        next(iterator)
    sampled = DataLoader(Numbers(5), batch_sampler=[[1, 2], [3]], devices=2, prefetch=0)
    with pytest.raises(InvalidArgument, match="batch 1 of epoch 0 has 1 row"):
        list(sampled)
