"""What parameters were made of, and where they lay before they were put together, takes up no room afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TRAIN = """
import numpy as np
import workbench as wb
from workbench import static

def resident():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:")) / 1024

wb.enable_static()
h = static.data("x", [None, 512])
for _ in range(40):
    h = static.nn.fc(static.nn.fc(h, 2048), 512)
loss = wb.mean(h)
wb.optimizer.SGD(0.1).minimize(loss)
executor = static.ParallelExecutor(use_cuda=False, loss_name=loss.name)
before = resident()
static.Executor().run(static.default_startup_program())
initialised = resident()
plan = executor.plan({"x": np.ones((1, 512), np.float32)}, [loss])
parameters = sum(4 * np.prod(p.shape) for p in static.default_main_program().all_parameters()) / 2**20
print(parameters, initialised - before, resident() - before)
"""


@pytest.mark.processes
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, and glibc alone gives memory back")
def test_parameters_take_up_their_room_once() -> None:
    given = {**os.environ, "PYTHONPATH": str(ROOT), "CPU_NUM": "1"}
    done = subprocess.run([sys.executable, "-c", TRAIN], capture_output=True, text=True, timeout=240, env=given)
    assert done.returncode == 0, done.stderr
    parameters, initialised, put_together = map(float, done.stdout.split())
    assert parameters > 300
    assert initialised < 1.3 * parameters
    assert put_together < 1.3 * parameters
