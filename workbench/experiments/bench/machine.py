"""What this machine does in NumPy alone: products and copies, with all threads of a step at work."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Barrier
from time import perf_counter

import numpy as np

from workbench.runtime.blas import one_blas_thread

SQUARE = 1024  # rows and columns of the matrices multiplied
SMALLEST_COPY = 1 << 18  # bytes; of less the call would take longer than the copy
LARGEST_COPY = 1 << 26


def gemm_rate(threads: int, seconds: float = 0.2) -> float:
    """Floating-point operations per second of square float32 products, one BLAS thread per thread."""

    def make() -> tuple[Callable[[], object], float]:
        a, b = (np.random.default_rng(seed).random((SQUARE, SQUARE), np.float32) for seed in range(2))
        out = np.empty_like(a)
        return lambda: np.matmul(a, b, out=out), 2.0 * SQUARE**3

    return one_blas_thread.run(partial(rate, make, threads, seconds))


def copy_size(nbytes: float, threads: int) -> int:
    """Bytes each thread copies in a measurement for a step that moves `nbytes` in all."""
    return min(max(int(nbytes / threads) // 2, SMALLEST_COPY), LARGEST_COPY)


def copy_rate(size: int, threads: int, seconds: float = 0.1) -> float:
    """Bytes read and written per second by copies of `size` bytes in each thread, as warm as repeated steps are."""

    def make() -> tuple[Callable[[], object], float]:
        source = np.ones(size // 4, np.float32)
        target = np.empty_like(source)
        return lambda: np.copyto(target, source), 2.0 * source.nbytes

    return rate(make, threads, seconds)


def rate(make: Callable[[], tuple[Callable[[], object], float]], threads: int, seconds: float) -> float:
    """Work per second of all threads together.

    Args:
        make: gives each thread something to do again and again, and how much work that is.
    """
    together = Barrier(threads)

    def work(_: int) -> float:
        run, amount = make()
        run()
        together.wait(60)
        times, begun = 0, perf_counter()
        while (lasted := perf_counter() - begun) < seconds or not times:
            run()
            times += 1
        return times * amount / lasted

    with ThreadPoolExecutor(threads) as pool:
        return sum(pool.map(work, range(threads)))
