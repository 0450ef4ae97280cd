"""How fast matrix products are in register tiles and by the BLAS, on one core.

    OPENBLAS_NUM_THREADS=1 python -m tests.benchmarks.bench_products [m n k ...]

Every line is one product, [m, k] @ [k, n], with its gradients: NN as it is, TN with a transposed left side, NT with a
transposed right side. Figures are GFLOP/s, the best of several interleaved runs; `chosen` is what the tape does.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.native.one_row import kernels
from workbench.executors.lowering.tape.math.products import _Product
from workbench.runtime.native.blas import gemm_address
from workbench.runtime.native.control import Control, lines
from workbench.runtime.native.tape import Tape, address
from workbench.runtime.words.codes import AT, CONTROL, END, STATE_WORDS, TABLE

ROUNDS = 9
FORWARD = (
    (32, 64, 64), (16, 32, 64), (16, 10, 32), (32, 120, 400), (32, 84, 120), (32, 10, 84),
    (64, 512, 784), (64, 256, 512), (64, 10, 256), (512, 128, 128), (512, 512, 128), (512, 128, 512),
)  # fmt: skip


class Writer:
    """What products ask of a writer of tapes."""

    def __init__(self) -> None:
        self.tape = Tape(kernels())

    def gemm(self, item: int) -> int:
        return gemm_address(item) or 0

    def temporary(self, shape: Sequence[int], dtype: Any = np.float32) -> np.ndarray:
        array = np.empty(shape, dtype)
        self.tape.keep(array)
        return array


class Repeated:
    """A product many times over, as a tape."""

    def __init__(self, control: Control, a: np.ndarray, b: np.ndarray, out: np.ndarray, by_blas: bool | None) -> None:
        writer: Any = Writer()
        product = _Product(a, b, out)
        if by_blas is not None:
            product.by_blas = by_blas
        self.count = max(2, int(2e8 / (2 * out.size * a.shape[1] + 2000)))
        for kernel, *arguments in product.rows(writer, False) * self.count:
            writer.tape.row(kernel, *arguments)
        self._control, self._kept = control, (writer, np.array(writer.tape.words, np.int64), a, b, out)
        self._state = lines(STATE_WORDS)
        self._state[TABLE], self._state[END] = address(self._kept[1]), len(writer.tape)
        self._state[CONTROL] = control.address
        self.chosen = "BLAS" if product.by_blas else "tiles"

    def seconds(self) -> float:
        """Of one product."""
        self._state[AT] = 0
        start = time.perf_counter()
        assert self._control.run(address(self._state)) == 0
        return (time.perf_counter() - start) / self.count


def operand(rows: int, cols: int, flipped: bool) -> np.ndarray:
    """A matrix that begins at a cache line."""
    array = lines(-(-rows * cols // 2)).view(np.float32)[: rows * cols]
    array[...] = np.random.default_rng(0).standard_normal(rows * cols, np.float32)
    return array.reshape(cols, rows).T if flipped else array.reshape(rows, cols)


def compare(control: Control, kind: str, m: int, n: int, k: int) -> None:
    a, b = operand(m, k, kind[0] == "T"), operand(k, n, kind[1] == "T")
    runs = {
        name: Repeated(control, a, b, operand(m, n, False), by_blas)
        for name, by_blas in (("BLAS", True), ("tiles", False))
    }
    chosen = Repeated(control, a, b, operand(m, n, False), None).chosen
    best = dict.fromkeys(runs, 1.0)
    for _ in range(ROUNDS):
        for name, run in runs.items():
            best[name] = min(best[name], run.seconds())
    rates = {name: 2e-9 * m * n * k / t for name, t in best.items()}
    print(f"{kind} {f'{m} x {n} x {k}':18}  BLAS {rates['BLAS']:6.1f}  tiles {rates['tiles']:6.1f}  chosen {chosen}")


def main() -> None:
    numbers = [int(a) for a in sys.argv[1:]]
    shapes = [tuple(numbers[i : i + 3]) for i in range(0, len(numbers), 3)] or FORWARD
    control = Control(kernels())
    control.begin()
    for m, n, k in shapes:
        for kind, sizes in (("NN", (m, n, k)), ("TN", (k, n, m)), ("NT", (m, k, n))):
            compare(control, kind, *sizes)


if __name__ == "__main__":
    main()
