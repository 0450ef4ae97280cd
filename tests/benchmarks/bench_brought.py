"""What people bring: `python -m tests.benchmarks.bench_brought [ROW ...] [--torch PYTHON]`, see `--help`.

    wide and deep   8 tables of 10,000 rows of 16, `is_sparse`, fc 256-128-1, batch 256, SGD
    loop            32 passes of tanh(h W + x) in a `while_loop`, 64 wide, batch 32, with its gradient, SGD
    lengths         2 attention blocks, 64 wide, batch 8, Adam; 40 lengths: new ones, seen ones in turn, one alone

The first two are ms a step, one CPU device and its threads, beside PyTorch with two threads where a Python that has it
is given; they take turns, three rounds. Run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

import workbench as wb
from tests.benchmarks.peer import FOLDER
from tests.benchmarks.peers.measure import lap
from workbench.experiments.bench.workloads import Training, attention, normalised, started, token_fc

F = wb.nn.functional
ROUNDS, LENGTHS = 3, range(10, 50)


def wide_and_deep(height: int) -> Training:
    rng = np.random.default_rng(0)
    feed = {f"ids{n}": rng.integers(0, height, 256) for n in range(8)}

    def body() -> Any:
        ids = [wb.static.data(name, [None], "int64") for name in feed if name != "y"]
        read = [wb.static.nn.embedding(one, [height, 16], is_sparse=True) for one in ids]
        h = wb.concat(read, axis=1)
        for width in (256, 128):
            h = wb.static.nn.fc(h, width, activation="relu")
        loss = wb.mean(F.square_error_cost(wb.static.nn.fc(h, 1), wb.static.data("y", [None, 1])))
        wb.optimizer.SGD(0.01).minimize(loss)
        return loss

    feed["y"] = rng.standard_normal((256, 1)).astype(np.float32)
    return started(body, feed, 1)


def loop() -> Training:
    def body() -> Any:
        x = wb.static.data("x", [None, 64])
        w = wb.create_parameter([64, 64], "float32")
        begin = [wb.full([1], 0, "int64"), wb.zeros_like(x)]
        h = wb.static.nn.while_loop(
            lambda i, h: i < 32, lambda i, h: [i + 1, wb.tanh(wb.matmul(h, w) + x)], begin
        )[1]  # fmt: skip
        loss = wb.mean(h)
        wb.optimizer.SGD(0.1).minimize(loss)
        return loss

    return started(body, {"x": np.random.default_rng(0).standard_normal((32, 64)).astype(np.float32)}, 1)


def lengths() -> str:
    """Medians of ms: lengths that are new, the same in turn, and each of them alone."""

    def body() -> Any:
        x = wb.static.data("x", [None, None, 64])
        h = x
        for _ in range(2):
            h = normalised(h + attention(h, heads=4))
            h = normalised(h + token_fc(F.gelu(token_fc(h, 256)), 64))
        loss = wb.mean(F.square_error_cost(h, x))
        wb.optimizer.Adam(1e-3).minimize(loss)
        return loss

    rng = np.random.default_rng(0)
    feeds = [{"x": rng.standard_normal((8, n, 64)).astype(np.float32)} for n in LENGTHS]
    training = started(body, feeds[0], 1)

    def ms(feed: dict[str, np.ndarray]) -> float:
        begun = perf_counter()
        training.executor.run([training.loss], feed=feed)
        return 1e3 * (perf_counter() - begun)

    new = [ms(feed) for feed in feeds]
    in_turn = np.array([[ms(feed) for feed in feeds] for _ in range(9)])[2:]
    alone = np.array([[ms(feed) for _ in range(9)][2:] for feed in feeds]).T
    ratio = np.median(in_turn, 0).sum() / np.median(alone, 0).sum()
    opened = sum(t > 10 * statistics.median(new) for t in new)
    return (
        f"new {statistics.median(new):.2f} ms, {opened} of {len(new)} planned anew, at most {max(new):.0f} ms; "
        f"in turn {ratio:.2f} times as long as one alone"
    )


def lasting(step: Callable[[], Any], seconds: float) -> float:
    """ms of a step, the quickest of stretches of ten."""
    lap(step, 20)
    best, end = float("inf"), perf_counter() + seconds
    while perf_counter() < end:
        best = min(best, lap(step, 10) / 10)
    return 1e3 * best


def in_torch(python: str, row: str, seconds: float) -> float:
    command = [python, str(FOLDER / "pytorch_brought.py"), row, str(seconds)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120 + 5 * seconds)
    return float(answer.stdout)


def beside(row: str, training: Training, python: str | None, seconds: float) -> str:
    """A row: the best of ours, of PyTorch, and the median of how the rounds compare."""
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(lasting(training.step, seconds))
        if python is not None:
            theirs.append(in_torch(python, row, seconds))
    text = f"{min(ours):.3f} ms"
    if theirs:
        ratio = statistics.median(b / a for a, b in zip(ours, theirs, strict=True))
        text += f", PyTorch {min(theirs):.3f} ms, {ratio:.2f} times as fast"
    return text


def main() -> None:
    rows = ["wide and deep", "loop", "lengths"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help=", ".join(rows))
    parser.add_argument("--torch", metavar="PYTHON")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--height", type=int, default=10_000, help="of the tables; PyTorch's stay as they are")
    given = parser.parse_args()
    wb.enable_static()
    made = {"wide and deep": lambda: wide_and_deep(given.height), "loop": loop}
    for row in given.rows or rows:
        text = lengths() if row == "lengths" else beside(row, made[row](), given.torch, given.seconds)
        print(f"{row:<16}{text}", flush=True)


if __name__ == "__main__":
    main()
