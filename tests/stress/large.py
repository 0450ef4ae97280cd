"""Tensors of more than 2 GiB, between ranks and in a file: every byte arrives.

    python -m tests.stress.large

It takes 12 GiB of memory, 2 GiB of disk and some minutes. Sizes do not fit into 32 bits, and what is looked at lies on
both sides of where such numbers end.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import workbench as wb

MANY = (1 << 31) + 4096  # bytes

RANKS = f"""
import numpy as np
from workbench.runtime.comm.mpi.world import world

group = world()
own = np.full({MANY}, 1 + group.rank, np.uint8)
edges = [0, (1 << 31) - 1, 1 << 31, {MANY} - 1]
own[edges] = 10 * (1 + group.rank)
total = group.all_reduce(own).wait(600)
assert set(total[edges]) == {{30}} and np.count_nonzero(total == 3) == len(own) - 4
del total
group.broadcast(own, 1).wait(600)
assert set(own[edges]) == {{20}} and np.count_nonzero(own == 2) == len(own) - 4
if group.rank == 0:
    own[edges] = 40
    group.send(own, 1).wait(600)
else:
    own[...] = 0
    group.receive(own, 0).wait(600)
    assert set(own[edges]) == {{40}} and np.count_nonzero(own == 2) == len(own) - 4
group.barrier().wait(600)
print(f"rank {{group.rank}}: summed, broadcast, sent")
"""


def between_ranks(folder: Path) -> int:
    """Two ranks; the exit status."""
    script = folder / "ranks.py"
    script.write_text(RANKS)
    command = [sys.executable, "-m", "workbench", "launch", "-n", "2", str(script)]
    return subprocess.run(command, timeout=1800).returncode


def in_a_file(path: Path) -> bool:
    """Whether a tensor comes back, and what was written behind it."""
    array = np.arange(MANY // 4 + 5, dtype=np.int32)
    wb.save({"large": array, "behind": np.float32(3.0)}, str(path))
    read = wb.load(str(path), return_numpy=True)
    return bool(np.array_equal(read["large"], array)) and float(read["behind"]) == 3.0


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        status = between_ranks(Path(name))
        is_whole = in_a_file(Path(name) / "large")
    print("file: every byte" if is_whole else "file: DIFFERENT")
    sys.exit(status or not is_whole)
