"""Kernels on simulated streams: their numbers, what their launches are refused, and races with other work."""

from __future__ import annotations

import numpy as np
import pytest

from workbench.cuda.driver import CudaDriver, CudaError, Stream
from workbench.cuda.simulated.accesses import UnorderedAccess
from workbench.cuda.simulated.device import SimulatedDriver
from workbench.cuda.simulated.streams import SCHEDULES, WorkFailed

SOURCE = """
extern "C" __global__ void axpy(float* y, const float* x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
extern "C" __global__ void every_other(float* y, const float* x, int first, int n) {
    int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x) + first;
    if (i < n) y[i] = x[i] + 1;
}
extern "C" __global__ void beyond(float* y, int n) { y[n + threadIdx.x] = 1; }
extern "C" __global__ void __launch_bounds__(64) sum(float* y, const float* x, int n) {
    extern __shared__ float part[];
    part[threadIdx.x] = threadIdx.x < n ? x[threadIdx.x] : 0;
    __syncthreads();
    if (threadIdx.x == 0) { float s = 0; for (int i = 0; i < blockDim.x; ++i) s += part[i]; y[0] = s; }
}
"""
N = 300


def machine(schedule: str = "random", seed: int = 0) -> tuple[SimulatedDriver, dict[str, object], Stream, Stream]:
    driver = SimulatedDriver(2, schedule=schedule, seed=seed, deadline_seconds=0.2)
    module = driver.load_module(SOURCE)
    names = ("axpy", "every_other", "beyond", "sum")
    functions = {name: driver.get_function(module, name) for name in names}
    return driver, functions, driver.create_stream(), driver.create_stream()


def put(driver: CudaDriver, values: np.ndarray) -> int:
    address = driver.allocate(values.nbytes)
    driver.write(address, values)
    return address


def take(driver: CudaDriver, address: int, count: int = N) -> np.ndarray:
    values = np.empty(count, np.float32)
    driver.read(values, address)
    return values


X, Y = np.arange(N, dtype=np.float32), np.linspace(0, 1, N, dtype=np.float32)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("seed", range(7))
def test_kernels_in_a_row_give_numpys_numbers(schedule: str, seed: int) -> None:
    driver, kernel, s, _ = machine(schedule, seed)
    x, y = put(driver, X), put(driver, Y)
    for _ in range(3):
        driver.launch(kernel["axpy"], [3], [128], [y, x, np.float32(0.5), np.int32(N)], 0, s)
    driver.synchronize_stream(s)
    np.testing.assert_allclose(take(driver, y), Y + 1.5 * X, rtol=1e-6)
    assert driver.launches.kernels["axpy"] == 3
    assert [one.stores.sectors for one in driver.launches.counters["axpy"]] == [38] * 3  # 1200 bytes in 32-byte sectors


def test_a_kernel_that_reads_what_another_stream_writes_needs_an_event() -> None:
    for schedule in SCHEDULES:
        driver, kernel, s, t = machine(schedule)
        x, y, z = put(driver, X), put(driver, Y), put(driver, Y)
        args = [np.float32(1), np.int32(N)]
        with pytest.raises(UnorderedAccess, match=r"kernel axpy .*test_launches"):
            driver.launch(kernel["axpy"], [3], [128], [y, x, *args], 0, s)
            driver.launch(kernel["axpy"], [3], [128], [z, y, *args], 0, t)
            driver.synchronize_device()


def test_kernels_that_touch_different_bytes_of_one_array_need_none() -> None:
    driver, kernel, s, t = machine("late")
    x, y = put(driver, X), put(driver, Y)
    driver.launch(kernel["every_other"], [3], [64], [y, x, np.int32(0), np.int32(N)], 0, s)
    driver.launch(kernel["every_other"], [3], [64], [y, x, np.int32(1), np.int32(N)], 0, t)
    driver.synchronize_device()
    assert (take(driver, y) == X + 1).all()
    driver.launch(kernel["every_other"], [3], [64], [y, x, np.int32(0), np.int32(N)], 0, s)
    driver.fill(y + 4, 0, 4, t)
    driver.synchronize_device()
    driver.launch(kernel["every_other"], [3], [64], [y, x, np.int32(0), np.int32(N)], 0, s)
    driver.fill(y + 8, 0, 4, t)
    with pytest.raises(UnorderedAccess, match="bytes 8 to 12"):
        driver.synchronize_device()


