"""How fast native convolutions are in the form that is chosen, and in every other one.

    python -m tests.benchmarks.bench_convolutions [part of a name ...] [--many] [--fit]

For every case the output, the gradient of the input and that of the filter: the form that was chosen, its GFLOP/s and
its time, the quickest form, and by how much the chosen one is slower. One thread, processor time, the best of several
rounds in which the forms take turns; the flops are those of the convolution, whatever form computes it.

    --many    more cases: batches of 1, 8 and 32 of the layers of usual networks, and some drawn at random
    --fit     prints what one of everything takes that `conv.costs` counts, as fitted to the times: `NANOSECONDS`
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from tests.native.kernels.test_convolutions import geometry
from tests.native.one_row import kernels
from workbench.executors.lowering.tape.conv import costs, forms
from workbench.executors.lowering.tape.conv.convolution_tables import turned_round
from workbench.executors.lowering.tape.conv.convolutions import convolve, filter_gradient, input_gradient
from workbench.ops.conv.convolutions.convolve import Geometry
from workbench.runtime.native.blas import gemm_address
from workbench.runtime.native.control import Control, lines
from workbench.runtime.native.tape import Tape, address
from workbench.runtime.words.codes import AT, CONTROL, END, STATE_WORDS, TABLE

ONE, TWO, THREE = ((1, 1), (1, 1)), ((2, 2), (2, 2)), ((3, 3), (3, 3))
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
    "3 -> 64, 7 x 7, stride 2": geometry(1, 3, (224, 224), 64, (7, 7), (2, 2), THREE),
    "16 -> 16, 3 x 3, dilation 2": geometry(8, 16, (28, 28), 16, (3, 3), pads=TWO, dilations=(2, 2)),
    "16 -> 16, 3 x 3, 4 groups": geometry(8, 16, (28, 28), 16, (3, 3), pads=ONE, groups=4),
    "64 channels on their own, 3 x 3": geometry(8, 1, (28, 28), 1, (3, 3), pads=ONE, groups=64),
}
SAME = ((64, 16), (128, 8), (256, 4), (512, 2), (16, 32), (32, 16), (64, 56), (128, 28), (256, 14), (512, 7), (24, 20))
HALVED = ((64, 128, 16), (128, 256, 8), (256, 512, 4), (16, 32, 32), (32, 64, 16), (64, 128, 28))
BY_PIXEL = ((64, 64, 28), (64, 256, 14), (256, 64, 14), (128, 512, 7), (512, 128, 7), (16, 16, 32))
MOST_INPUTS = 3_300_000
ROUNDS, SHORTEST = 9, 1.5e-3  # seconds of a round
DIRECTIONS = "output", "of the input", "of the filter"


def many() -> Iterator[Geometry]:
    """The layers of usual networks, then some that nobody has thought of."""
    for n in (1, 8, 32):
        yield from (geometry(n, c, (h, h), c, (3, 3), pads=ONE) for c, h in SAME if n * c * h * h <= MOST_INPUTS)
        for c, k, h in HALVED:
            yield geometry(n, c, (h, h), k, (3, 3), (2, 2), ONE)
            yield geometry(n, c, (h, h), k, (1, 1), (2, 2))
        yield from (geometry(n, c, (h, h), k, (1, 1)) for c, k, h in BY_PIXEL)
        yield geometry(n, 3, (64, 64), 64, (7, 7), (2, 2), THREE)
        yield geometry(n, 3, (32, 32), 64, (3, 3), pads=ONE)
        yield geometry(n, 1, (28, 28), 32, (3, 3))
        yield geometry(n, 16, (12, 12), 32, (5, 5))
        yield geometry(n, 1, (14, 14), 1, (3, 3), pads=ONE, groups=96)
    yield from drawn(30)


def drawn(count: int) -> Iterator[Geometry]:
    """Some at random."""
    rng = random.Random(1)
    for _ in range(count):
        n, size, edge = rng.choice([1, 2, 4, 16, 20, 32, 64]), rng.choice(range(7, 33)), rng.choice([1, 2, 3, 3, 3, 5])
        c, k = (rng.choice([1, 3, 4, 6, 8, 12, 16, 20, 32, 48, 64, 96, 128, 200]) for _ in range(2))
        pad, stride = rng.choice([0, edge // 2]), rng.choice([1, 1, 1, 2])
        yield geometry(n, c, (size, size), k, (edge, edge), (stride, stride), ((pad, pad), (pad, pad)))


class Rows:
    """A tape of its own that is run again and again."""

    images = None  # of a GPU

    def __init__(self) -> None:
        self.tape = Tape(kernels())
        self.row = self.tape.row

    def gemm(self, item: int) -> int:
        return gemm_address(item) or 0

    def independent(self, kernel: str, rows: Sequence[Sequence[Any]]) -> None:
        for arguments in rows:
            self.row(kernel, *arguments)

    def temporary(self, shape: Any, dtype: Any = np.float32) -> np.ndarray:
        array = np.zeros(shape, dtype)
        self.tape.keep(array)
        return array

    def runner(self) -> Callable[[], None]:
        control, state, table = Control(self.tape.kernels), lines(STATE_WORDS), self.tape.table()
        control.begin()
        state[TABLE], state[END], state[CONTROL] = table, len(self.tape), control.address
        return partial(self._again, control, state)

    def _again(self, control: Control, state: np.ndarray) -> None:
        state[AT] = 0
        assert control.run(address(state)) == 0


class Measured(NamedTuple):
    """A direction of a convolution.

    Attributes:
        geo: of the convolution. direction: 0 … 2, as in `DIRECTIONS`. chosen: the form.
        seconds: of every form.
    """

    geo: Geometry
    direction: int
    chosen: str
    seconds: dict[str, float]

    @property
    def best(self) -> str:
        return min(self.seconds, key=lambda form: self.seconds[form])

    @property
    def regret(self) -> float:
        """By which share the chosen form is slower than the quickest."""
        return self.seconds[self.chosen] / self.seconds[self.best] - 1


def measure(geo: Geometry) -> Iterator[Measured]:
    """All directions in all forms."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((geo.samples, geo.channels, geo.height, geo.width), np.float32)
    w = rng.standard_normal((geo.kernels, geo.channels // geo.groups, *geo.kernel), np.float32)
    g = rng.standard_normal((geo.samples, geo.kernels, *geo.out), np.float32)
    work: Any = (
        (convolve, x, w, g, forms.convolve_forms, partial(forms.form_of, by_winograd=True)),
        (input_gradient, g, w, x, forms.input_forms, partial(forms.input_form_of, by_winograd=True)),
        (filter_gradient, x, g, w, forms.filter_forms, forms.filter_form_of),
    )
    for direction, (write, a, b, out, all_forms, choose) in enumerate(work):
        runs = {}
        for form in all_forms(geo):
            rows: Any = Rows()
            write(rows, geo, a, b, rows.temporary(out.shape), form)
            runs[form] = rows.runner()
        yield Measured(geo, direction, choose(geo), quickest(runs))


def quickest(runs: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Seconds of each, the least of some rounds in which they take turns."""
    least = {name: min(once(run, 1), once(run, 1)) for name, run in runs.items()}
    counts = {name: max(1, int(SHORTEST / seconds)) for name, seconds in least.items()}
    for _ in range(ROUNDS if max(least.values()) < 0.02 else 4):
        for name, run in runs.items():
            least[name] = min(least[name], once(run, counts[name]))
    return least


def once(run: Callable[[], None], count: int) -> float:
    start = time.thread_time()
    for _ in range(count):
        run()
    return (time.thread_time() - start) / count


# What is counted


def counted(measured: Measured, form: str) -> tuple[str, dict[str, float]]:
    """The model of a form, and what it counts."""
    if measured.direction == 1 and form not in ("columns", "together"):
        turned = turned_round(measured.geo)
        assert turned is not None
        return form, costs.COUNTED[form](turned)
    model = ("", "input ", "filter ")[measured.direction] + form
    return model, costs.COUNTED[model](measured.geo)


def fitted(results: Iterable[Measured]) -> dict[str, dict[str, float]]:
    """Nanoseconds of one of everything, none below 0, with which predictions are off by the least share."""
    rows: dict[str, list[tuple[dict[str, float], float]]] = {}
    for measured in results:
        for form, seconds in measured.seconds.items():
            model, counts = counted(measured, form)
            rows.setdefault(model, []).append((counts, seconds * 1e9))
    return {model: _fit(rows[model]) for model in costs.COUNTED if model in rows}


def _fit(rows: Sequence[tuple[dict[str, float], float]]) -> dict[str, float]:
    from scipy.optimize import nnls

    kinds = sorted({kind for counts, _ in rows for kind in counts})
    shares = np.array([[counts.get(kind, 0) / took for kind in kinds] for counts, took in rows])
    weights, takes = np.ones(len(rows)), np.zeros(len(kinds))
    for _ in range(8):  # least absolute errors, by squares that count less the further off they are
        takes, _ = nnls(shares * weights[:, None], weights)
        weights = 1 / np.sqrt(np.maximum(abs(shares @ takes - 1), 0.05))
    return {kind: float(f"{x:.3g}") for kind, x in zip(kinds, takes, strict=True)}


# As text


def text(name: str, measured: Measured) -> str:
    geo, took = measured.geo, measured.seconds[measured.chosen]
    flops = 2 * geo.samples * geo.kernels * geo.out[0] * geo.out[1] * geo.taps
    beside = "" if measured.best == measured.chosen else f"{measured.best} +{measured.regret:.0%}"
    return (
        f"{name:46}{DIRECTIONS[measured.direction]:15}{measured.chosen:10}{flops / took * 1e-9:8.1f}"
        f"{took * 1e6:11.1f}   {beside}"
    )


def brief(geo: Geometry) -> str:
    groups = f", {geo.groups} groups" if geo.groups > 1 else ""
    return (
        f"{geo.samples} x {geo.channels} -> {geo.kernels}, {geo.height} x {geo.width}, {geo.kernel[0]} x "
        f"{geo.kernel[1]}, stride {geo.strides[0]}{groups}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--many", action="store_true")
    parser.add_argument("--fit", action="store_true")
    arguments = parser.parse_args()
    cases = CASES | ({brief(geo): geo for geo in many()} if arguments.many or arguments.fit else {})
    print(f"{'':46}{'':15}{'chosen':10}{'GFLOP/s':>8}{'us':>11}   quicker")
    results: list[Measured] = []
    for name, geo in cases.items():
        if not arguments.names or any(part in name for part in arguments.names):
            for measured in measure(geo):
                results.append(measured)
                print(text(name, measured), flush=True)
    regrets = [measured.regret for measured in results]
    print(f"{sum(r > 0.1 for r in regrets)} of {len(regrets)} more than 10 % slower; {np.mean(regrets):.1%} on average")
    if arguments.fit:
        for model, takes in fitted(results).items():
            print(f'    "{model}": {takes},')


if __name__ == "__main__":
    main()
