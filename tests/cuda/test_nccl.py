"""NCCL on simulated devices: numbers against NumPy, and every way in which ranks may miss each other."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from workbench.cuda.driver import NCCL_REDUCTIONS, NCCL_TYPES, CudaError
from workbench.cuda.simulated.accesses import UnorderedAccess
from workbench.cuda.simulated.device import SimulatedDriver
from workbench.cuda.simulated.nccl import ring_reduction
from workbench.cuda.simulated.streams import SCHEDULES
from workbench.errors import ExecutionTimeout


class Ranks:
    """A machine with a stream and a rank on each of its devices."""

    def __init__(self, size: int, schedule: str = "random", seed: int = 0) -> None:
        self.driver = SimulatedDriver(size, schedule=schedule, seed=seed, deadline_seconds=0.5)
        self.ranks = self.driver.create_ranks(range(size))
        self.streams = [self.on(i, self.driver.create_stream) for i in range(size)]

    def on(self, device: int, call: Callable[..., Any], *args: Any) -> Any:
        self.driver.set_device(device)
        return call(*args)

    def put(self, device: int, array: np.ndarray) -> int:
        address = self.on(device, self.driver.allocate, array.nbytes)
        self.driver.write(address, array)
        return int(address)

    def take(self, device: int, address: int, like: np.ndarray) -> np.ndarray:
        self.on(device, self.driver.synchronize_stream, self.streams[device])
        array = np.empty_like(like)
        self.driver.read(array, address)
        return array

    def together(self, *calls: Callable[[int], None]) -> None:
        """Every call for every rank, in one group."""
        self.driver.group_start()
        for i in range(len(self.ranks)):
            self.driver.set_device(i)
            for call in calls:
                call(i)
        self.driver.group_end()

    def in_threads(self, bodies: Sequence[Callable[[], None]]) -> list[BaseException]:
        """One thread for every rank; what they raise."""
        errors: list[BaseException] = []
        start = threading.Barrier(len(bodies))

        def run(device: int, body: Callable[[], None]) -> None:
            self.driver.set_device(device)
            start.wait()
            try:
                body()
            except Exception as error:
                errors.append(error)

        threads = [threading.Thread(target=run, args=pair) for pair in enumerate(bodies)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert not any(thread.is_alive() for thread in threads)
        return errors


def dtype_of(name: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def draw(name: str, size: int, count: int) -> list[np.ndarray]:
    random = np.random.default_rng(size)
    return [
        random.integers(0 if name in ("bool", "uint8") else -2, 3, count).astype(dtype_of(name)) for _ in range(size)
    ]


REFERENCE = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min, "mean": np.mean}


@pytest.mark.parametrize("dtype", sorted(set(NCCL_TYPES) - {"bool"}))
@pytest.mark.parametrize("reduction", sorted(NCCL_REDUCTIONS))
@pytest.mark.parametrize(("size", "count"), [(2, 5), (4, 13)])
def test_all_reduce_is_the_reduction_of_all(dtype: str, reduction: str, size: int, count: int) -> None:
    """Small integers, which are exact in every dtype; means of two and four ranks are, too."""
    ranks, values = Ranks(size), draw(dtype, size, count)
    places = [ranks.put(i, value) for i, value in enumerate(values)]
    ranks.together(
        lambda i: ranks.driver.all_reduce(
            ranks.ranks[i], places[i], places[i], count, dtype, reduction, ranks.streams[i]
        )
    )
    exact = REFERENCE[reduction](np.stack([value.astype("f8") for value in values]), axis=0)
    floats = dtype.startswith(("f", "b"))
    for i in range(size):
        result = ranks.take(i, places[i], values[i]).astype("f8")
        if reduction == "mean" and not floats:
            assert (abs(result - exact) < 1).all()
        else:
            assert result.tolist() == exact.tolist()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("seed", range(7))
def test_every_collective_in_every_schedule(schedule: str, seed: int) -> None:
    size, count, root = 3, 4, 1
    ranks = Ranks(size, schedule, seed)
    driver, values = ranks.driver, [np.arange(12, dtype=np.int32) + 100 * i for i in range(size)]
    source = [ranks.put(i, value) for i, value in enumerate(values)]
    names = ("reduce", "broadcast", "reduce_scatter", "all_gather", "receive")
    results = {name: [ranks.put(i, np.full(12, -1, np.int32)) for i in range(size)] for name in names}

    def give(name: str, i: int, *rest: Any) -> None:
        getattr(driver, name)(ranks.ranks[i], source[i], results[name][i], count, "int32", *rest, ranks.streams[i])

    ranks.together(lambda i: give("reduce", i, "sum", root), lambda i: give("broadcast", i, root))
    ranks.together(lambda i: give("reduce_scatter", i, "max"))
    ranks.together(lambda i: give("all_gather", i))
    ranks.together(
        lambda i: driver.send(ranks.ranks[i], source[i], 12, "int32", (i + 1) % size, ranks.streams[i]),
        lambda i: driver.receive(ranks.ranks[i], results["receive"][i], 12, "int32", (i - 1) % size, ranks.streams[i]),
    )
    for i in range(size):
        took = {name: ranks.take(i, results[name][i], values[0]).tolist() for name in names}
        total = sum(values)[:count].tolist() if i == root else [-1] * count
        assert took["reduce"] == total + [-1] * 8
        assert took["broadcast"] == values[root][:count].tolist() + [-1] * 8
        assert took["reduce_scatter"] == values[2][i * count : (i + 1) * count].tolist() + [-1] * 8
        assert took["all_gather"] == [x for value in values for x in value[:count].tolist()]
        assert took["receive"] == values[(i - 1) % size].tolist()


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_ranks_on_threads_of_their_own_meet(schedule: str) -> None:
    driver = SimulatedDriver(3, schedule=schedule, deadline_seconds=5)
    name, sums = driver.unique_id(), {}

    def train(i: int) -> None:
        driver.set_device(i)
        rank, stream = driver.create_rank(3, name, i), driver.create_stream()
        place = driver.allocate(4)
        driver.write(place, np.array([i], np.float32))
        for _ in range(5):
            driver.all_reduce(rank, place, place, 1, "float32", "sum", stream)
        driver.synchronize_stream(stream)
        value = np.empty(1, np.float32)
        driver.read(value, place)
        sums[i] = value[0]
        driver.destroy_rank(rank)

    threads = [threading.Thread(target=train, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert sums == dict.fromkeys(range(3), 3.0 * 3**4) and len(name) == 128


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("seed", range(5))
def test_a_collective_takes_what_the_stream_of_every_rank_wrote_before(schedule: str, seed: int) -> None:
    ranks = Ranks(3, schedule, seed)
    places = [ranks.put(i, np.zeros(4, np.uint8)) for i in range(3)]
    for i in range(3):
        ranks.on(i, ranks.driver.fill, places[i], i + 1, 4, ranks.streams[i])
    ranks.together(lambda i: all_reduce(ranks, i, places[i], 4, "uint8"))
    assert ranks.take(0, places[0], np.zeros(4, np.uint8)).tolist() == [6] * 4


def test_all_ranks_get_the_same_bits_and_a_ring_rounds_at_every_step() -> None:
    random = np.random.default_rng(0)
    values = [random.standard_normal(1000).astype(np.float32) for _ in range(4)]
    total = ring_reduction(values, "sum")
    exact = np.sum(np.stack(values).astype("f8"), axis=0)
    assert (abs(total - exact) < 4e-7 * np.sum(abs(np.stack(values)), axis=0)).all() and (total != exact).any()
    ranks = Ranks(4)
    places = [ranks.put(i, value) for i, value in enumerate(values)]
    ranks.together(
        lambda i: ranks.driver.all_reduce(
            ranks.ranks[i], places[i], places[i], 1000, "float32", "sum", ranks.streams[i]
        )
    )
    assert all((ranks.take(i, places[i], total) == total).all() for i in range(4))


# Ranks that miss each other -------------------------------------------------------------------------------------------


def all_reduce(ranks: Ranks, i: int, place: int, count: int = 4, dtype: str = "float32", how: str = "sum") -> None:
    ranks.driver.all_reduce(ranks.ranks[i], place, place, count, dtype, how, ranks.streams[i])


@pytest.mark.parametrize(
    ("other", "told"),
    [
        ({"count": 3}, "all_reduce of 3 float32, sum"),
        ({"dtype": "int32"}, "all_reduce of 4 int32, sum"),
        ({"how": "max"}, "all_reduce of 4 float32, max"),
    ],
)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_ranks_that_disagree_stand_still_and_are_told_where(other: dict[str, Any], told: str, schedule: str) -> None:
    ranks = Ranks(2, schedule)
    places = [ranks.put(i, np.zeros(4, np.float32)) for i in range(2)]

    def body(i: int) -> Callable[[], None]:
        def run() -> None:
            all_reduce(ranks, i, places[i], **(other if i else {}))
            ranks.driver.synchronize_stream(ranks.streams[i])

        return run

    errors = ranks.in_threads([body(0), body(1)])
    assert [type(error) for error in errors] == [ExecutionTimeout] * 2
    sites = r"rank 0 stands in all_reduce of 4 float32, sum given at .*test_nccl.py:\d+; rank 1 stands in "
    assert all(re.search(sites + re.escape(told) + r" given at .*test_nccl.py:\d+", str(error)) for error in errors)


def test_ranks_that_take_buckets_in_different_orders_stand_still() -> None:
    ranks = Ranks(2)
    places = [[ranks.put(i, np.zeros(n, np.float32)) for n in (4, 3)] for i in range(2)]

    def first() -> None:
        all_reduce(ranks, 0, places[0][0], 4)
        all_reduce(ranks, 0, places[0][1], 3)
        ranks.driver.synchronize_stream(ranks.streams[0])

    def second() -> None:
        all_reduce(ranks, 1, places[1][1], 3)
        all_reduce(ranks, 1, places[1][0], 4)
        ranks.driver.synchronize_stream(ranks.streams[1])

    errors = ranks.in_threads([first, second])
    assert len(errors) == 2 and "rank 1 stands in all_reduce of 3 float32" in str(errors[0])


def test_a_rank_that_does_not_come_is_named() -> None:
    ranks = Ranks(2)
    place = ranks.put(0, np.zeros(4, np.float32))
    (error,) = ranks.in_threads(
        [lambda: (all_reduce(ranks, 0, place), ranks.driver.synchronize_device()), lambda: None]
    )
    assert "rank 1 stands in no collective" in str(error)


def test_two_communicators_in_different_orders_stand_still() -> None:
    ranks = Ranks(2)
    others = ranks.driver.create_ranks(range(2))
    more = [ranks.on(i, ranks.driver.create_stream) for i in range(2)]
    places = [[ranks.put(i, np.zeros(4, np.float32)) for _ in range(2)] for i in range(2)]

    def body(i: int) -> Callable[[], None]:
        def one() -> None:
            all_reduce(ranks, i, places[i][0])

        def other() -> None:
            place = places[i][1]
            ranks.driver.all_reduce(others[i], place, place, 4, "float32", "sum", more[i])

        def run() -> None:
            for call in (other, one) if i else (one, other):
                call()
            ranks.driver.synchronize_device()

        return run

    errors = ranks.in_threads([body(0), body(1)])
    assert len(errors) == 2 and "of another communicator" in str(errors[0])


def test_one_thread_for_several_ranks_needs_a_group() -> None:
    ranks = Ranks(2)
    places = [ranks.put(i, np.zeros(4, np.float32)) for i in range(2)]
    all_reduce(ranks, 0, places[0])
    with pytest.raises(CudaError, match="no group holds the two"):
        all_reduce(ranks, 1, places[1])
    driver = SimulatedDriver(2, deadline_seconds=0.2)
    name = driver.unique_id()
    with pytest.raises(ExecutionTimeout, match=r"ranks \[1\] of 2 to be made .* needs a group"):
        driver.create_rank(2, name, 0)
    name = driver.unique_id()
    driver.group_start()
    for i in range(2):
        driver.set_device(i)
        driver.create_rank(2, name, i)
    driver.group_end()


def test_a_collective_is_ordered_with_its_stream_only() -> None:
    ranks = Ranks(2, "late")
    places = [ranks.put(i, np.zeros(4, np.float32)) for i in range(2)]
    ranks.driver.set_device(1)
    ranks.driver.fill(places[1], 0, 16, ranks.driver.create_stream())
    ranks.together(lambda i: all_reduce(ranks, i, places[i]))
    with pytest.raises(UnorderedAccess, match="all_reduce"):
        for i in range(2):
            ranks.on(i, ranks.driver.synchronize_device)


def test_a_broken_rank_is_told_and_an_aborted_one_lets_go() -> None:
    ranks = Ranks(2, "late")
    places = [ranks.put(i, np.zeros(4, np.float32)) for i in range(2)]
    ranks.driver.faults.break_rank(ranks.ranks[1], "has lost its peer")
    ranks.together(lambda i: all_reduce(ranks, i, places[i]))
    ranks.driver.raise_async_error(ranks.ranks[0])
    with pytest.raises(CudaError, match="rank 1 has lost its peer"):
        ranks.driver.raise_async_error(ranks.ranks[1])
    with pytest.raises(ExecutionTimeout, match="rank 1 has lost its peer"):
        ranks.on(0, ranks.driver.synchronize_device)
    with pytest.raises(CudaError, match="is not done"):
        ranks.driver.destroy_rank(ranks.ranks[0])
    for i in range(2):
        ranks.driver.abort_rank(ranks.ranks[i])
        ranks.on(i, ranks.driver.synchronize_device)
    with pytest.raises(CudaError, match=r"rank 0 was aborted at .*test_nccl.py"):
        all_reduce(ranks, 0, places[0])


def test_a_lost_device_leaves_the_other_ranks_waiting_and_is_told_to_its_own_thread() -> None:
    ranks = Ranks(2, "random")
    places = [ranks.put(i, np.zeros(4, np.float32)) for i in range(2)]
    ranks.driver.faults.lose_device(1)

    def body(i: int) -> Callable[[], None]:
        def run() -> None:
            ranks.driver.fill(places[i], 0, 16, ranks.streams[i])
            all_reduce(ranks, i, places[i])
            ranks.driver.synchronize_stream(ranks.streams[i])

        return run

    errors = {type(error): str(error) for error in ranks.in_threads([body(0), body(1)])}
    assert set(errors) == {ExecutionTimeout, CudaError}
    assert "rank 1 has lost its device: device 1 is lost" in errors[ExecutionTimeout]
    assert "device 1 is lost at fill" in errors[CudaError]


def test_what_nccl_refuses() -> None:
    ranks = Ranks(2)
    driver, place = ranks.driver, ranks.put(0, np.zeros(4, np.float32))
    with pytest.raises(CudaError, match="Duplicate GPU"):
        driver.create_ranks([0, 0])
    with pytest.raises(CudaError, match="ends a group that has not begun"):
        driver.group_end()
    with pytest.raises(CudaError, match="the stream on device 1"):
        driver.all_reduce(ranks.ranks[0], place, place, 4, "float32", "sum", ranks.streams[1])
    with pytest.raises(CudaError, match="dtypes are"):
        all_reduce(ranks, 0, place, dtype="complex64")
    with pytest.raises(CudaError, match="rank 7"):
        driver.broadcast(ranks.ranks[0], place, place, 4, "float32", 7, ranks.streams[0])
    name = driver.unique_id()
    driver.group_start()
    driver.create_rank(2, name, 0)
    with pytest.raises(CudaError, match="of a communicator of 2 ranks"):
        driver.create_rank(3, name, 1)
