"""What an open dashboard costs: `python -m tests.benchmarks.bench_dashboard [--minutes M]`.

Prints, each as measured in this run:
  time per step of a run of about a millisecond a step, without and with a dashboard, in turn
  the processor time of looking, and how often the page is told
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
from workbench.notebook.dashboard.model.model import Model
from workbench.notebook.dashboard.model.subject import Subject
from workbench.notebook.dashboard.page.publisher import Publisher
from workbench.notebook.messages import encode

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
        self.states = self.bytes = 0

    def send(self, message: dict[str, Any]) -> None:
        content, buffers = encode(message)
        self.states += message["type"] == "state"
        self.bytes += len(json.dumps(content)) + sum(len(b) for b in buffers)


class Clock:
    """Time on the wall and on the processor that the training thread spends on steps."""

    def __init__(self, run: Run) -> None:
        self.run, self.spent = run, 0.0
        run.subscribe(self._look)

    def _look(self, run: Run) -> None:
        self.spent = time.thread_time()

    def per_step(self) -> tuple[float, float]:
        """Seconds of a step, over a window."""
        step, begin, spent = self.run.step, time.perf_counter(), self.spent
        time.sleep(_WINDOW_S)
        steps = self.run.step - step
        return (time.perf_counter() - begin) / steps, (self.spent - spent) / steps


class Timed(Model):
    """Counts the processor time of looking; while it looks, Python code of the training thread has to wait."""

    spent = 0.0

    def news(self) -> list[dict[str, Any]]:
        begin = time.thread_time()
        messages = super().news()
        self.spent += time.thread_time() - begin
        return messages


def dashboard_of(run: Run, wire: Wire) -> Publisher:
    return Publisher(Timed(Subject.of(run, {}), dict, lambda program, name: None), wire.send)


def cost(rounds: int) -> None:
    """With and without, in turn."""
    run = begun(width=256, batch=256)
    clock, wire = Clock(run), Wire()
    time.sleep(3.0)
    pairs, looking, updates = [], [], 0
    for _ in range(rounds):
        without = clock.per_step()
        publisher = dashboard_of(run, wire)
        time.sleep(0.5)  # the first picture
        states, publisher.model.spent = wire.states, 0.0  # type: ignore[attr-defined]
        pairs.append((without, clock.per_step()))
        looking.append(publisher.model.spent / _WINDOW_S)  # type: ignore[attr-defined]
        updates += wire.states - states
        publisher.close()
    run.stop()
    run.wait()
    for what, which in (("on the wall", 0), ("on the processor", 1)):
        a, b = (statistics.median(pair[k][which] for pair in pairs) for k in (0, 1))
        ratios = sorted(pair[1][which] / pair[0][which] for pair in pairs)
        more = 100 * (statistics.median(ratios) - 1)
        print(f"a step takes {a * 1e6:.0f} us {what} without, {b * 1e6:.0f} us with: {more:+.2f} % ", end="")
        print(f"(median of {rounds} pairs, {ratios[0]:.3f} … {ratios[-1]:.3f})")
    print(f"looking takes {100 * statistics.median(looking):.2f} % of a second; ", end="")
    print(f"{updates / (rounds * _WINDOW_S):.1f} updates a second")


def late(minutes: float) -> None:
    """After so many minutes of steps of a millisecond, which a small program makes in less."""
    steps = int(minutes * 60_000)
    run = begun(width=8, batch=8)
    while run.step < steps:
        time.sleep(0.05)
    run.pause(10)
    wire, begin = Wire(), time.perf_counter()
    publisher = dashboard_of(run, wire)
    elapsed = time.perf_counter() - begin
    publisher.take({"type": "hello"})
    messages = publisher.snapshot()
    shown = time.perf_counter() - begin
    (curves,) = (m for m in messages if m["type"] == "curves")
    points = len(curves["series"]["loss"]["step"])
    print(f"{run.step:,} steps: the dashboard is there after {elapsed * 1e3:.0f} ms, ", end="")
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
