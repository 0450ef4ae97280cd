"""What training adds to the memory of a process that has imported workbench (Linux)."""

from __future__ import annotations

import subprocess
import sys

from workbench.experiments.bench.workloads import WORKLOADS, training

PATIENCE_S = 300
STEPS = 5
# The baseline is read before anything but `import workbench` has happened, which loads names when they are first used.
IN_A_PROCESS = """
import sys
import workbench
before = open("/proc/self/status").read()
from workbench.experiments.bench.memory import peak_in, train
train(sys.argv[1], int(sys.argv[2]))
print(peak_in(before), peak_in(open("/proc/self/status").read()))
"""


def peak_in(status: str) -> int:
    """Bytes a process has held at most, from its `/proc/self/status`.

    `getrusage` would count what the parent held before it started the process.
    """
    line = next(line for line in status.splitlines() if line.startswith("VmHWM:"))
    return int(line.split()[1]) << 10


def train(name: str, devices: int) -> None:
    """A few steps of a workload."""
    workload = training(WORKLOADS[name], devices)
    for _ in range(STEPS):
        workload.step()


def peaks(name: str, devices: int) -> tuple[int, int]:
    """Peak memory in bytes after `import workbench` and after training, of a process of its own.

    Raises:
        CalledProcessError: it failed; what it said is on stderr. TimeoutExpired: it hangs.
    """
    command = [sys.executable, "-c", IN_A_PROCESS, name, str(devices)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=True)
    before, after = done.stdout.split()
    return int(before), int(after)
