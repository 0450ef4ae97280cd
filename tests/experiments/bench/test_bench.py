"""What `workbench bench` counts is what a person with a pencil counts; what it measures comes out as numbers."""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np
import pytest

from workbench.config import override
from workbench.experiments.bench import machine, memory
from workbench.experiments.bench.growth import by_devices, by_ops, chain
from workbench.experiments.bench.roofline import latest_binding, roofline, rows_by_lowering
from workbench.experiments.bench.work import Work, work_of
from workbench.experiments.bench.workloads import WORKLOADS, training

# Products [rows, inner] x [inner, columns] take 2 * rows * inner * columns, the gradients of both factors as much each;
# the gradient of what was fed is not wanted. Everything is for the whole batch, however it is split.


def layers(rows: int, *widths: int) -> int:
    """Of fully connected layers with all gradients but that of the first one's input."""
    sizes = [2 * rows * a * b for a, b in pairwise(widths)]
    return 3 * sum(sizes) - sizes[0]


LENET_CONVOLUTIONS = [  # batch * places * filters * (channels * window), twice
    2 * 64 * (28 * 28) * 6 * (1 * 5 * 5),
    2 * 64 * (10 * 10) * 16 * (6 * 5 * 5),
]
TOKENS = 16 * 64
ENCODER_LAYER = [
    *[2 * TOKENS * 128 * 128] * 4,  # query, key, value, what comes out
    *[2 * (16 * 4) * 64 * 32 * 64] * 2,  # queries with keys, weights with values, of every head
    *[2 * TOKENS * 128 * 512] * 2,
]
FLOPS = {
    "tiny": layers(32, 64, 32, 10),
    "mlp": layers(128, 784, 512, 256, 10),
    "deep": layers(64, *[64] * 101, 10),
    "lenet": 2 * LENET_CONVOLUTIONS[0] + 3 * LENET_CONVOLUTIONS[1] + 3 * 2 * 64 * (400 * 120 + 120 * 84 + 84 * 10),
    # the first layer's query, key and value have no gradient of their input
    "encoder": 3 * 2 * sum(ENCODER_LAYER) - 3 * (2 * TOKENS * 128 * 128) + 3 * (2 * 16 * 128 * 10),
}

ENCODER_PARAMETERS = 2 * (4 * (128 * 128 + 128) + 2 * 2 * 128 + 128 * 512 + 512 + 512 * 128 + 128) + 128 * 10 + 10
PARAMETERS = {
    "tiny": 64 * 32 + 32 + 32 * 10 + 10,
    "mlp": 784 * 512 + 512 + 512 * 256 + 256 + 256 * 10 + 10,
    "deep": 100 * (64 * 64 + 64) + 64 * 10 + 10,
    "lenet": 6 * 25 + 6 + 16 * 6 * 25 + 16 + 400 * 120 + 120 + 120 * 84 + 84 + 84 * 10 + 10,
    "encoder": ENCODER_PARAMETERS,
}
STATE = {  # numbers kept beside each parameter, and per tensor
    "tiny": (0, 0),
    "mlp": (2, 2 * 6),
    "deep": (0, 0),
    "lenet": (1, 0),
    "encoder": (2, 2 * (2 * 16 + 2)),
}
FED = {
    "tiny": 32 * (64 * 4 + 8),
    "mlp": 128 * (784 * 4 + 8),
    "deep": 64 * (64 * 4 + 8),
    "lenet": 64 * (784 * 4 + 8),
    "encoder": 16 * (64 * 128 * 4 + 8),
}


@pytest.mark.parametrize("devices", [1, 2])
@pytest.mark.parametrize("name", list(WORKLOADS))
def test_the_work_of_a_step_is_what_a_pencil_says(name: str, devices: int) -> None:
    model = training(WORKLOADS[name], devices)
    each, beside = STATE[name]
    kept = PARAMETERS[name] * (1 + each) + beside
    updated = 2 * 4 * (devices * PARAMETERS[name] + kept)
    work = work_of(model.executor.plan(feed=model.feed, fetch_list=[model.loss]))
    assert work == Work(FLOPS[name], FED[name], 4 * devices, updated)


