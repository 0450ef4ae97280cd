"""How fast native convolutions are, beside a product of large matrices in the same run.

    python -m tests.benchmarks.bench_convolutions [part of a name ...]

For every case the output, the gradient of the input and that of the filter: the form that was chosen and GFLOP/s, the
best of several runs. One thread; the flops are those of the convolution, whatever form computes it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.native.kernels.test_convolutions import geometry
from tests.native.one_row import kernels
from workbench.executors.lowering.tape.conv.convolutions import (
    convolve,
    filter_form_of,
    filter_gradient,
    form_of,
    input_form_of,
    input_gradient,
)
from workbench.ops.conv.convolutions.convolve import Geometry
from workbench.runtime.native.blas import sgemm_address
from workbench.runtime.native.control import Control, lines
from workbench.runtime.native.tape import Tape, address
from workbench.runtime.words.codes import AT, CONTROL, END, STATE_WORDS, TABLE

ONE, TWO = ((1, 1), (1, 1)), ((2, 2), (2, 2))
CASES = {
    "lenet 1 -> 6, 5 x 5": geometry(32, 1, (28, 28), 6, (5, 5), pads=TWO),
    "lenet 6 -> 16, 5 x 5": geometry(32, 6, (14, 14), 16, (5, 5)),
    "3 -> 16, 3 x 3": geometry(32, 3, (32, 32), 16, (3, 3), pads=ONE),
    "8 -> 16, 3 x 3": geometry(16, 8, (32, 32), 16, (3, 3), pads=ONE),
    "32 -> 32, 3 x 3": geometry(8, 32, (28, 28), 32, (3, 3), pads=ONE),
    "20 -> 50, 5 x 5": geometry(32, 20, (12, 12), 50, (5, 5)),
    "64 -> 64, 3 x 3": geometry(2, 64, (56, 56), 64, (3, 3), pads=ONE),
    "128 -> 128, 3 x 3": geometry(4, 128, (14, 14), 128, (3, 3), pads=ONE),
    "256 -> 256, 3 x 3, 7 x 7 pixels": geometry(4, 256, (7, 7), 256, (3, 3), pads=ONE),
    "512 -> 512, 3 x 3, 2 x 2 pixels": geometry(32, 512, (2, 2), 512, (3, 3), pads=ONE),
    "64 -> 64, 1 x 1": geometry(8, 64, (28, 28), 64, (1, 1)),
    "32 -> 64, 3 x 3, stride 2": geometry(8, 32, (32, 32), 64, (3, 3), (2, 2), ONE),
    "256 -> 512, 3 x 3, stride 2": geometry(32, 256, (4, 4), 512, (3, 3), (2, 2), ONE),
    "3 -> 64, 7 x 7, stride 2": geometry(1, 3, (224, 224), 64, (7, 7), (2, 2), ((3, 3), (3, 3))),
    "16 -> 16, 3 x 3, dilation 2": geometry(8, 16, (28, 28), 16, (3, 3), pads=TWO, dilations=(2, 2)),
    "16 -> 16, 3 x 3, 4 groups": geometry(8, 16, (28, 28), 16, (3, 3), pads=ONE, groups=4),
    "64 channels on their own, 3 x 3": geometry(8, 1, (28, 28), 1, (3, 3), pads=ONE, groups=64),
}


class Rows:
    """A tape of its own that is run again and again."""

    def __init__(self) -> None:
        self.tape, self.sgemm = Tape(kernels()), sgemm_address() or 0
        self.row = self.tape.row

    def independent(self, kernel: str, rows: Sequence[Sequence[Any]]) -> None:
        for arguments in rows:
            self.row(kernel, *arguments)

    def temporary(self, shape: Any, dtype: Any = np.float32) -> np.ndarray:
        array = np.zeros(shape, dtype)
        self.tape.keep(array)
        return array

    def runner(self) -> Callable[[], None]:
        control, state, table = Control(self.tape.kernels), lines(STATE_WORDS), np.array(self.tape.words, np.int64)
        control.begin()
        state[TABLE], state[END], state[CONTROL] = address(table), len(self.tape), control.address

        def run() -> None:
            state[AT] = 0
            assert control.run(address(state)) == 0

        self.tape.keep(table)
        return run


def seconds(run: Callable[[], Any], repeats: int = 15) -> float:
    """The best of some runs of a few milliseconds."""
    start = time.perf_counter()
    run()
    count = max(1, int(3e-3 / (time.perf_counter() - start)))
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(count):
            run()
        times.append((time.perf_counter() - start) / count)
    return min(times)


def measure(geo: Geometry) -> list[tuple[str, float]]:
    """(form, flops per second) of the output, the gradient of the input and of the filter."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((geo.samples, geo.channels, geo.height, geo.width), np.float32)
    w = rng.standard_normal((geo.kernels, geo.channels // geo.groups, *geo.kernel), np.float32)
    g = rng.standard_normal((geo.samples, geo.kernels, *geo.out), np.float32)
    forms = form_of(geo), input_form_of(geo), filter_form_of(geo)
    work = (convolve, x, w, np.empty_like(g)), (input_gradient, g, w, np.empty_like(x)), (
        filter_gradient, x, g, np.empty_like(w)
    )  # fmt: skip
    rates = []
    for form, (write, a, b, out) in zip(forms, work, strict=True):
        rows: Any = Rows()
        write(rows, geo, a, b, out)
        rates.append((form, 2 * g.size * geo.taps / seconds(rows.runner())))
    return rates


def product() -> float:
    """Flops per second of matrices of 512 x 512."""
    a = np.ones((512, 512), np.float32)
    out = np.empty_like(a)
    return 2 * 512**3 / seconds(lambda: np.dot(a, a, out))


def main(names: list[str]) -> None:
    """Print the table."""
    print(f"{'GFLOP/s':34}{'output':>18}{'of the input':>18}{'of the filter':>18}{'product':>10}")
    for name, geo in CASES.items():
        if not names or any(n in name for n in names):
            cells = "".join(f"{form:>10}{speed * 1e-9:8.1f}" for form, speed in measure(geo))
            print(f"{name:34}{cells}{product() * 1e-9:10.1f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
