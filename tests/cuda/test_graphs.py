"""Capture and replay on simulated devices: what CUDA refuses, what a graph does, and who must not free its memory."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

from workbench.cuda.driver import CudaDriver, CudaError, ExecutableGraph, Stream
from workbench.cuda.simulated.accesses import UnorderedAccess
from workbench.cuda.simulated.device import SimulatedDriver
from workbench.cuda.simulated.graphs import CaptureRefused
from workbench.cuda.simulated.streams import SCHEDULES

N = 64
Story = Callable[[SimulatedDriver, Stream], None]


def machine(schedule: str = "random", seed: int = 0) -> SimulatedDriver:
    return SimulatedDriver(2, schedule=schedule, seed=seed, deadline_seconds=0.2)


def filled(driver: CudaDriver, value: int) -> int:
    address = driver.allocate(N)
    driver.write(address, np.full(N, value, np.uint8))
    return address


def held(driver: CudaDriver, address: int) -> int:
    array = np.empty(N, np.uint8)
    driver.read(array, address)
    (value,) = set(array.tolist())
    return int(value)


def order(driver: CudaDriver, first: Stream, then: Stream) -> None:
    event = driver.create_event()
    driver.record_event(event, first)
    driver.wait_event(then, event)


def captured(driver: CudaDriver, stream: Stream, give: Callable[[], None]) -> ExecutableGraph:
    driver.begin_capture(stream)
    give()
    graph = driver.end_capture(stream)
    executable = driver.instantiate(graph)
    driver.destroy_graph(graph)
    return executable


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("seed", range(10))
def test_a_graph_over_two_streams_does_its_work_at_every_launch(schedule: str, seed: int) -> None:
    driver = machine(schedule, seed)
    s, t = driver.create_stream(), driver.create_stream()
    a, b, c, d = (filled(driver, value) for value in (1, 2, 3, 4))

    def give() -> None:
        driver.copy_on_device(b, a, N, s)
        order(driver, s, t)
        driver.copy_on_device(c, b, N, t)
        driver.copy_on_device(d, b, N, s)
        order(driver, t, s)
        driver.fill(b, 9, N, s)

    graph = captured(driver, s, give)
    assert [held(driver, place) for place in (b, c, d)] == [2, 3, 4]  # nothing was done
    for value in (5, 6):
        driver.fill(a, value, N, s)
        driver.launch_graph(graph, s)
        driver.synchronize_stream(s)
        assert [held(driver, place) for place in (a, b, c, d)] == [value, 9, value, value]
    driver.destroy_executable(graph)


def test_a_race_inside_a_graph_is_told_when_it_runs() -> None:
    driver = machine("eager")
    s, t = driver.create_stream(), driver.create_stream()
    a = filled(driver, 1)

    def give() -> None:
        order(driver, s, t)
        driver.fill(a, 1, N, s)
        driver.fill(a, 2, N, t)
        order(driver, t, s)

    graph = captured(driver, s, give)
    with pytest.raises(UnorderedAccess, match="nothing orders the two"):
        driver.launch_graph(graph, s)


def test_a_graph_is_ordered_with_the_stream_it_is_given_to_and_no_other() -> None:
    driver = machine("late")
    s, t = driver.create_stream(), driver.create_stream()
    a = filled(driver, 1)
    graph = captured(driver, s, lambda: driver.fill(a, 2, N, s))
    driver.fill(a, 3, N, s)
    driver.launch_graph(graph, s)
    order(driver, s, t)
    driver.fill(a, 4, N, t)
    driver.synchronize_stream(t)
    assert held(driver, a) == 4
    driver.launch_graph(graph, s)
    driver.fill(a, 5, N, t)
    with pytest.raises(UnorderedAccess):
        driver.synchronize_device()


def test_launches_of_one_graph_wait_for_each_other() -> None:
    driver = machine("late")
    s, t = driver.create_stream(), driver.create_stream()
    a = filled(driver, 1)
    graph = captured(driver, s, lambda: driver.fill(a, 2, N, s))
    driver.launch_graph(graph, s)
    driver.launch_graph(graph, t)
    driver.synchronize_stream(t)
    assert held(driver, a) == 2


def test_a_replay_reads_what_pinned_memory_holds_at_that_time() -> None:
    driver = machine("late")
    s, a, pinned = driver.create_stream(), filled(driver, 1), driver.allocate_pinned(N)
    graph = captured(driver, s, lambda: driver.copy_to_device(a, pinned, s))
    for value in (3, 4):
        pinned[:] = value
        driver.launch_graph(graph, s)
        driver.synchronize_stream(s)
        assert held(driver, a) == value


def test_products_and_collectives_are_captured_too() -> None:
    driver = machine("random")
    streams, places = [], []
    for device in range(2):
        driver.set_device(device)
        streams.append(driver.create_stream())
        places.append(driver.allocate(16))
        driver.write(places[-1], np.full(4, device + 1, np.float32))
    ranks = driver.create_ranks([0, 1])
    graphs = []
    for device in range(2):
        driver.set_device(device)
        driver.begin_capture(streams[device])
        place = places[device]
        driver.group_start()
        driver.all_reduce(ranks[device], place, place, 4, "float32", "sum", streams[device])
        driver.group_end()
        graphs.append(driver.instantiate(driver.end_capture(streams[device])))
    for expected in (3.0, 6.0):
        for device in range(2):
            driver.set_device(device)
            driver.launch_graph(graphs[device], streams[device])
        for device in range(2):
            driver.set_device(device)
            driver.synchronize_stream(streams[device])
            values = np.empty(4, np.float32)
            driver.read(values, places[device])
            assert values.tolist() == [expected] * 4


# What is refused ------------------------------------------------------------------------------------------------------


def allocates(driver: SimulatedDriver, stream: Stream) -> None:
    driver.allocate(N)


def waits(driver: SimulatedDriver, stream: Stream) -> None:
    driver.synchronize_stream(stream)


def waits_for_the_device(driver: SimulatedDriver, stream: Stream) -> None:
    driver.synchronize_device()


def asks(driver: SimulatedDriver, stream: Stream) -> None:
    driver.stream_done(stream)


def reads(driver: SimulatedDriver, stream: Stream) -> None:
    driver.read(np.empty(N, np.uint8), 0)


def begins_again(driver: SimulatedDriver, stream: Stream) -> None:
    driver.begin_capture(stream)


def destroys_it(driver: SimulatedDriver, stream: Stream) -> None:
    driver.destroy_stream(stream)


def waits_for_an_event_of_it(driver: SimulatedDriver, stream: Stream) -> None:
    event = driver.create_event()
    driver.record_event(event, stream)
    driver.synchronize_event(event)


def frees_on_a_stream(driver: SimulatedDriver, stream: Stream) -> None:
    driver.free_on(0, stream)


def launches_a_graph(driver: SimulatedDriver, stream: Stream) -> None:
    graph = next(handle for handle, value in driver._handles.items() if type(value).__name__ == "RecordedGraph")
    driver.launch_graph(ExecutableGraph(graph), stream)


REFUSED = [
    allocates, waits, waits_for_the_device, asks, reads, begins_again, destroys_it, waits_for_an_event_of_it,
    frees_on_a_stream, launches_a_graph,
]  # fmt: skip


@pytest.mark.parametrize("story", REFUSED)
def test_a_capture_refuses_what_cuda_refuses_and_is_spoilt_by_it(story: Story) -> None:
    driver = machine()
    stream, a = driver.create_stream(), filled(driver, 1)
    captured(driver, stream, lambda: None)
    driver.begin_capture(stream)
    driver.fill(a, 2, N, stream)
    with pytest.raises(CaptureRefused, match=r"test_graphs.py"):
        story(driver, stream)
    with pytest.raises(CaptureRefused, match=r"spoiled: .*test_graphs.py") as caught:
        driver.end_capture(stream)
    assert caught.value.code == "cudaErrorStreamCaptureInvalidated"
    driver.fill(a, 3, N, stream)  # the stream lives on
    driver.synchronize_stream(stream)
    assert held(driver, a) == 3


def test_other_threads_may_allocate_meanwhile() -> None:
    driver, addresses = machine(), []
    stream = driver.create_stream()
    driver.begin_capture(stream)
    thread = threading.Thread(target=lambda: addresses.append(driver.allocate(N)))
    thread.start()
    thread.join()
    driver.end_capture(stream)
    assert len(addresses) == 1


def test_a_stream_that_joined_has_to_come_back() -> None:
    driver = machine()
    s, t, a = driver.create_stream(), driver.create_stream(), filled(driver, 1)
    driver.begin_capture(s)
    order(driver, s, t)
    driver.fill(a, 2, N, t)
    assert driver.is_capturing(t)
    with pytest.raises(CaptureRefused, match="has waited for fill of 64 bytes") as caught:
        driver.end_capture(s)
    assert caught.value.code == "cudaErrorStreamCaptureUnjoined" and not driver.is_capturing(t)


def test_a_capture_ends_where_it_began() -> None:
    driver = machine()
    s, t = driver.create_stream(), driver.create_stream()
    driver.begin_capture(s)
    order(driver, s, t)
    with pytest.raises(CaptureRefused) as caught:
        driver.end_capture(t)
    assert caught.value.code == "cudaErrorStreamCaptureUnmatched"
    order(driver, t, s)
    driver.end_capture(s)
    with pytest.raises(CaptureRefused, match="has not begun"):
        driver.end_capture(s)


def test_events_do_not_cross_the_border_of_a_capture() -> None:
    driver = machine()
    s, t, event = driver.create_stream(), driver.create_stream(), driver.create_event()
    driver.record_event(event, t)
    driver.begin_capture(s)
    with pytest.raises(CaptureRefused) as caught:
        driver.wait_event(s, event)
    assert caught.value.code == "cudaErrorStreamCaptureIsolation"
    inner = driver.create_event()
    driver.record_event(inner, s)
    with pytest.raises(CaptureRefused):
        driver.end_capture(s)
    with pytest.raises(CaptureRefused) as after:
        driver.wait_event(t, inner)
    assert after.value.code == "cudaErrorCapturedEvent"


def test_two_captures_do_not_merge() -> None:
    driver = machine()
    s, t, event = driver.create_stream(), driver.create_stream(), driver.create_event()
    driver.begin_capture(s)
    thread = threading.Thread(target=lambda: (driver.begin_capture(t), driver.record_event(event, t)))
    thread.start()
    thread.join()
    with pytest.raises(CaptureRefused) as caught:
        driver.wait_event(s, event)
    assert caught.value.code == "cudaErrorStreamCaptureMerge"


def test_memory_that_a_graph_needs_is_not_given_back() -> None:
    driver = machine()
    stream, a, b = driver.create_stream(), filled(driver, 1), filled(driver, 1)
    graph = captured(driver, stream, lambda: driver.fill(a + 8, 2, 8, stream))
    driver.free(b)
    with pytest.raises(CudaError, match=r"still needs for fill of 8 bytes, recorded at .*test_graphs.py"):
        driver.free(a)
    driver.launch_graph(graph, stream)
    driver.synchronize_stream(stream)
    driver.destroy_executable(graph)
    driver.free(a)


def test_a_running_graph_is_not_destroyed() -> None:
    driver = machine("late")
    stream, a = driver.create_stream(), filled(driver, 1)
    graph = captured(driver, stream, lambda: driver.fill(a, 2, N, stream))
    driver.launch_graph(graph, stream)
    with pytest.raises(CudaError, match="destroys a graph that is running"):
        driver.destroy_executable(graph)
