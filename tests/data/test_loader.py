"""`DataLoader`: batches, feeds, shuffles, errors, devices, resuming."""

import gc
import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
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
    RandomSampler,
    Subset,
    TensorDataset,
)
from workbench.errors import EnforceNotMet, InvalidArgument, InvalidType, Unavailable


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


# Errors


@in_and_out
def test_a_failing_sample_is_named(prefetch: int) -> None:
    loader = DataLoader(Numbers(10, broken=7), batch_size=2, prefetch=prefetch)
    iterator = iter(loader)
    assert [next(iterator)[1].tolist() for _ in range(3)] == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(EnforceNotMet) as caught:
        next(iterator)
    expected = "sample 7 of Numbers (batch 3 of epoch 0, sample 7) raised KeyError: 'no such file'"
    assert str(caught.value) == expected.replace(" of epoch 0, sample 7", " of epoch 0")
    assert isinstance(caught.value.__cause__, KeyError)
    assert list(iterator) == []
    assert loader.state_dict()["position"] == 3  # the failed batch is still to come


@in_and_out
def test_a_failing_stream_collate_or_index_is_named(prefetch: int) -> None:
    with pytest.raises(EnforceNotMet, match=r"sample 3 of Stream \(batch 1 of epoch 0\) raised OSError"):
        list(DataLoader(Stream(9, broken=3), batch_size=2, prefetch=prefetch))
    with pytest.raises(EnforceNotMet, match=r"collate_fn raised ZeroDivisionError.*batch 0.*samples 0, 1"):
        list(DataLoader(Numbers(4), batch_size=2, collate_fn=lambda samples: 1 / 0, prefetch=prefetch))
    with pytest.raises(EnforceNotMet, match=r"batch 0 of epoch 0, samples 1, 99: IndexError"):
        list(DataLoader(TensorDataset([np.zeros(3)]), batch_sampler=[[1, 99]], prefetch=prefetch))


def test_ragged_samples_are_named_by_their_place_in_the_dataset() -> None:
    class Ragged(Numbers):
        def __getitem__(self, index: int) -> Any:
            return np.zeros(3 if index == 5 else 2), index

    with pytest.raises(InvalidArgument) as caught:
        list(DataLoader(Ragged(8), batch_size=4))
    assert "field [0] has shape [2] in sample 0 and [3] in sample 1" in str(caught.value)
    assert "batch 1 of epoch 0: samples 4 and 5 of the dataset" in str(caught.value)
    with pytest.raises(InvalidType, match=r"NoneType.*batch 0 of epoch 0, samples 0, 1"):
        list(DataLoader([None, None], batch_size=2))


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ({"batch_size": 0}, InvalidArgument, "batch_size must be a positive integer"),
        ({"batch_size": 2.5}, InvalidType, "batch_size must be an integer"),
        ({"batch_size": None, "drop_last": True}, InvalidArgument, "needs a batch_size"),
        ({"shuffle": 1}, InvalidType, "shuffle must be True or False"),
        ({"drop_last": None}, InvalidType, "drop_last"),
        ({"return_list": "no"}, InvalidType, "return_list"),
        ({"use_buffer_reader": 1}, InvalidType, "use_buffer_reader"),
        ({"prefetch_factor": 0}, InvalidArgument, "prefetch_factor"),
        ({"prefetch": -1}, InvalidArgument, "prefetch"),
        ({"prefetch": 3, "use_buffer_reader": False}, InvalidArgument, "one way only"),
        ({"prefetch": 3, "prefetch_factor": 4}, InvalidArgument, "one way only"),
        ({"timeout": -1}, InvalidArgument, "timeout"),
        ({"timeout": 5, "prefetch": 0}, InvalidArgument, "prefetch thread"),
        ({"seed": 1}, InvalidArgument, "pass shuffle=True"),
        ({"seed": "a", "shuffle": True}, InvalidType, "seed must be an integer"),
        ({"devices": 0}, InvalidArgument, "devices"),
        ({"places": []}, InvalidArgument, "places is empty"),
        ({"places": ["cpu", "cpu"], "devices": 2}, InvalidArgument, "pass one only"),
        ({"batch_sampler": [[0]], "batch_size": 2}, InvalidArgument, "says how to batch"),
        ({"batch_sampler": [[0]], "shuffle": True}, InvalidArgument, "says how to batch"),
        ({"batch_sampler": 7}, InvalidType, "iterable of index lists"),
    ],
)
def test_arguments_that_cannot_be_served_are_refused(
    arguments: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        DataLoader(Numbers(4), **arguments)


def test_datasets_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidType, match="__getitem__ and __len__, got int"):
        DataLoader(5)
    with pytest.raises(InvalidArgument, match="shuffle=True needs a dataset with a length"):
        DataLoader(Stream(3), shuffle=True)
    with pytest.raises(InvalidArgument, match="not an IterableDataset"):
        DataLoader(Stream(3), batch_sampler=[[0]])


# The thread


def test_paddle_words_for_the_prefetch_depth() -> None:
    assert DataLoader(Numbers(2)).prefetch == 2
    assert DataLoader(Numbers(2), prefetch_factor=5).prefetch == 5
    assert DataLoader(Numbers(2), use_buffer_reader=False).prefetch == 0


def test_small_batches_in_memory_are_made_in_the_calling_thread() -> None:
    small, large = TensorDataset([np.zeros((4, 8))]), TensorDataset([np.zeros((4, 1 << 16))])
    assert DataLoader(small, batch_size=4).prefetch == 0
    assert DataLoader(small, batch_size=4, prefetch=2).prefetch == 2
    assert DataLoader(small, batch_size=4, timeout=1).prefetch == 2
    assert DataLoader(small, batch_size=4, collate_fn=len).prefetch == 2
    assert DataLoader(large, batch_size=4).prefetch == 2


def test_leaving_the_loop_ends_the_thread() -> None:
    before = threading.active_count()
    for _ in DataLoader(Numbers(100), prefetch=2):
        break
    iterator = iter(DataLoader(Numbers(100), prefetch=2))
    next(iterator)
    iterator.close()
    assert list(iterator) == []
    gc.collect()
    deadline = time.monotonic() + 5
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before


def test_timeout_names_the_sample_that_hangs() -> None:
    release = threading.Event()

    class Hanging(Numbers):
        def __getitem__(self, index: int) -> Any:
            if index == 3:
                release.wait(5)
            return super().__getitem__(index)

    loader = DataLoader(Hanging(10), batch_size=2, timeout=0.2)
    iterator = iter(loader)
    next(iterator)
    threading.Timer(0.4, release.set).start()
    with pytest.raises(Unavailable, match=r"no batch within 0\.2 s.*batch 1 of epoch 0, sample 3"):
        next(iterator)


def test_settings_changed_during_an_epoch_do_not_reach_it() -> None:
    loader = DataLoader(Numbers(6), batch_size=2, prefetch=1)
    iterator = iter(loader)
    loader.collate_fn = len
    assert [batch[1].tolist() for batch in iterator] == [[0, 1], [2, 3], [4, 5]]
    assert list(loader) == [2, 2, 2]
