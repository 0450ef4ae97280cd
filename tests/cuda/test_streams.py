"""Simulated streams: right programs give right numbers in every order, and what is not ordered is told in every run."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from workbench.cuda.driver import CudaDriver, CudaError, CudaOutOfMemory, Stream
from workbench.cuda.simulated.accesses import TouchedAfterFree, UnorderedAccess
from workbench.cuda.simulated.device import SimulatedDriver
from workbench.cuda.simulated.machine import PinnedRewritten, UndefinedValues
from workbench.cuda.simulated.streams import SCHEDULES
from workbench.errors import InvalidArgument, NoMemory

SEEDS = range(20)
N = 64


def machine(schedule: str = "late", seed: int = 0, devices: int = 1, **options: int) -> SimulatedDriver:
    return SimulatedDriver(devices, schedule=schedule, seed=seed, deadline_seconds=0.2, **options)  # type: ignore[arg-type]


def filled(driver: CudaDriver, values: object, dtype: str = "u1") -> int:
    """Device memory with values that the host has put there."""
    array = np.ascontiguousarray(values, dtype)
    address = driver.allocate(array.nbytes)
    driver.write(address, array)
    return address


def held(driver: CudaDriver, address: int, count: int = N) -> list[int]:
    array = np.empty(count, np.uint8)
    driver.read(array, address)
    return array.tolist()


def order(driver: CudaDriver, first: Stream, then: Stream) -> None:
    event = driver.create_event()
    driver.record_event(event, first)
    driver.wait_event(then, event)
    driver.destroy_event(event)


# Right programs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_chain_over_streams_and_events_gives_its_numbers(schedule: str, seed: int) -> None:
    driver = machine(schedule, seed)
    streams = [driver.create_stream() for _ in range(3)]
    pinned, back = driver.allocate_pinned(N), driver.allocate_pinned(N)
    pinned[:] = np.arange(N)
    places = [driver.allocate(N) for _ in range(4)]
    driver.copy_to_device(places[0], pinned, streams[0])
    for i in range(3):
        if i:
            order(driver, streams[i - 1], streams[i])
        driver.copy_on_device(places[i + 1], places[i], N, streams[i])
    driver.copy_to_host(back, places[3], streams[2])
    driver.synchronize_stream(streams[2])
    assert back.tolist() == list(range(N))


def write_random_program(seed: int) -> tuple[list[tuple[int, int, int]], set[tuple[int, int]]]:
    """Copies `(stream, from, to)` among eight cells, and pairs of pieces of work with an event between them."""
    draw = random.Random(seed)
    works = [(draw.randrange(3), *draw.sample(range(8), 2)) for _ in range(draw.randint(4, 12))]
    events = {(a, b) for b in range(len(works)) for a in range(b) if draw.random() < 0.5}
    return works, events


def ordered_pairs(works: list[tuple[int, int, int]], events: set[tuple[int, int]]) -> set[tuple[int, int]]:
    """The transitive closure of stream order and events, as a matrix is squared."""
    size = len(works)
    reach = np.zeros((size, size), bool)
    for b in range(size):
        for a in range(b):
            reach[a, b] = works[a][0] == works[b][0] or (a, b) in events
    for _ in range(size):
        reach |= reach @ reach
    return {(a, b) for a in range(size) for b in range(size) if reach[a, b]}


def has_race(works: list[tuple[int, int, int]], events: set[tuple[int, int]]) -> bool:
    ordered = ordered_pairs(works, events)
    pairs = [(a, b) for b in range(len(works)) for a in range(b) if (a, b) not in ordered]
    return any(
        works[a][2] in works[b][1:] or works[b][2] in works[a][1:] for a, b in pairs
    )  # one's target is what the other reads or writes


def run_program(driver: CudaDriver, works: list[tuple[int, int, int]], events: set[tuple[int, int]]) -> list[int]:
    streams = [driver.create_stream() for _ in range(3)]
    cells = [filled(driver, [i] * N) for i in range(8)]
    marks = [driver.create_event() for _ in works]
    for b, (stream, source, target) in enumerate(works):
        for a in range(b):
            if (a, b) in events:
                driver.wait_event(streams[stream], marks[a])
        driver.copy_on_device(cells[target], cells[source], N, streams[stream])
        driver.record_event(marks[b], streams[stream])
    driver.synchronize_device()
    return [held(driver, cell)[0] for cell in cells]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_random_programs_race_where_a_reference_says_so_and_are_right_elsewhere(schedule: str) -> None:
    """Whether two copies are ordered is computed here by closing a matrix, and numbers by doing them one by one."""
    races = 0
    for seed in range(150):
        works, events = write_random_program(seed)
        if has_race(works, events):
            races += 1
            with pytest.raises(UnorderedAccess):
                run_program(machine(schedule, seed), works, events)
        else:
            cells = list(range(8))
            for _, source, target in works:
                cells[target] = cells[source]
            assert run_program(machine(schedule, seed), works, events) == cells
    assert 20 < races < 130


def test_reads_beside_reads_and_neighbours_beside_neighbours_need_no_order() -> None:
    driver = machine()
    a, b, c = filled(driver, range(N)), filled(driver, [0] * N), filled(driver, [0] * N)
    s, t = driver.create_stream(), driver.create_stream()
    driver.copy_on_device(b, a, N // 2, s)
    driver.copy_on_device(c, a, N, t)
    driver.copy_on_device(b + N // 2, a, N // 2, t)
    driver.synchronize_device()
    assert held(driver, b) == [*range(N // 2)] * 2 and held(driver, c) == list(range(N))


def test_one_half_of_a_pinned_array_is_filled_while_the_other_one_is_copied() -> None:
    driver = machine("late")
    a, s, pinned = driver.allocate(N), driver.create_stream(), driver.allocate_pinned(2 * N)
    pinned[:N] = 1
    driver.copy_to_device(a, pinned[:N], s)
    pinned[N:] = 2
    driver.copy_to_device(a, pinned[N:], s)
    driver.synchronize_stream(s)
    assert held(driver, a) == [2] * N


def test_whoever_touched_only_a_part_does_not_hide_who_touched_the_rest() -> None:
    driver = machine("eager")
    a, (s, t, u) = filled(driver, [0] * N), (driver.create_stream() for _ in range(3))
    driver.fill(a, 1, N, s)
    order(driver, s, t)
    driver.fill(a, 2, 8, t)
    with pytest.raises(UnorderedAccess, match="bytes 32 to 40"):
        driver.fill(a + 32, 3, 8, u)


def test_a_reader_does_not_hide_who_wrote() -> None:
    driver = machine("eager")
    a, b, c = (filled(driver, [0] * N) for _ in range(3))
    s, t, u = (driver.create_stream() for _ in range(3))
    driver.fill(a, 1, N, s)
    order(driver, s, t)
    driver.copy_on_device(b, a, N, t)
    with pytest.raises(UnorderedAccess, match="which fill of 64 bytes"):
        driver.copy_on_device(c, a, N, u)


def test_an_event_stands_for_what_was_given_when_it_was_recorded_last() -> None:
    driver = machine()
    a = filled(driver, [0] * N)
    s, t = driver.create_stream(), driver.create_stream()
    event = driver.create_event()
    driver.record_event(event, s)
    driver.fill(a, 1, N, s)
    driver.wait_event(t, event)
    driver.fill(a, 2, N, t)
    with pytest.raises(UnorderedAccess):
        driver.synchronize_device()
    driver = machine()
    a = filled(driver, [0] * N)
    s, t = driver.create_stream(), driver.create_stream()
    event = driver.create_event()
    driver.record_event(event, s)
    driver.fill(a, 1, N, s)
    driver.record_event(event, s)
    driver.wait_event(t, event)
    driver.fill(a, 2, N, t)
    driver.synchronize_device()
    assert held(driver, a) == [2] * N


def test_late_work_runs_only_when_somebody_waits_for_it() -> None:
    driver = machine("late")
    a, b = filled(driver, [0] * N), filled(driver, [0] * N)
    s, t = driver.create_stream(), driver.create_stream()
    driver.fill(a, 1, N, s)
    driver.fill(b, 2, N, t)
    driver.synchronize_stream(s)
    assert driver.stream_done(s) and not driver.stream_done(t)
    assert held(driver, a) == [1] * N
    driver.synchronize_stream(t)
    assert held(driver, b) == [2] * N


def test_a_host_that_has_seen_an_event_done_may_go_on() -> None:
    driver = machine("eager")
    a = filled(driver, [0] * N)
    s, t = driver.create_stream(), driver.create_stream()
    event = driver.create_event()
    driver.fill(a, 1, N, s)
    driver.record_event(event, s)
    with pytest.raises(UnorderedAccess):
        held(driver, a)
    assert driver.event_done(event)
    driver.fill(a, 2, N, t)
    driver.synchronize_stream(t)
    assert held(driver, a) == [2] * N


def test_many_steps_on_one_stream_keep_no_history() -> None:
    driver = machine("random")
    a, b = filled(driver, [0] * N), filled(driver, [1] * N)
    s, t = driver.create_stream(), driver.create_stream()
    for step in range(6000):
        driver.fill(a, step % 200, N, s)
        order(driver, s, t)
        driver.copy_on_device(b, a, N, t)
        order(driver, t, s)
        if step % 50 == 49:
            driver.synchronize_stream(s)
    driver.synchronize_device()
    assert driver.timeline.known_to_host == 0 and not any(block.accesses for block in driver.timeline.memory.blocks())
    assert held(driver, b) == [5999 % 200] * N


# What is wrong --------------------------------------------------------------------------------------------------------

Story = Callable[[SimulatedDriver], None]


def missing_event(driver: SimulatedDriver) -> None:
    a, b = filled(driver, [1] * N), filled(driver, [0] * N)
    s, t = driver.create_stream(), driver.create_stream()
    driver.fill(a, 3, N, s)  # first
    driver.copy_on_device(b, a, N, t)  # second
    driver.synchronize_device()


def write_after_read(driver: SimulatedDriver) -> None:
    a, b = filled(driver, [1] * N), filled(driver, [0] * N)
    s, t = driver.create_stream(), driver.create_stream()
    driver.copy_on_device(b, a, N, s)  # first
    driver.fill(a + N - 1, 3, 1, t)  # second
    driver.synchronize_device()


def host_read_without_waiting(driver: SimulatedDriver) -> None:
    a, s = filled(driver, [1] * N), driver.create_stream()
    driver.fill(a, 3, N, s)  # first
    driver.read(np.empty(N, np.uint8), a)  # second
    driver.synchronize_device()


def host_write_without_waiting(driver: SimulatedDriver) -> None:
    a, b, s = filled(driver, [1] * N), filled(driver, [1] * N), driver.create_stream()
    driver.copy_on_device(b, a, N, s)  # first
    driver.write(a, np.zeros(N, np.uint8))  # second
    driver.synchronize_device()


def pinned_read_without_waiting(driver: SimulatedDriver) -> None:
    a, s, pinned = filled(driver, [1] * N), driver.create_stream(), driver.allocate_pinned(N)
    driver.copy_to_host(pinned, a, s)  # first
    pinned.sum()  # second
    driver.synchronize_device()


def pinned_view_read_without_waiting(driver: SimulatedDriver) -> None:
    a, s, pinned = filled(driver, [1] * N), driver.create_stream(), driver.allocate_pinned(N)
    floats = pinned.view(np.float32)[4:]
    driver.copy_to_host(pinned, a, s)  # first
    float(floats[0])  # second
    driver.synchronize_device()


def pinned_rewritten_too_early(driver: SimulatedDriver) -> None:
    a, s, pinned = driver.allocate(N), driver.create_stream(), driver.allocate_pinned(N)
    pinned[:] = 1
    driver.copy_to_device(a, pinned, s)  # first
    pinned[3] = 2  # second
    driver.synchronize_device()


def pinned_added_to_too_early(driver: SimulatedDriver) -> None:
    a, s, pinned = driver.allocate(N), driver.create_stream(), driver.allocate_pinned(N)
    pinned[:] = 1
    driver.copy_to_device(a, pinned, s)  # first
    pinned += 2  # second
    driver.synchronize_device()


def pinned_copied_to_too_early(driver: SimulatedDriver) -> None:
    a, s, pinned = driver.allocate(N), driver.create_stream(), driver.allocate_pinned(N)
    pinned[:] = 1
    driver.copy_to_device(a, pinned, s)  # first
    np.copyto(pinned, np.zeros(N, np.uint8))  # second
    driver.synchronize_device()


def pinned_freed_too_early(driver: SimulatedDriver) -> None:
    a, s, pinned = driver.allocate(N), driver.create_stream(), driver.allocate_pinned(N)
    pinned[:] = 1
    driver.copy_to_device(a, pinned, s)  # first
    driver.free_pinned(pinned)  # second
    driver.synchronize_device()


def freed_too_early(driver: SimulatedDriver) -> None:
    a, s = filled(driver, [1] * N), driver.create_stream()
    driver.fill(a, 2, N, s)  # first
    driver.free(a)  # second
    driver.synchronize_device()


def freed_on_another_stream(driver: SimulatedDriver) -> None:
    s, t = driver.create_stream(), driver.create_stream()
    a = driver.allocate_on(N, s)
    order(driver, s, t)
    driver.fill(a, 2, N, t)  # first
    driver.free_on(a, s)  # second
    driver.synchronize_device()


def allocated_on_another_stream(driver: SimulatedDriver) -> None:
    s, t = driver.create_stream(), driver.create_stream()
    a = driver.allocate_on(N, s)  # first
    driver.fill(a, 2, N, t)  # second
    driver.synchronize_device()


RACES = [
    missing_event, write_after_read, host_read_without_waiting, host_write_without_waiting, pinned_read_without_waiting,
    pinned_view_read_without_waiting, pinned_rewritten_too_early, pinned_added_to_too_early, pinned_copied_to_too_early,
    pinned_freed_too_early, freed_too_early, freed_on_another_stream, allocated_on_another_stream,
]  # fmt: skip


def lines_of(story: Story) -> set[str]:
    """Files and lines of the two calls that a story marks."""
    source, start = Path(__file__).read_text("utf-8").splitlines(), story.__code__.co_firstlineno
    marked = [i for i in range(start, start + 12) if re.search(r"# (first|second)$", source[i - 1])][:2]
    return {f"{__file__}:{line}" for line in marked}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("story", RACES)
def test_a_missing_order_is_told_with_both_calls(story: Story, schedule: str) -> None:
    for seed in range(5):
        with pytest.raises((UnorderedAccess, TouchedAfterFree)) as caught:
            story(machine(schedule, seed))
        assert all(line in str(caught.value) for line in lines_of(story)), str(caught.value)


def test_a_host_that_does_not_wait_is_told_at_once() -> None:
    driver = machine("late")
    a, s, pinned = filled(driver, [1] * N), driver.create_stream(), driver.allocate_pinned(N)
    driver.copy_to_host(pinned, a, s)
    driver.fill(a, 2, N, s)
    with pytest.raises(UnorderedAccess, match="read of pinned memory"):
        pinned.tolist()
    with pytest.raises(UnorderedAccess, match="fill of 64 bytes"):
        held(driver, a)


def test_pinned_memory_rewritten_behind_our_back_is_told_when_it_is_copied() -> None:
    driver = machine("late")
    a, s, pinned = driver.allocate(N), driver.create_stream(), driver.allocate_pinned(N)
    pinned[:] = 1
    driver.copy_to_device(a, pinned, s)
    memoryview(pinned).cast("B")[5] = 9
    with pytest.raises(PinnedRewritten, match=r"test_streams.py"):
        driver.synchronize_stream(s)


def test_pinned_memory_holds_poison_until_the_copy_is_done() -> None:
    driver = machine("late")
    a, s, pinned = filled(driver, [1] * N), driver.create_stream(), driver.allocate_pinned(N)
    pinned[:] = 7
    driver.copy_to_host(pinned, a, s)
    assert set(bytes(memoryview(pinned))) == {0xCD}
    driver.synchronize_stream(s)
    assert pinned.tolist() == [1] * N


def test_a_round_trip_through_one_pinned_array_is_right() -> None:
    for schedule in SCHEDULES:
        driver = machine(schedule)
        a, b, s, pinned = filled(driver, [1] * N), driver.allocate(N), driver.create_stream(), driver.allocate_pinned(N)
        driver.copy_to_host(pinned, a, s)
        driver.copy_to_device(b, pinned, s)
        driver.synchronize_stream(s)
        assert held(driver, b) == [1] * N


def used_after_free(driver: SimulatedDriver) -> None:
    a, s = filled(driver, [1] * N), driver.create_stream()
    driver.free(a)
    driver.fill(a, 2, N, s)
    driver.synchronize_stream(s)


def used_after_free_on_a_stream(driver: SimulatedDriver) -> None:
    s = driver.create_stream()
    a = driver.allocate_on(N, s)
    driver.free_on(a, s)
    driver.fill(a, 2, N, s)
    driver.synchronize_stream(s)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("story", [used_after_free, used_after_free_on_a_stream])
def test_use_after_free_names_who_freed(story: Story, schedule: str) -> None:
    with pytest.raises(TouchedAfterFree, match=r"fill of 64 bytes .* that were given back by free"):
        story(machine(schedule))


def copy_of_pageable(driver: SimulatedDriver) -> None:
    driver.copy_to_device(filled(driver, [1] * N), np.zeros(N, np.uint8), driver.create_stream())


def copy_with_gaps(driver: SimulatedDriver) -> None:
    driver.copy_to_device(filled(driver, [1] * N), driver.allocate_pinned(N)[::2], driver.create_stream())


def copy_onto_itself(driver: SimulatedDriver) -> None:
    a = filled(driver, [1] * N)
    driver.copy_on_device(a + 1, a, N - 1, driver.create_stream())


def beyond_the_end(driver: SimulatedDriver) -> None:
    driver.fill(filled(driver, [1] * N), 0, N + 1, driver.create_stream())
    driver.synchronize_device()


def double_free(driver: SimulatedDriver) -> None:
    a = driver.allocate(N)
    driver.free(a)
    driver.free(a)


def free_of_the_middle(driver: SimulatedDriver) -> None:
    driver.free(driver.allocate(N) + 16)


def free_of_pool_memory(driver: SimulatedDriver) -> None:
    driver.free(driver.allocate_on(N, driver.create_stream()))


def pool_free_of_plain_memory(driver: SimulatedDriver) -> None:
    driver.free_on(driver.allocate(N), driver.create_stream())


def unknown_stream(driver: SimulatedDriver) -> None:
    driver.synchronize_stream(Stream(12345))


def destroyed_stream(driver: SimulatedDriver) -> None:
    stream = driver.create_stream()
    driver.destroy_stream(stream)
    driver.synchronize_stream(stream)


def event_as_stream(driver: SimulatedDriver) -> None:
    driver.synchronize_stream(Stream(driver.create_event()))


def stream_of_another_device(driver: SimulatedDriver) -> None:
    stream = driver.create_stream()
    driver.set_device(1)
    driver.fill(driver.allocate(N), 0, N, stream)


def event_of_another_device(driver: SimulatedDriver) -> None:
    event = driver.create_event()
    driver.set_device(1)
    driver.record_event(event, driver.create_stream())


def memory_of_another_device(driver: SimulatedDriver) -> None:
    a = filled(driver, [1] * N)
    driver.set_device(1)
    driver.fill(a, 0, N, driver.create_stream())
    driver.synchronize_device()


def device_that_is_not_there(driver: SimulatedDriver) -> None:
    driver.set_device(2)


def peer_access_twice(driver: SimulatedDriver) -> None:
    driver.enable_peer_access(1)
    driver.enable_peer_access(1)


def time_of_events_without_times(driver: SimulatedDriver) -> None:
    driver.elapsed_ms(driver.create_event(), driver.create_event())


def nothing_allocated(driver: SimulatedDriver) -> None:
    driver.allocate(0)


REFUSED: list[tuple[Story, str]] = [
    (copy_of_pageable, "not in pinned memory"),
    (copy_with_gaps, "not contiguous"),
    (copy_onto_itself, "onto themselves"),
    (beyond_the_end, "beyond the 64 bytes allocated at .*test_streams.py"),
    (double_free, "was given back by free"),
    (free_of_the_middle, "not the start of an allocation"),
    (free_of_pool_memory, "frees what `allocate_on` gave"),
    (pool_free_of_plain_memory, "gives a pool what `allocate` gave"),
    (unknown_stream, "was never made"),
    (destroyed_stream, "was destroyed at .*test_streams.py"),
    (event_as_stream, "uses SimulatedStream"),
    (stream_of_another_device, "device 1 is current"),
    (event_of_another_device, "event of device 0 on a stream of device 1"),
    (memory_of_another_device, "peer access is not enabled"),
    (device_that_is_not_there, "names device 2; there are 2"),
    (peer_access_twice, "twice"),
    (time_of_events_without_times, "times that they have not"),
    (nothing_allocated, "allocates 0 bytes"),
]


@pytest.mark.parametrize(("story", "message"), REFUSED)
def test_what_cuda_would_refuse_or_break_is_refused(story: Story, message: str) -> None:
    with pytest.raises(CudaError, match=message):
        story(machine("late", devices=2))


def test_values_that_nobody_wrote_are_not_read() -> None:
    driver = machine("late")
    a, b, s = driver.allocate(N), driver.allocate(N), driver.create_stream()
    with pytest.raises(UndefinedValues, match="reads 64 bytes that nothing has written"):
        held(driver, a)
    driver.fill(a, 1, N // 2, s)
    driver.copy_on_device(b, a, N, s)
    driver.synchronize_stream(s)
    assert held(driver, b, N // 2) == [1] * (N // 2)
    with pytest.raises(UndefinedValues, match="reads 32 bytes"):
        held(driver, b)


def test_peers_may_touch_each_other_and_copies_need_no_leave() -> None:
    driver = machine("random", devices=2)
    a = filled(driver, [1] * N)
    driver.set_device(1)
    b, s = filled(driver, [2] * N), driver.create_stream()
    driver.copy_between(b, 1, a, 0, N, s)
    driver.synchronize_stream(s)
    assert held(driver, b) == [1] * N
    driver.enable_peer_access(0)
    driver.fill(a, 3, N, s)
    driver.synchronize_stream(s)
    assert held(driver, a) == [3] * N
    with pytest.raises(CudaError, match="is not of device 0"):
        driver.copy_between(b, 0, a, 1, N, s)


# What is ordered to go wrong ------------------------------------------------------------------------------------------


def test_memory_runs_out_by_itself_and_by_order() -> None:
    driver = machine(memory_bytes=4096)
    a = driver.allocate(4000)
    with pytest.raises(NoMemory, match="asks for 200 bytes of device 0, which has 96 of 4096 left"):
        driver.allocate(200)
    driver.free(a)
    assert driver.memory_info() == (4096, 4096)
    driver.faults.out_of_memory(2)
    driver.allocate(10)
    with pytest.raises(CudaOutOfMemory):
        driver.allocate(10)
    driver.allocate(10)


def test_a_call_fails_by_order() -> None:
    driver = machine()
    driver.faults.fail("create_stream", 2, "cudaErrorUnknown", stays=True)
    driver.create_stream()
    for _ in range(2):
        with pytest.raises(CudaError, match="create_stream: cudaErrorUnknown") as caught:
            driver.create_stream()
        assert caught.value.code == "cudaErrorUnknown"


def test_a_lost_device_stays_lost_and_the_other_one_lives() -> None:
    driver = machine("late", devices=2)
    a, s = filled(driver, [1] * N), driver.create_stream()
    driver.faults.lose_device(0, after=1)
    driver.fill(a, 1, N, s)
    driver.synchronize_stream(s)
    driver.fill(a, 2, N, s)
    with pytest.raises(CudaError, match="device 0 is lost at fill of 64 bytes"):
        driver.synchronize_stream(s)
    with pytest.raises(CudaError, match="calls allocate on device 0, which is lost"):
        driver.allocate(N)
    driver.set_device(1)
    assert held(driver, filled(driver, [4] * N)) == [4] * N


def test_a_lost_device_does_nothing_more() -> None:
    driver = machine("late", devices=2)
    a, s, t = filled(driver, [1] * N), driver.create_stream(), driver.create_stream()
    driver.faults.lose_device(0)
    driver.fill(driver.allocate(N), 2, N, s)
    driver.fill(a, 2, N, t)
    for stream in (s, t):
        with pytest.raises(CudaError, match="is lost"):
            driver.synchronize_stream(stream)
    driver.set_device(1)
    with driver.timeline.lock:
        driver.timeline.wait_for(list(driver.timeline.pending()))
    assert driver.machine.memory.read(a, N) == bytes([1] * N)


def test_times_go_forward() -> None:
    driver = machine("random")
    a, s = filled(driver, [1] * N), driver.create_stream()
    start, end = driver.create_event(timing=True), driver.create_event(timing=True)
    driver.record_event(start, s)
    driver.fill(a, 1, N, s)
    driver.record_event(end, s)
    driver.synchronize_event(end)
    assert driver.elapsed_ms(start, end) > 0


def test_a_schedule_has_one_of_three_names() -> None:
    with pytest.raises(InvalidArgument, match="a schedule is one of eager, random, late"):
        machine("soon")
