"""What goes wrong in a `DataLoader` names its sample; its prefetch thread ends with the loop."""

import gc
import threading
import time
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from tests.data.test_loader import Numbers, Stream, in_and_out
from tests.data.test_prefetch import eventually
from tests.stress.tripwire import Tripwire
from workbench.data import (
    DataLoader,
    TensorDataset,
)
from workbench.errors import EnforceNotMet, InvalidArgument, InvalidType, Unavailable

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


# Ctrl-C


LOADING = [f"data/{name}.py" for name in ("loader", "iteration", "prefetch", "worker", "batched", "collate", "sampler")]


@pytest.mark.parametrize("arguments", [{"prefetch": 0}, {"prefetch": 2}, {"num_workers": 2}], ids=str)
def test_ctrl_c_at_any_moment_leaves_a_loader_that_goes_on(arguments: dict[str, Any]) -> None:
    """The batch that is just being handed over may be lost; none comes twice, none of the others is missing."""
    before = threading.active_count()

    def epoch(moment: int | None) -> tuple[list[Any], DataLoader, Tripwire]:
        loader, batches = DataLoader(Numbers(6), batch_size=2, **arguments), []
        with suppress(KeyboardInterrupt), Tripwire(moment, LOADING) as wire:
            for batch in loader:
                batches.append(batch[1].tolist())
        return batches, loader, wire

    whole, _, wire = epoch(None)
    lost = 0
    for moment in range(wire.count):
        batches, loader, _ = epoch(moment)
        resumed = DataLoader(Numbers(6), batch_size=2, **arguments)
        resumed.load_state_dict(loader.state_dict())
        rest = [batch[1].tolist() for batch in resumed]
        complete = batches == whole[: len(batches)] and rest in (whole[len(batches) :], whole)
        lost += not complete
        assert complete or batches + rest == whole[: len(batches)] + whole[len(batches) + 1 :], moment
    gc.collect()
    assert lost <= 4 and eventually(lambda: threading.active_count() <= before)