def test_a_kernel_is_captured_and_replayed_and_its_memory_is_kept() -> None:
    driver, kernel, s, _ = machine()
    x, y = put(driver, X), put(driver, Y)
    driver.begin_capture(s)
    driver.launch(kernel["axpy"], [3], [128], [y, x, np.float32(1), np.int32(N)], 0, s)
    graph = driver.instantiate(driver.end_capture(s))
    for _ in range(2):
        driver.launch_graph(graph, s)
    driver.synchronize_stream(s)
    np.testing.assert_allclose(take(driver, y), Y + 2 * X, rtol=1e-6)
    with pytest.raises(CudaError, match="still needs for kernel axpy"):
        driver.free(x)
    assert driver.launches.graphs == 2


def test_what_threads_do_wrong_is_told_when_the_kernel_runs_and_the_device_is_lost() -> None:
    driver, kernel, s, _ = machine("late")
    y = put(driver, Y)
    driver.launch(kernel["beyond"], [1], [32], [y, np.int32(N)], 0, s)
    with pytest.raises(WorkFailed, match=r"(?s)kernel beyond .*test_launches\.py:\d+\) failed: .*line 10") as caught:
        driver.synchronize_stream(s)
    assert caught.value.code == "cudaErrorLaunchFailure" and "OutOfBounds" in type(caught.value.__cause__).__name__
    with pytest.raises(CudaError, match="which is lost: kernel beyond"):
        driver.synchronize_stream(s)


def test_shared_memory_beyond_48_kib_has_to_be_allowed() -> None:
    driver, kernel, s, _ = machine()
    x, y = put(driver, X), put(driver, np.zeros(1, np.float32))
    args = [y, x, np.int32(64)]
    driver.launch(kernel["sum"], [1], [64], args, 256, s)
    driver.synchronize_stream(s)
    assert take(driver, y, 1).tolist() == [float(X[:64].sum())]
    with pytest.raises(CudaError, match="49153 bytes of dynamic shared memory; 49152 were allowed"):
        driver.launch(kernel["sum"], [1], [64], args, 49153, s)
    driver.allow_shared_bytes(kernel["sum"], 100_000)
    driver.launch(kernel["sum"], [1], [64], args, 100_000, s)
    with pytest.raises(CudaError, match="a block of sm_80 has 166912"):
        driver.allow_shared_bytes(kernel["sum"], 200_000)
    assert driver.function_attributes(kernel["sum"]).threads_per_block_at_most == 64


def test_what_a_launch_is_refused() -> None:
    driver, kernel, s, _ = machine()
    x = put(driver, X)
    good = [x, x, np.float32(1), np.int32(N)]
    for grid, block, args in (
        [[1], [1025], good],
        [[0], [32], good],
        [[1], [32], good[:3]],
        [[1], [32], [x, x, 1, 1.0]],
    ):
        with pytest.raises(CudaError, match=r"test_launches\.py") as caught:
            driver.launch(kernel["axpy"], grid, block, args, 0, s)  # type: ignore[arg-type]
        assert caught.value.code == "cudaErrorInvalidValue"
    with pytest.raises(CudaError, match="a block has 128 threads"):
        driver.launch(kernel["sum"], [1], [128], [x, x, np.int32(1)], 0, s)
    with pytest.raises(CudaError, match="asks for kernel 'other'; the module has axpy"):
        driver.get_function(driver.load_module(SOURCE), "other")
    driver.set_device(1)
    with pytest.raises(CudaError, match="its module was loaded on device 0"):
        driver.launch(kernel["axpy"], [1], [32], good, 0, driver.create_stream())


def test_there_are_architectures_from_volta_to_blackwell() -> None:
    for name in ("sm_70", "sm_80", "sm_90", "sm_100"):
        properties = SimulatedDriver(1, architecture=name).properties(0)
        assert properties.architecture == name and properties.shared_bytes_per_block_at_most >= 96 << 10
    with pytest.raises(CudaError, match="no simulated sm_20"):
        SimulatedDriver(1, architecture="sm_20")
