"""Reduce mode keeps one copy of parameters and optimizer state, AllReduce mode one per device: measured."""

import gc

import numpy as np
import pytest

import workbench as wb
from tests.parallel.models import build
from workbench import static
from workbench.graph.strategy import ReduceStrategy

DEVICES = 4


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def grown(mode: ReduceStrategy) -> float:
    """What training adds to the process's memory, in multiples of the bytes of parameters and state."""

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
    gc.collect()
    before = resident()
    pe.run([], feed={"x": np.ones((DEVICES, 1024), np.float32)})
    pe.drop_local_exe_scopes()
    gc.collect()
    return (resident() - before) / kept


@pytest.mark.parametrize(("mode", "copies"), [(ReduceStrategy.Reduce, 0), (ReduceStrategy.AllReduce, DEVICES - 1)])
def test_x_23_copies_on_top_of_the_users(mode, copies):
    assert grown(mode) == pytest.approx(copies, abs=0.3)
