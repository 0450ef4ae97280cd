"""Datasets, subsets and samplers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.data import (
    BatchSampler,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequenceSampler,
    Subset,
    TensorDataset,
    random_split,
)
from workbench.data.dataset import row_reader
from workbench.errors import InvalidArgument, InvalidType, Unimplemented


class Squares(Dataset):
    def __init__(self, count: int) -> None:
        self.count = count

    def __getitem__(self, index: int) -> int:
        return index * index

    def __len__(self) -> int:
        return self.count


def test_tensor_dataset_gives_rows() -> None:
    images, labels = np.arange(12.0).reshape(4, 3), np.array([5, 6, 7, 8])
    dataset = TensorDataset([images, labels])
    assert len(dataset) == 4
    image, label = dataset[2]
    assert image.tolist() == [6, 7, 8]
    assert label == 7


@pytest.mark.parametrize(
    ("tensors", "kind", "text"),
    [
        (np.zeros((2, 3)), InvalidType, "list or tuple"),
        ([], InvalidArgument, "at least one"),
        ([np.zeros(2), np.float32(1)], InvalidArgument, r"tensors\[1\] has shape \[\]"),
        ([np.zeros(2), np.zeros(3)], InvalidArgument, r"same number of rows, got \[2, 3\]"),
    ],
)
def test_tensor_dataset_refuses(tensors: object, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        TensorDataset(tensors)  # type: ignore[arg-type]


def test_undefined_methods_say_which_class_lacks_them() -> None:
    class Empty(Dataset):
        pass

    class Stream(IterableDataset):
        pass

    with pytest.raises(Unimplemented, match=r"Empty has to define __getitem__"):
        Empty()[0]
    with pytest.raises(Unimplemented, match=r"Empty has to define __len__"):
        len(Empty())
    with pytest.raises(Unimplemented, match=r"Stream has to define __iter__"):
        iter(Stream())
    with pytest.raises(TypeError, match="length is unknown"):
        len(Stream())
    with pytest.raises(TypeError, match="no sample by index"):
        Stream()[0]


def test_subset_reads_through_indices() -> None:
    subset = Subset(Squares(10), [7, 0, -1])
    assert [subset[i] for i in range(3)] == [49, 0, 1]
    with pytest.raises(InvalidArgument, match="index 10 is outside the dataset, which has 10 samples"):
        Subset(Squares(10), [3, 10])
    with pytest.raises(InvalidType, match="integers"):
        Subset(Squares(10), [0.5])  # type: ignore[list-item]


def test_only_datasets_in_memory_are_read_by_rows() -> None:
    class Augmented(TensorDataset):
        def __getitem__(self, index: int) -> tuple[np.ndarray]:
            return (super().__getitem__(index)[0] + 1,)

    plain = TensorDataset([np.arange(10)])
    assert row_reader(Squares(3)) is None
    assert row_reader(Augmented([np.arange(3)])) is None
    assert row_reader(Subset(Augmented([np.arange(3)]), [0])) is None
    nested = row_reader(Subset(Subset(plain, [9, 8, 7, 6]), [3, 1]))
    assert nested is not None
    assert nested(np.array([1, 0]))[0].tolist() == [8, 6]


@given(st.lists(st.integers(0, 20), min_size=1, max_size=5), st.integers(0, 1000))
def test_random_split_is_a_partition(lengths: list[int], seed: int) -> None:
    dataset = Squares(sum(lengths))
    parts = random_split(dataset, lengths, seed=seed)
    assert [len(part) for part in parts] == lengths
    assert sorted(part[i] for part in parts for i in range(len(part))) == [i * i for i in range(sum(lengths))]


def test_random_split_by_fractions_and_seeds() -> None:
    dataset = Squares(11)
    assert [len(part) for part in random_split(dataset, [0.5, 0.3, 0.2])] == [6, 3, 2]
    first, again = (random_split(dataset, [6, 5], seed=3)[0].indices.tolist() for _ in range(2))
    assert first == again
    assert first != random_split(dataset, [6, 5], seed=4)[0].indices.tolist()
    np.random.seed(1)
    one = random_split(dataset, [6, 5])[0].indices.tolist()
    np.random.seed(1)
    assert one == random_split(dataset, [6, 5])[0].indices.tolist()


@pytest.mark.parametrize("lengths", [[5, 5], [1, 0], [0.5, 0.4], [0.6, 0.6]])
def test_random_split_refuses_lengths_that_do_not_add_up(lengths: list[float]) -> None:
    with pytest.raises(InvalidArgument, match="add up to"):
        random_split(Squares(11), lengths)


def test_random_split_refuses_two_sources_and_negatives() -> None:
    with pytest.raises(InvalidArgument, match="not both"):
        random_split(Squares(2), [1, 1], np.random.default_rng(0), seed=0)
    with pytest.raises(InvalidArgument, match="negative"):
        random_split(Squares(2), [3, -1])
    with pytest.raises(InvalidType, match=r"numpy\.random\.Generator"):
        random_split(Squares(2), [1, 1], 5)  # type: ignore[arg-type]


# Samplers


def test_sequence_sampler() -> None:
    assert list(SequenceSampler(Squares(4))) == [0, 1, 2, 3]


@given(st.integers(0, 200), st.integers(0, 2**40), st.integers(0, 50))
def test_a_shuffle_is_a_permutation_fixed_by_seed_and_epoch(count: int, seed: int, epoch: int) -> None:
    sampler = RandomSampler(range(count), seed=seed)
    order = sampler.indices(epoch)
    assert sorted(order.tolist()) == list(range(count))
    assert order.tolist() == RandomSampler(range(count), seed=seed).indices(epoch).tolist()


def test_shuffles_of_other_epochs_and_seeds_differ() -> None:
    orders = {tuple(RandomSampler(range(50), seed=s).indices(e)) for s in range(10) for e in range(10)}
    assert len(orders) == 100


def test_a_shuffle_is_uniform() -> None:
    """Each of the 24 orders of four samples comes up about equally often (chi-squared, 23 degrees)."""
    trials = 4800
    counts: dict[tuple[int, ...], int] = {}
    for seed in range(trials):
        order = tuple(RandomSampler(range(4), seed=seed).indices(0).tolist())
        counts[order] = counts.get(order, 0) + 1
    assert len(counts) == 24
    chi_squared = sum((n - trials / 24) ** 2 / (trials / 24) for n in counts.values())
    assert chi_squared < 49.7  # 0.999 quantile


def test_every_iteration_of_a_random_sampler_is_the_next_epoch() -> None:
    sampler = RandomSampler(range(30), seed=1)
    first, second = list(sampler), list(sampler)
    assert first != second
    sampler.set_epoch(0)
    assert list(sampler) == first


def test_numpy_seed_fixes_an_unseeded_shuffle() -> None:
    np.random.seed(5)
    first = list(RandomSampler(range(30)))
    np.random.seed(5)
    assert list(RandomSampler(range(30))) == first


def test_random_sampler_draws() -> None:
    few = list(RandomSampler(range(100), num_samples=7, seed=0))
    assert len(set(few)) == len(few) == 7
    many = list(RandomSampler(range(3), replacement=True, num_samples=100, seed=0))
    assert len(many) == 100 and set(many) == {0, 1, 2}
    assert list(RandomSampler(range(9), generator=iter([4, 1, 2]))) == [4, 1, 2]
    assert list(RandomSampler(range(9), num_samples=2, generator=iter([4, 1, 2]))) == [4, 1]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"num_samples": 4}, "more than the 3 samples"),
        ({"num_samples": 0}, "positive"),
        ({"num_samples": 1.5}, "integer"),
        ({"replacement": 1}, "True or False"),
        ({"seed": -1}, "negative"),
        ({"generator": np.random.default_rng(0)}, "iterator of indices"),
    ],
)
def test_random_sampler_refuses(arguments: dict[str, object], text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        RandomSampler(range(3), **arguments)  # type: ignore[arg-type]


@given(st.integers(0, 60), st.integers(1, 20), st.booleans())
def test_batch_sampler_groups_in_order(count: int, size: int, drop_last: bool) -> None:
    sampler = BatchSampler(Squares(count), batch_size=size, drop_last=drop_last)
    batches = list(sampler)
    kept = count - count % size if drop_last else count
    assert [i for batch in batches for i in batch] == list(range(kept))
    assert len(batches) == len(sampler)
    assert all(len(batch) == size for batch in batches[:-1])
    assert sampler.last_rows() == (len(batches[-1]) if batches else 0)


def test_batch_sampler_shuffles_and_takes_samplers() -> None:
    shuffled = BatchSampler(Squares(10), shuffle=True, batch_size=3, seed=2)
    flat = [i for batch in shuffled for i in batch]
    assert sorted(flat) == list(range(10)) and flat != list(range(10))
    shuffled.set_epoch(0)
    assert [i for batch in shuffled for i in batch] == flat
    assert list(BatchSampler(sampler=[3, 1, 2], batch_size=2)) == [[3, 1], [2]]


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"dataset": Squares(3), "sampler": [1]},
        {"sampler": [1], "shuffle": True},
        {"sampler": [1], "seed": 1},
        {"sampler": 5},
        {"dataset": IterableDataset()},
        {"dataset": Squares(3), "batch_size": 0},
        {"dataset": Squares(3), "batch_size": 2.0},
        {"dataset": Squares(3), "shuffle": "yes"},
    ],
)
def test_batch_sampler_refuses(arguments: dict[str, object]) -> None:
    with pytest.raises(InvalidArgument):
        BatchSampler(**arguments)  # type: ignore[arg-type]


def test_the_base_sampler_is_abstract() -> None:
    with pytest.raises(NotImplementedError, match="Sampler has to define __iter__"):
        iter(Sampler())
