"""What a day in one process leaves behind, in minutes: memory, descriptors and threads have to stay as they are.

    python -m tests.stress.day --minutes 5

A cycle is an hour of somebody at work: a program is trained with batches of changing sizes, alone and on two devices,
recorded, saved, resumed and looked at; tensors are trained at once and as a recorded step; files are written and read.
After the cycles in which caches fill, what the process holds is told after every cycle, and must not grow.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np

import workbench as wb
from tests.autodiff.small import Built
from workbench import static
from workbench.dygraph.dispatch.recorder import dynamic_recorder
from workbench.framework.op.recorder import recording

WARM = 0.4  # of all cycles: in these caches fill
MOST_MEMORY = 8 << 20  # bytes that the later half may hold more than the earlier one, where cycles are few
MOST_A_CYCLE = 16 << 10  # bytes of growth in every cycle that are noise of the allocator


class Held(NamedTuple):
    """What the process holds: bytes, descriptors, threads."""

    memory: int
    descriptors: int
    threads: int

    @classmethod
    def now(cls) -> Held:
        """After what is garbage has gone."""
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return cls(
            pages * os.sysconf("SC_PAGESIZE"), len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
        )


class Day:
    """One process's work.

    Args:
        folder: for files. seed: of the sizes of batches.
    """

    def __init__(self, folder: Path, seed: int = 0) -> None:
        self.folder, self.rng = folder, np.random.default_rng(seed)
        with Built() as p:
            hidden = static.nn.fc(static.data("x", [None, 16]), 32, activation="relu")
            self.loss = wb.mean(static.nn.fc(hidden, 1))
            wb.optimizer.Adam(0.01).minimize(self.loss)
        self.main, self.scope, self.exe = p.main, static.Scope(), static.Executor()
        self.exe.run(p.startup, scope=self.scope)
        strategy = {"loss_name": self.loss.name, "places": static.cpu_places(2)}
        self.parallel = static.CompiledProgram(p.main).with_data_parallel(**strategy)
        with recording(dynamic_recorder):
            self.net = wb.nn.Sequential(wb.nn.Linear(16, 32), wb.nn.ReLU(), wb.nn.Linear(32, 1))
            self.optimizer = wb.optimizer.Adam(0.01, parameters=self.net.parameters())
            self.step = wb.jit.capture(self._step)

    def _batch(self, most: int = 40) -> dict[str, np.ndarray]:
        return {"x": self.rng.random((2 * int(self.rng.integers(1, most)), 16), np.float32)}

    def cycle(self) -> None:
        """An hour."""
        for _ in range(150):
            self.exe.run(self.main, self._batch(), [self.loss], scope=self.scope)
            self.exe.run(self.parallel, self._batch(), [self.loss], scope=self.scope)
        self._runs()
        with recording(dynamic_recorder):
            self._at_once()

    def _runs(self) -> None:
        path, file = self.folder / "run", self.folder / "runs.sqlite"
        for resumed in (None, path):
            batches = [self._batch(8) for _ in range(10)]
            run = wb.train(
                self.main, batches, epochs=2 if resumed else 1, scope=self.scope, record=file, progress=False,
                checkpoint=resumed,
            )  # fmt: skip
            dashboard = wb.dashboard(run)
            run.wait()
            dashboard.messages()
            dashboard.close()
            run.save(path)
        repr(wb.runs(file))
        file.unlink()  # a day of somebody else: the table of runs grows with its runs

    def _step(self, x: wb.Tensor) -> wb.Tensor:
        loss = self.net(x).square().mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.clear_grad()
        return loss

    def _at_once(self) -> None:
        for size in (4, 8, 12, 16) * 10:
            float(self.step(wb.to_tensor(self.rng.random((size, 16), np.float32))))
        for _ in range(20):
            float(self._step(wb.to_tensor(self._batch()["x"])))
        path = str(self.folder / "state")
        wb.save(self.net.state_dict(), path)
        self.net.set_state_dict(wb.load(path))


def grown(held: list[Held]) -> list[str]:
    """What the later half of the warm cycles holds more than the earlier one."""
    warm = held[int(len(held) * WARM) :]
    early, late = warm[: len(warm) // 2], warm[len(warm) // 2 :]
    problems = []
    for name in ("descriptors", "threads"):  # a thread that has nothing to do any more may take a moment to end
        before, after = (min(getattr(one, name) for one in half) for half in (early, late))
        if after > before:
            problems.append(f"{name}: {before} before, {after} after")
    before, after = (int(np.median([one.memory for one in half])) for half in (early, late))
    allowed = max(MOST_MEMORY, MOST_A_CYCLE * len(warm) // 2)
    if after - before > allowed:
        problems.append(f"memory: {(after - before) / 2**20:.1f} MiB more, {allowed / 2**20:.1f} MiB are noise")
    return problems


def main(minutes: float, cycles: int) -> list[str]:
    """Runs for so long, or so many cycles; what has grown."""
    end, held = time.monotonic() + minutes * 60, list[Held]()
    with tempfile.TemporaryDirectory() as name:
        day = Day(Path(name))
        while len(held) < cycles or time.monotonic() < end:
            day.cycle()
            held.append(Held.now())
            if len(held) % max(cycles // 10, 1) == 0:
                now = held[-1]
                print(
                    f"cycle {len(held)}: {now.memory / 2**20:.1f} MiB, {now.descriptors} descriptors, "
                    f"{now.threads} threads",
                    flush=True,
                )
    return grown(held)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--cycles", type=int, default=20, help="at least so many")
    arguments = parser.parse_args()
    problems = main(arguments.minutes, arguments.cycles)
    print("\n".join(problems) or "flat")
    sys.exit(bool(problems))
