"""What an open dashboard costs: `python -m tests.benchmarks.bench_dashboard [--minutes M]`.

Prints, each as measured in this run:
  time per step of a run of about a millisecond a step, without and with a dashboard, in turn
  messages and bytes a second that go to the page, and the processor time of the publisher
  how long a dashboard takes that is opened after M minutes' worth of millisecond steps
Run it on a quiet machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from typing import Any

import numpy as np

import workbench as wb
from workbench import static
from workbench.experiments.run import Run
from workbench.notebook.dashboard.messages import encode
from workbench.notebook.dashboard.model import Model
from workbench.notebook.dashboard.publisher import Publisher
from workbench.notebook.dashboard.subject import Subject

_WINDOW_S = 1.0


def begun(width: int, batch: int) -> Run:
    """A run without an end, on two devices."""
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup):
        x, y = static.data("x", [None, 64]), static.data("y", [None, 1], "int64")
        hidden = static.nn.fc(x, width, activation="relu")
        hidden = static.nn.fc(hidden, width, activation="relu")
        loss = wb.mean(wb.nn.functional.softmax_with_cross_entropy(static.nn.fc(hidden, 10), y))
        wb.optimizer.SGD(0.01).minimize(loss)
    rng = np.random.default_rng(0)
    feed = {"x": rng.standard_normal((batch, 64), np.float32), "y": rng.integers(0, 10, (batch, 1))}
    setup = wb.experiments.Setup(main, startup, [feed], {"loss": loss.name}, devices=2, epochs=10**9)
    return setup.start(record=False, progress=False)


class Wire:
    """Counts what would go to a page."""

    def __init__(self) -> None:
        self.messages = self.bytes = 0

    def send(self, message: dict[str, Any]) -> None:
        content, buffers = encode(message)
        self.messages += 1
        self.bytes += len(json.dumps(content)) + sum(len(b) for b in buffers)


def per_step(run: Run) -> float:
    """Seconds, over a window."""
    step, begin = run.step, time.perf_counter()
    time.sleep(_WINDOW_S)
    return (time.perf_counter() - begin) / (run.step - step)


def dashboard_of(run: Run, wire: Wire) -> Publisher:
    return Publisher(Model(Subject.of(run, {}), dict, lambda program, name: None), wire.send)


def cost(rounds: int) -> None:
    """With and without, in turn."""
    run = begun(width=256, batch=128)
    time.sleep(3.0)
    without, with_, wire, shown = [], [], Wire(), 0.0
    for _ in range(rounds):
        without.append(per_step(run))
        publisher = dashboard_of(run, wire)
        time.sleep(0.5)  # the first picture
        wire.messages = 0
        with_.append(per_step(run))
        shown += wire.messages
        publisher.close()
    run.stop()
    run.wait()
    a, b = statistics.median(without), statistics.median(with_)
    ratios = [y / x for x, y in zip(without, with_, strict=True)]
    more = 100 * (statistics.median(ratios) - 1)
    print(f"a step takes {a * 1e6:.0f} us without, {b * 1e6:.0f} us with a dashboard: {more:+.2f} % ", end="")
    print(f"(median of {rounds} pairs, {min(ratios):.3f} … {max(ratios):.3f})")
    print(f"{shown / (rounds * _WINDOW_S):.1f} messages a second")


def late(minutes: float) -> None:
    """After so many minutes of steps of a millisecond, which a small program makes in less."""
    steps = int(minutes * 60_000)
    run = begun(width=8, batch=8)
    while run.step < steps:
        time.sleep(0.05)
    run.pause(10)
    wire, begin = Wire(), time.perf_counter()
    publisher = dashboard_of(run, wire)
    made = time.perf_counter() - begin
    publisher.take({"type": "hello"})
    found = publisher.snapshot()
    shown = time.perf_counter() - begin
    (curves,) = (m for m in found if m["type"] == "curves")
    points = len(curves["series"]["loss"]["step"])
    print(f"{run.step:,} steps: the dashboard is there after {made * 1e3:.0f} ms, ", end="")
    print(f"everything after {shown * 1e3:.0f} ms; {points} points of {curves['width']} steps each")
    publisher.close()
    run.stop()
    run.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--minutes", type=float, default=10.0)
    arguments = parser.parse_args()
    wb.enable_static()
    cost(arguments.rounds)
    late(arguments.minutes)


if __name__ == "__main__":
    main()