@pytest.mark.parametrize("name", list(WORKLOADS))
def test_workloads_train(name: str) -> None:
    model = training(WORKLOADS[name], 2)
    losses = [model.step().mean() for _ in range(8)]
    assert np.isfinite(losses).all()
    assert min(losses) < losses[0]


@pytest.mark.parametrize("name", list(WORKLOADS))
def test_workloads_are_the_same_every_time(name: str) -> None:
    one, other = (training(WORKLOADS[name], 2) for _ in range(2))
    assert all((one.feed[key] == other.feed[key]).all() for key in one.feed)
    assert [one.step().tolist() for _ in range(2)] == [other.step().tolist() for _ in range(2)]


def test_without_the_tape_all_rows_are_numpys() -> None:
    with override(cpu_tape=False):
        model = training(WORKLOADS["tiny"], 2)
        model.step()
    plan = model.executor.plan(feed=model.feed, fetch_list=[model.loss])
    native, by_numpy = rows_by_lowering(latest_binding(model))
    assert native == 0 and by_numpy.total() == len(plan.rows) + len(plan.commit)
    assert by_numpy["mul"] == 4


def test_a_roofline_is_work_over_rates() -> None:
    roof = roofline("tiny", 2, seconds=0.0)
    assert roof.work.flops == FLOPS["tiny"]
    assert roof.floor == pytest.approx(roof.work.flops / roof.gemm + roof.work.nbytes / roof.copy)
    assert 0 < roof.best <= roof.median and roof.share == roof.floor / roof.median
    assert roof.share_of_one == roof.alone / roof.median > 0


def test_rates_count_what_is_done() -> None:
    done: list[int] = []

    def make() -> tuple[object, float]:
        return lambda: done.append(1), 3.0

    rate = machine.rate(make, threads=2, seconds=0.01)  # type: ignore[arg-type]
    assert 0 < rate < 3.0 * len(done) / 0.01
    assert machine.gemm_rate(1, 0.0) > 0 and machine.copy_rate(1 << 18, 2, 0.0) > 0


@pytest.mark.parametrize(
    ("nbytes", "threads", "expected"), [(100, 2, 1 << 18), (1 << 22, 2, 1 << 20), (1 << 40, 1, 1 << 26)]
)
def test_copies_are_as_large_as_a_threads_part_within_limits(nbytes: int, threads: int, expected: int) -> None:
    assert machine.copy_size(nbytes, threads) == expected


def test_growth_by_devices_and_by_ops() -> None:
    lines = by_devices((1, 3), seconds=0.0)
    assert [line.devices for line in lines] == [1, 3]
    assert all(line.threads <= line.devices and line.per_device == line.step / line.devices for line in lines)
    (short,) = by_ops((9,), seconds=0.0)
    assert short.ops == 9 and short.first > 0 and short.per_op == short.step / 9


def test_what_the_last_step_ran_is_known_after_a_drop_too() -> None:
    model = training(WORKLOADS["tiny"], 1)
    model.step()
    model.executor.drop_local_exe_scopes()
    assert latest_binding(model) in model.executor.inspection.bindings


def test_a_chain_has_so_many_ops() -> None:
    model = chain(7)
    assert model.step().shape == (1, 16)
    assert len(model.executor.graph(fetch_list=[model.loss]).nodes) - 1 <= 7  # ops may be joined; one fetch
    assert len(model.executor.inspection.program.global_block().ops) == 7


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_is_that_of_a_process_of_its_own() -> None:
    before, after = memory.peaks("tiny", 2)
    assert 4 << 20 < before < after
    assert memory.peak_in("Name:\tx\nVmHWM:\t    12 kB\nVmRSS:\t 3 kB\n") == 12 << 10
