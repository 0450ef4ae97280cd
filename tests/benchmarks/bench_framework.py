"""How long building, checking, copying, printing and saving programs takes, and that it grows linearly.

    python -m tests.benchmarks.bench_framework [forward operators ...]

Every size is a stack of fully connected layers (mul, elementwise_add, relu) with a mean on top, then backward and SGD.
The table gives seconds and microseconds per operator; a column that grows down the table is not linear.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from typing import Any

import workbench as wb
from workbench.framework import names
from workbench.framework.program.guard import default_main_program, program_guard, static_mode
from workbench.framework.program.program import Program
from workbench.framework.program.reading.check import check_program
from workbench.framework.program.reading.prune import prune
from workbench.framework.text.parser import parse_program
from workbench.framework.text.serialize import program_from_json, program_to_json

SIZES = (1_000, 10_000, 50_000)
WIDTH = 8


def forward(size: int) -> Any:
    """A loss over `size` operators."""
    x = wb.static.data("x", [None, WIDTH])
    for _ in range(size // 3):
        x = wb.static.nn.fc(x, WIDTH, activation="relu")
    return wb.mean(x)


def record(size: int) -> Any:
    """A loss over `size` operators without parameters: what recording itself costs."""
    x = wb.static.data("x", [None, WIDTH])
    for _ in range(size // 2):
        x = wb.nn.functional.relu(x) + x
    return wb.mean(x)


def measure(size: int) -> dict[str, tuple[float, int]]:
    """Seconds and number of operators of every step."""
    measured: dict[str, tuple[float, int]] = {}

    def timed(what: str, run: Callable[[], Any], program: Callable[[], Program]) -> Any:
        gc.collect()
        start = time.perf_counter()
        result = run()
        measured[what] = (time.perf_counter() - start, sum(len(b.ops) for b in program().blocks))
        return result

    with names.guard(), program_guard(Program(), Program()), static_mode():
        timed("record", lambda: record(size), default_main_program)
    with names.guard(), program_guard(Program(), Program()), static_mode():
        main = default_main_program()
        loss = timed("build layers", lambda: forward(size), lambda: main)
        timed("backward, SGD", lambda: wb.optimizer.SGD(0.1).minimize(loss), lambda: main)
        timed("check", lambda: check_program(main), lambda: main)
        timed("clone", main.clone, lambda: main)
        timed("clone for test", lambda: main.clone(for_test=True), lambda: main)
        timed("prune", lambda: prune(main, [loss], ["x"]), lambda: main)
        text = timed("print", lambda: str(main), lambda: main)
        timed("print details", lambda: main.to_string(with_details=True), lambda: main)
        timed("parse", lambda: parse_program(text), lambda: main)
        json = timed("to JSON", lambda: program_to_json(main), lambda: main)
        timed("from JSON", lambda: program_from_json(json), lambda: main)
    return measured


def main(sizes: tuple[int, ...] = SIZES) -> None:
    """Print the table."""
    measure(min(sizes))  # warm up: imports, caches
    columns = {size: measure(size) for size in sizes}
    print(f"{'forward operators':18}" + "".join(f"{size:>22,}" for size in sizes))
    for what in columns[sizes[0]]:
        cells = (f"{seconds:10.3f} s {seconds / n * 1e6:6.1f} µs" for seconds, n in (columns[s][what] for s in sizes))
        print(f"{what:18}" + "".join(f"{cell:>22}" for cell in cells))


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or SIZES)
