"""`wb.bench`: whose nodes it lists, what it says of those that fall short, and that training does not notice."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.native.one_row import kernels
from tests.parallel.models import Model, build, devices
from workbench import static
from workbench.config import override
from workbench.errors import InvalidType
from workbench.events import OpInfo
from workbench.experiments.bench.own_program import NOT_NATIVE, ONE_THREAD, Rates, _MeasuredStep, _node
from workbench.framework.values.place import CPUPlace

F = wb.nn.functional


@pytest.fixture(autouse=True)
def static_programs() -> Iterator[None]:
    wb.enable_static()
    yield
    wb.disable_static()


def network() -> Model:
    def body() -> Any:
        x, y = static.data("x", [None, 64]), static.data("y", [None, 1], "int64")
        h = F.dropout(static.nn.fc(x, 128, activation="relu"), 0.5)
        return wb.mean(F.softmax_with_cross_entropy(static.nn.fc(h, 10), y))

    return build(body, wb.optimizer.Adam(0.01))


def batch(rows: int = 32) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(rows)
    return {"x": rng.standard_normal((rows, 64), dtype=np.float32), "y": rng.integers(0, 10, (rows, 1))}


@pytest.mark.parametrize("devices", [1, 2])
def test_training_goes_on_as_if_nobody_had_measured(devices: int) -> None:
    losses = []
    for measured in (False, True):
        model = network().start()
        executor = model.parallel(devices)
        executor.run([model.loss], feed=batch())
        if measured:
            wb.bench(executor, batch(64), [model.loss], seconds=0.0)
        losses.append([executor.run([model.loss], feed=batch())[0].tolist() for _ in range(3)])
    assert losses[0] == losses[1]


def test_work_is_counted_as_with_a_pencil() -> None:
    model = network().start()
    roof = wb.bench(model.parallel(1), batch(), [model.loss], seconds=0.0)
    first, second = 2 * 32 * 64 * 128, 2 * 32 * 128 * 10
    assert roof.work.flops == 2 * first + 3 * second  # what is fed needs no gradient
    assert sum(node.flops for node in roof.nodes) == roof.work.flops
    assert roof.floor == pytest.approx(roof.work.flops / roof.gemm + roof.work.nbytes / roof.copy)
    assert 0 < roof.best <= roof.median and all(node.seconds > 0 for node in roof.nodes)
    distances = [node.seconds - node.floor for node in roof.nodes]
    assert distances == sorted(distances, reverse=True)


def chain_of_two(scope: static.Scope, **options: Any) -> tuple[Any, list[str]]:
    """An executor of tanh(x) * 2, and what to fetch of it."""
    main = static.Program()
    with static.program_guard(main):
        out = wb.tanh(static.data("x", [None, 1024])) * 2.0
    with devices(1):
        return static.ParallelExecutor(use_cuda=False, main_program=main, scope=scope, **options), [out.name]


def test_bytes_are_those_that_have_to_move() -> None:
    kernels()
    with override(cpu_tape=True):
        executor, fetches = chain_of_two(static.Scope())
        (node,) = wb.bench(executor, {"x": np.ones((64, 1024), np.float32)}, fetches, 0.0).nodes
    assert node.nbytes == 2 * 4 * 64 * 1024  # what lies between the two ops stays in registers
    assert node.floor > 0 and node.flops == 0


def test_calls_are_told_from_kernels() -> None:
    model = network().start()
    with override(cpu_tape=False):
        roof = wb.bench(model.parallel(1), batch(), [model.loss], seconds=0.0)
    assert roof.short and all(node.why[0] == NOT_NATIVE and ONE_THREAD not in node.why for node in roof.short)


def test_what_one_thread_does_alone_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    kernels()
    monkeypatch.setattr("workbench.experiments.bench.own_program.available", lambda _: 64)
    monkeypatch.setattr("workbench.experiments.bench.own_program._WORTH", 0.0)
    monkeypatch.setattr("workbench.experiments.bench.own_program._ENOUGH", float("inf"))
    strategy = static.ExecutionStrategy()
    strategy.num_threads = 1
    with override(cpu_tape=True):
        executor, fetches = chain_of_two(static.Scope(), exec_strategy=strategy)
        (node,) = wb.bench(executor, {"x": np.ones((8, 1024), np.float32)}, fetches, 0.0).nodes
    assert node.why[0] == ONE_THREAD


@pytest.mark.parametrize(
    ("seconds", "bytes_take", "native", "expected"),
    [
        (1.0, 0.9, True, ()), (1.0, 0.6, True, ("memory-bound",)), (1.0, 0.3, True, ("arithmetic",)),
        (1e-5, 1e-6, True, ("small",)), (1.0, 0.6, False, ("not native", "memory-bound")),
    ],
)  # fmt: skip
def test_why_a_node_falls_short(seconds: float, bytes_take: float, native: bool, expected: tuple[str, ...]) -> None:
    with override(cpu_tape=False):
        executor, fetches = chain_of_two(static.Scope())
        plan = executor.plan({"x": np.ones((8, 1024), np.float32)}, fetches)
    rows = plan.rows[:1]
    rates = Rates()
    rates.copy = lambda nbytes, threads: nbytes / bytes_take  # type: ignore[method-assign]
    rates.gemm = lambda threads: 1e9  # type: ignore[method-assign]
    info = OpInfo(0, "tanh", CPUPlace())
    step = _MeasuredStep(plan, {rows[0].node} if native else set(), 1, rates)
    assert _node(info, seconds, rows, step).why == expected


def test_it_reads_as_a_table() -> None:
    model = network().start()
    text = str(wb.bench(model.parallel(1), batch(), [model.loss], seconds=0.0))
    assert re.search(
        r"ms a step .* threads?: \d+% reached\n(one thread .* of that reached\n)?rates  [\d.,]+ GFLOP/s", text
    )
    assert re.search(
        r"^ +[\d.]+ +[\d.]+% +[\d.]+ +\d+%   mul\S* -> .*test_own_program.py, line \d+", text, re.MULTILINE
    )


def test_an_executor_measures_the_default_program_and_others_are_refused() -> None:
    with static.program_guard(static.Program(), static.Program()), static.scope_guard(static.Scope()):
        y = static.nn.fc(static.data("x", [None, 4]), 2)
        executor = static.Executor()
        executor.run(static.default_startup_program())
        roof = wb.bench(executor, {"x": np.ones((6, 4), np.float32)}, [y], seconds=0.0)
        assert roof.work.flops == 2 * 6 * 4 * 2
    with pytest.raises(InvalidType, match="bench takes a ParallelExecutor"):
        wb.bench(y)
