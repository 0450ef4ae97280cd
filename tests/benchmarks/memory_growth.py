"""What training adds to the memory of a process that has imported its library, ours and others'.

    [PEERS_PY=...] [PADDLE18_PY=...] python -m tests.benchmarks.memory_growth [workloads] [--devices 2]

PEERS_PY names a Python with PyTorch and JAX (`pip install torch jax`), PADDLE18_PY a Python 3.7 with Paddle 1.8
(`pip install paddlepaddle==1.8.5 'protobuf<3.21'`); without them the peers are left out. Every figure is the peak of a
process of its own (Linux), after five steps. Their programs are in `peers/`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

from workbench.experiments.bench import memory
from workbench.experiments.bench.workloads import WORKLOADS

PEERS = {  # name: variable that names its interpreter, program
    "PyTorch": ("PEERS_PY", "pytorch.py"),
    "JAX": ("PEERS_PY", "jax_jit.py"),
    "Paddle 1.8": ("PADDLE18_PY", "paddle_parallel.py"),
}
FOLDER = Path(__file__).parent / "peers"
MIB = 1 << 20


def peak_of_peer(python: str, program: str, workload: str, devices: int) -> tuple[int, int]:
    """Peak memory in bytes after the import and after training."""
    environment = {**os.environ, "OMP_NUM_THREADS": str(devices)}
    command = [python, str(FOLDER / program), workload, str(devices)]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment, timeout=600, check=True
    )
    before, after = done.stdout.splitlines()[-1].split()
    return int(before), int(after)


def lines(workloads: list[str], devices: int) -> Iterator[str]:
    """The table."""
    yield f"{'workload':<10}{'library':<12}{'import MiB':>11}{'peak MiB':>10}{'growth MiB':>12}   {devices} devices"
    for workload in workloads:
        yield _line(workload, "workbench", memory.peaks(workload, devices))
        for name, (variable, program) in PEERS.items():
            if python := os.environ.get(variable):
                yield _line(workload, name, peak_of_peer(python, program, workload, devices))


def _line(workload: str, library: str, peaks: tuple[int, int]) -> str:
    before, after = (nbytes / MIB for nbytes in peaks)
    return f"{workload:<10}{library:<12}{before:>11.1f}{after:>10.1f}{after - before:>12.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS), help="all if left out")
    parser.add_argument("--devices", type=int, default=2)
    options = parser.parse_args()
    if unknown := set(options.workloads) - set(WORKLOADS):
        parser.error(f"no workload {unknown.pop()!r}; there are {', '.join(WORKLOADS)}")
    for line in lines(options.workloads, options.devices):
        print(line, flush=True)


if __name__ == "__main__":
    main()
