"""How long element-wise work takes as vector code, beside loops made for it by hand.

    python -m tests.benchmarks.bench_vector_code

Microseconds per piece of work, medians, and their ratio; both run one after the other, twice, the better pair counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import pi, sqrt
from typing import Any

import numba
import numpy as np

from tests.native.kernels.vector_rows import Op, form_of
from tests.native.one_row import kernels
from workbench.executors.lowering.operands import Scratch
from workbench.executors.lowering.tape.vector_code import VectorCode
from workbench.framework.expr.expr import Recording as xp
from workbench.runtime.native.control import Control, lines
from workbench.runtime.native.tape import Tape, address
from workbench.runtime.words.codes import AT, CONTROL, END, STATE_WORDS, TABLE

SECONDS = 0.3
F = np.float32


def filled(*shape: int) -> np.ndarray:
    """Random numbers that begin at a cache line."""
    count = int(np.prod(shape))
    raw = np.empty(count + 16, np.float32)
    start = -address(raw) // 4 % 16
    raw[:] = np.random.default_rng(0).standard_normal(raw.size)
    return raw[start : start + count].reshape(shape)


def vector_rows(shape: tuple[int, ...], ops: Sequence[Op], times: int) -> Callable[[], None]:
    """Runs the ops, as one row, so many times."""
    tape, scratch = Tape(kernels()), Scratch()
    for _ in range(times):
        code = VectorCode(shape)
        for op in ops:
            code.add(*op)
        scratch.restart()
        code.emit(tape, lambda floats: scratch((floats,), np.float32))
    control, table, state = Control(kernels()), np.array(tape.words, np.int64), lines(STATE_WORDS)
    control.begin()
    state[TABLE], state[END], state[CONTROL] = address(table), len(tape), control.address

    def run() -> None:
        state[AT] = 0
        assert control.run(address(state)) == 0

    run.kept = (tape, scratch, table, ops)  # type: ignore[attr-defined]
    return run


def median(run: Callable[[], Any], times: int) -> float:
    """Microseconds."""
    run()
    durations, end = [], time.perf_counter() + SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        run()
        durations.append(time.perf_counter() - start)
    return float(np.median(durations)) / times * 1e6


def compare(what: str, ours: Callable[[], Any], times: int, other: Callable[[], Any], other_times: int = 1) -> None:
    """Print a line."""
    pairs = [(median(ours, times), median(other, other_times)) for _ in range(2)]
    mine, theirs = min(pairs)
    print(f"{what:<34} {mine:10.3f} {theirs:10.3f} {mine / theirs:8.2f}", flush=True)


@numba.njit
def bias_relu(z: Any, b: Any, out: Any, times: int) -> None:
    for _ in range(times):
        for i in range(z.shape[0]):
            for j in range(z.shape[1]):
                x = z[i, j] + b[j]
                out[i, j] = x if x > F(0) else F(0)


@numba.njit
def mask_and_sum(g: Any, y: Any, out: Any, total: Any, times: int) -> None:
    for _ in range(times):
        total[:] = 0
        for i in range(g.shape[0]):
            for j in range(g.shape[1]):
                x = g[i, j] if y[i, j] > F(0) else F(0)
                out[i, j] = x
                total[j] += x


@numba.njit
def chain(a: Any, b: Any, out: Any) -> None:
    for i in range(a.size):
        out[i] = (((a[i] + b[i]) * a[i] - b[i]) * b[i] + a[i]) * b[i]


@numba.njit
def triad(p: Any, g: Any, m: Any, v: Any) -> None:
    """As much memory as Adam, one addition per number written."""
    for i in range(p.size):
        m[i] = m[i] + g[i]
        v[i] = v[i] + g[i]
        p[i] = p[i] + m[i]


def gelu(z: Any, b: Any) -> Any:
    """With what it is of."""
    x = z + b
    return x * 0.5 * (xp.erf(x * sqrt(0.5)) + 1.0), x


def gelu_gradient(g: Any, x: Any) -> Any:
    """Twice, the second to be added up."""
    below = (xp.erf(x * sqrt(0.5)) + 1.0) * 0.5
    gradient = g * (below + x * (xp.exp(x * x * -0.5) * (1.0 / sqrt(2.0 * pi))))
    return gradient, gradient


def tanh_gelu(x: Any) -> Any:
    return x * 0.5 * (xp.tanh((x + x * x * x * 0.044715) * sqrt(2.0 / pi)) + 1.0)


def sigmoid(x: Any) -> Any:
    small = xp.exp(-xp.abs(x))
    return xp.where(x >= 0, 1.0, small) / (1.0 + small)


def adam(p: Any, g: Any, m: Any, v: Any, rate: Any) -> Any:
    m = m * 0.9 + g * 0.1
    v = v * 0.999 + g * g * 0.001
    return p - rate * m / (xp.sqrt(v) + 1e-8), m, v


def layers(rows: int, columns: int) -> None:
    """What is around the products of a fully connected layer."""
    z, b, out, total, times = filled(rows, columns), filled(columns), filled(rows, columns), filled(columns), 100
    forward = form_of(lambda z, b: xp.maximum(z + b, 0.0), [z, b])
    compare(
        f"bias and relu, {rows} x {columns}", vector_rows(z.shape, [(forward, [z, b], [out])], times), times,
        lambda: bias_relu(z, b, out, times), times,
    )  # fmt: skip
    g = filled(rows, columns)
    masked = form_of(lambda g, y: (g * (y > 0.0),) * 2, [g, z])
    compare(
        f"mask and column sums, {rows} x {columns}", vector_rows(z.shape, [(masked, [g, z], [out, total])], times),
        times, lambda: mask_and_sum(g, z, out, total, times), times,
    )  # fmt: skip


def activations() -> None:
    """Beside a copy of as many numbers."""
    z, b, y, x, total = filled(512, 512), filled(512), filled(512, 512), filled(512, 512), filled(512)
    for what, body, ins, outs in (
        ("bias and gelu", gelu, [z, b], [y, x]),
        ("gelu's gradient, column sums", gelu_gradient, [z, x], [y, total]),
        ("gelu by tanh", tanh_gelu, [z], [y]),
        ("sigmoid", sigmoid, [z], [y]),
    ):
        row = vector_rows(z.shape, [(form_of(body, ins), ins, outs)], 1)
        compare(f"{what}, 512 x 512", row, 1, lambda: np.copyto(y, z))


def main() -> None:
    print(f"{'':<34} {'vector':>10} {'by hand':>10} {'ratio':>8}")
    for rows, columns in ((32, 64), (32, 100), (64, 512)):
        layers(rows, columns)
    a, b, out = filled(2048), filled(2048), filled(2048)
    six = form_of(lambda a, b: (((a + b) * a - b) * b + a) * b, [a, b])
    compare("six functions, 2048", vector_rows(a.shape, [(six, [a, b], [out])], 100), 100, lambda: chain(a, b, out))
    activations()
    p, g, m, v = (filled(500_000) for _ in range(4))
    held = [p, g * F(1e-6), m, np.abs(v), np.zeros(1, np.float32)]
    update = vector_rows(p.shape, [(form_of(adam, held), held, [p, m, held[3]])], 1)
    compare("Adam, 500 000 (by hand: a triad)", update, 1, lambda: triad(p, held[1], m, held[3]))
    x, y = np.abs(filled(1 << 15)) + F(0.1), filled(1 << 15)
    for name in ("exp", "expm1", "log", "log1p", "log2", "log10", "tanh", "sin", "cos", "sqrt"):
        one = vector_rows(x.shape, [(form_of(getattr(xp, name), [x]), [x], [y])], 1)
        compare(f"{name}, 32768 (by hand: NumPy)", one, 1, lambda name=name: getattr(np, name)(x, out=y))


if __name__ == "__main__":
    main()
