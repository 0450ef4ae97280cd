"""Parameters and optimizer state are kept once; in AllReduce mode per device once a user writes to one: measured.

In a process of its own each: in one that has run much before, memory that was freed is used again.
"""

import ctypes
import gc
import subprocess
import sys

import numpy as np
import pytest

import workbench as wb
from tests.parallel.models import build
from workbench import static
from workbench.graph.settings import ReduceStrategy

DEVICES = 4


def resident() -> int:
    """Bytes in use: what the C library keeps of freed memory is given back first."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def grown(mode: ReduceStrategy, writes: bool) -> float:
    """What training adds to the process's memory, in multiples of the bytes of parameters and state.

    Args:
        writes: whether afterwards one device is given a value of its own for each of them.
    """

    def body():
        h = static.data("x", [None, 1024])
        for _ in range(3):
            h = static.nn.fc(h, 1024)
        return wb.mean(h)

    model = build(body, wb.optimizer.Adam(1e-3)).start()
    kept = sum(value.nbytes for value in model.values().values())
    strategy = static.BuildStrategy()
    strategy.reduce_strategy = mode
    pe = model.parallel(DEVICES, build_strategy=strategy)
    before = resident()
    pe.run([], feed={"x": np.ones((DEVICES, 1024), np.float32)})
    pe.drop_local_exe_scopes()
    if writes:
        for name, value in model.values().items():
            pe.local_scope(1).find_var(name).get_tensor().set(value + 1)
    return (resident() - before) / kept


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc and asks glibc")
@pytest.mark.parametrize(
    ("mode", "writes", "copies"),
    [("Reduce", "", 0), ("AllReduce", "", 0), ("AllReduce", "writes", DEVICES - 1)],
)
def test_x_23_copies_on_top_of_the_users(mode, writes, copies):
    done = subprocess.run(
        [sys.executable, "-m", __name__, mode, writes], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(copies, abs=0.3)


if __name__ == "__main__":
    wb.enable_static()
    print(grown(ReduceStrategy[sys.argv[1]], bool(sys.argv[2])))
