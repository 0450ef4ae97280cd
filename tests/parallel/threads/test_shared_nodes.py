"""Threads that share the nodes of one device: results are those of one thread, and so are errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.parallel.models import Model, build
from tests.parallel.observe import binding_of, bits, held
from tests.planning.stage_checkers import check_stages
from tests.planning.zoo import ZOO, integers
from workbench import events, static
from workbench.config import override
from workbench.errors import ExecutionError, InvalidArgument
from workbench.executors.lowering import programs
from workbench.executors.lowering.tape import team
from workbench.executors.lowering.tape.segment import Segment
from workbench.executors.planning import schedule, shares
from workbench.executors.profiling.sums import op_types
from workbench.executors.running.team_trial import TeamTrial, TeamTrials
from workbench.runtime.native import library


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Whatever divides is shared, on a machine of many processors; every other step is run by a team."""
    for name, value in {"BLOCK": 1e-12, "LEAST": 1, "MEETING": 0.0, "START": 0.0, "MARGIN": 1.0}.items():
        monkeypatch.setattr(shares, name, value)
    monkeypatch.setattr(shares, "shared_schedule", lambda *_: None)
    monkeypatch.setattr(programs, "_SHORT", -1.0)
    monkeypatch.setattr(schedule, "processors", lambda: 64)
    monkeypatch.setattr(TeamTrial, "end", lambda self, _: setattr(self, "together", not self.together))
    with override(cpu_tape=True):
        if library.kernels() is None:
            pytest.skip(f"no compiled kernels: {library.why_not()}")
        yield


F = wb.nn.functional


def with_threads(model: Model, count: int, devices: int = 1) -> Any:
    strategy = static.ExecutionStrategy()
    strategy.num_threads = count
    return model.parallel(devices, exec_strategy=strategy)


def labelled(width: int = 64, classes: int = 10) -> Model:
    def body() -> Any:
        x, y = static.data("x", [None, width]), static.data("y", [None, 1], "int64")
        h = static.nn.fc(x, 96, activation="gelu")
        return wb.mean(F.softmax_with_cross_entropy(static.nn.fc(h, classes), y))

    return build(body, wb.optimizer.Adam(0.01))


def batch(rows: int, classes: int = 10) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(rows)
    return {"x": rng.standard_normal((rows, 64), dtype=np.float32), "y": integers(classes, rows, 1)}


@pytest.mark.parametrize("name", sorted(name for name, animal in ZOO.items() if animal.optimizer is not None))
def test_bits_do_not_depend_on_the_threads(name: str) -> None:
    results, seen = [], ZOO[name].feed(48, 24)
    for count in (1, 2, 3, 8, 32):
        model = ZOO[name].model().start()
        exe = with_threads(model, count)
        losses = [bits(exe.run([model.loss], feed=seen)) for _ in range(4)]
        results.append((losses, held(exe, model.main)))
        assert count == 1 or len(binding_of(exe, [model.loss.name], seen).speculative) > 1
    assert all(one == results[0] for one in results)


def images() -> Model:
    """Convolutions and pooling in every form that has kernels, with enough to do to be divided."""

    def body() -> Any:
        x, y = static.data("x", [None, 3, 16, 16]), static.data("y", [None, 1], "int64")
        h = static.nn.conv2d(x, 16, 3, padding=1, act="relu")
        h = static.nn.batch_norm(static.nn.conv2d(h, 24, 5, padding=2, bias_attr=False))
        h = F.max_pool2d(h, 2) + F.avg_pool2d(h, 3, stride=2, padding=1)
        h = F.max_pool2d(static.nn.conv2d(h, 40, 3, stride=2, padding=1, act="relu"), 3, stride=1, padding=1)
        h = static.nn.conv2d(h, 10, 1)
        return wb.mean(F.softmax_with_cross_entropy(static.nn.fc(h, 3), y))

    return build(body, wb.optimizer.Momentum(0.001, 0.9))


def few_pixels() -> Model:
    """Convolutions of images so small that samples are columns of one product."""

    def body() -> Any:
        x, y = static.data("x", [None, 32, 4, 4]), static.data("y", [None, 1], "int64")
        h = static.nn.conv2d(x, 64, 3, stride=2, padding=1, act="relu")
        h = static.nn.conv2d(static.nn.conv2d(h, 72, 3, padding=1, act="relu"), 80, 1)
        return wb.mean(F.softmax_with_cross_entropy(static.nn.fc(h, 3), y))

    return build(body, wb.optimizer.Momentum(0.001, 0.9))


@pytest.mark.parametrize(("images", "sample"), [(images, (3, 16, 16)), (few_pixels, (32, 4, 4))])
def test_images_are_shared_sample_by_sample(images: Callable[[], Model], sample: tuple[int, ...]) -> None:
    rng, results = np.random.default_rng(0), []
    feed = {"x": rng.standard_normal((64, *sample), dtype=np.float32), "y": integers(3, 64, 1)}
    for count in (1, 2, 8):
        model = images().start()
        exe = with_threads(model, count)
        losses = [bits(exe.run([model.loss], feed=feed)) for _ in range(4)]
        results.append((losses, held(exe, model.main)))
    assert results[1] == results[0] and results[2] == results[0]
    values = model.values()
    with override(cpu_tape=False):
        model = images().start()
        exe = with_threads(model, 1)
        for _ in range(4):
            exe.run([model.loss], feed=feed)
    for name, right in model.values().items():
        np.testing.assert_allclose(values[name], right, rtol=2e-3, atol=2e-5, err_msg=name)


@pytest.mark.parametrize("devices", [1, 3])
def test_nor_where_sizes_change_from_step_to_step(devices: int) -> None:
    results = []
    for count in (1, 4):
        model = labelled().start()
        exe = with_threads(model, count, devices)
        losses = [bits(exe.run([model.loss], feed=batch(rows))) for rows in (150, 180, 201, 222, 183, 150, 240, 201)]
        results.append((losses, held(exe, model.main)))
    assert results[0] == results[1]


def test_memory_is_that_of_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "LATE", 1.0)
    plans = []
    for count in (1, 8):
        model = ZOO["sequences"].model().start()
        exe, seen = with_threads(model, count), ZOO["sequences"].feed(48, 24)
        plans.append(binding_of(exe, [model.loss.name], seen).plan)
    assert plans[0].sizes == plans[1].sizes
    assert plans[0].shares.threads == 1 and plans[1].shares.threads == 8


def layers(count: int, optimizer: Any, heads: int = 1) -> Model:
    """Products one behind the other, the last of which all `heads` of a loss read."""

    def body() -> Any:
        h = static.data("x", [None, 64])
        for _ in range(count):
            h = static.nn.fc(h, 32, activation="relu")
        return wb.mean(sum((static.nn.fc(h, 32) for _ in range(heads - 1)), static.nn.fc(h, 32)) ** 2)

    return build(body, optimizer)


@pytest.fixture
def undivided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes are not divided, but for results that may be late."""
    monkeypatch.setattr(shares, "BLOCK", 1.0)
    monkeypatch.setattr(shares, "LATE", 0.0)


@pytest.mark.usefixtures("undivided")
@pytest.mark.parametrize("clip", [None, wb.nn.ClipGradByGlobalNorm(0.1)], ids=["plain", "clipped"])
def test_gradients_of_parameters_are_left_to_others(clip: Any) -> None:
    results, seen = [], {"x": batch(16)["x"]}
    for count in (1, 2, 3, 8, 32):
        model = layers(12, wb.optimizer.Momentum(0.01, grad_clip=clip), heads=2).start()
        exe = with_threads(model, count)
        losses = [bits(exe.run([model.loss], feed=seen)) for _ in range(5)]
        results.append((losses, held(exe, model.main)))
    assert all(one == results[0] for one in results)
    plan = binding_of(exe, [model.loss.name], seen).plan
    late = {value.name for values in plan.shares.late.values() for value in values}
    weights = {p.name for p in model.main.all_parameters() if p.name.endswith("w_0")}
    soon = {f"fc_{n}.w_0@GRAD" for n in range(3)}  # their update follows
    assert {f"{name}@GRAD" for name in weights} - soon <= late and not plan.shares.blocks
    check_stages(plan)
    told: list[events.OpRun] = []
    with events.subscribe(lambda e: told.append(e) if isinstance(e, events.OpRun) else None):
        for _ in range(2):
            exe.run([], feed=seen)
    assert {e.op.type for e in told if e.thread} == {"mul_grad"} and ", 1 late mul_grad" in str(plan)


@pytest.mark.usefixtures("undivided")
def test_what_late_results_are_made_of_is_kept_for_a_few_of_them_only() -> None:
    rows, sizes = 256, []
    for threads in (1, 2):
        model = layers(40, wb.optimizer.SGD(0.01)).start()
        plan = binding_of(with_threads(model, threads), [model.loss.name], {"x": batch(rows)["x"]}).plan
        sizes.append(plan.nbytes)
    assert len(plan.shares.late) > 30
    assert sizes[1] - sizes[0] < 10 * rows * 32 * 4


@pytest.mark.usefixtures("undivided")
def test_where_no_helper_is_there_nothing_is_left_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not made where it is left stays missing here, so that a step would wait for it in vain."""
    finish = team.ThreadTeam.finish

    def only_wait(self: team.ThreadTeam, late: team.LateRow) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(team.ThreadTeam, "_make", lambda *_: None)
            finish(self, late)

    monkeypatch.setattr(team.ThreadTeam, "finish", only_wait)
    monkeypatch.setattr(TeamTrial, "begin", lambda self, _: setattr(self, "together", False))
    results, seen = [], {"x": batch(16)["x"]}
    for count in (1, 3):
        strategy = static.ExecutionStrategy()
        strategy.num_threads, strategy.timeout = count, 5.0
        model = layers(12, wb.optimizer.SGD(0.01)).start()
        exe = model.parallel(1, exec_strategy=strategy)
        results.append([bits(exe.run([model.loss], feed=seen)) for _ in range(4)] + [held(exe, model.main)])
    assert results[0] == results[1]
    assert binding_of(exe, [model.loss.name], seen).plan.shares.late


@pytest.mark.parametrize("row", [0, 199])
def test_an_error_in_a_block_names_the_op_and_leaves_everything_as_it_was(row: int) -> None:
    """The first block is the caller's thread's, the last one that of another."""
    model = labelled().start()
    exe, good = with_threads(model, 4), batch(200)
    bad = {**good, "y": good["y"].copy()}
    bad["y"][row] = 10
    for _ in range(4):
        exe.run([model.loss], feed=good)
        before = held(exe, model.main)
        with pytest.raises(InvalidArgument, match="softmax_with_cross_entropy"):
            exe.run([model.loss], feed=bad)
        assert held(exe, model.main) == before


def test_all_threads_have_blocks_and_observers_are_told_by_whom() -> None:
    model = labelled().start()
    exe, seen = with_threads(model, 2), batch(400)
    exe.run([], feed=seen)
    exe.run([], feed=seen)
    told: list[events.OpRun] = []
    with events.subscribe(lambda e: told.append(e) if isinstance(e, events.OpRun) else None):
        exe.run([], feed=seen)
    assert {e.thread for e in told if "mul" in e.op.type} == {0, 1}
    binding = binding_of(exe, [], seen)
    assert [len(program.units) for program in binding.speculative] == [1, 1] == [len(p.units) for p in binding.commit]


def test_a_shared_op_is_one_call_of_a_profile() -> None:
    model = labelled().start()
    exe, seen = with_threads(model, 2), batch(400)
    for _ in range(2):
        exe.run([], feed=seen)
    with wb.profiler.profile() as profile:
        exe.run([], feed=seen)
    runs = [e for e in profile.events if isinstance(e, events.OpRun) and e.op.type == "mul"]
    (line,) = (line for line in op_types(profile.events) if line.name == "mul")
    assert len(runs) > 2 and line.calls == 2


def test_a_step_of_small_nodes_stays_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(schedule, "processors", lambda: 8)
    model = labelled().start()
    exe = with_threads(model, 8)
    for _ in range(3):
        exe.run([model.loss], feed=batch(8))
    binding = binding_of(exe, [model.loss.name], batch(8))
    assert binding.plan.shares.threads == binding.plan.schedule.threads == 1
    assert exe.inspection.last_step.whole is not None


def test_two_devices_keep_a_thread_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(schedule, "processors", lambda: 2)
    model = labelled().start()
    plan = binding_of(with_threads(model, 4, 2), [model.loss.name], batch(4000)).plan
    assert plan.schedule.threads == 2 and plan.shares.threads == 1
    plan = binding_of(with_threads(model, 4, 1), [model.loss.name], batch(4000)).plan
    assert plan.schedule.threads == 1 and plan.shares.threads == 2


@pytest.mark.parametrize("devices", [1, 2])
def test_a_short_commit_is_one_threads(devices: int, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []
    for short in (1.0, 0.0):
        monkeypatch.setattr(programs, "_SHORT", short)
        model = labelled().start()
        binding = binding_of(with_threads(model, 2, devices), [model.loss.name], batch(4000))
        counts.append((len(binding.speculative), len(binding.commit)))
    assert counts == [(2, 1), (2, 2)]


class Clock:
    """A step that takes so long with a team, and so long without."""

    def __init__(self, together: int, alone: int) -> None:
        self.trial, self.times = TeamTrial(TeamTrials()), (alone, together)

    def run(self, steps: int) -> int:
        """How many of the steps were run by a team."""
        ways = []
        for _ in range(steps):
            ways.append(self.trial.together)
            self.trial.begin(0)
            self.trial.end(self.times[self.trial.together])
        return sum(ways)


def test_the_quicker_way_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert Clock(together=1, alone=2).run(1000) > 950
    assert Clock(together=2, alone=1).run(1000) < 50
    clock = Clock(together=1, alone=2)
    clock.run(100)
    clock.times = 1, 5  # other programs need the processors now
    assert clock.run(1000) < 160


@pytest.fixture
def labelled_by_others(monkeypatch: pytest.MonkeyPatch) -> tuple[Model, Any, dict[str, np.ndarray]]:
    """The caller's thread leaves to others what is theirs. A batch whose last label is none."""
    monkeypatch.setattr(team, "_leaders", lambda blocks, threads: list(team._own(0, blocks, threads)))
    monkeypatch.setattr(TeamTrial, "begin", lambda self, _: setattr(self, "together", True))
    monkeypatch.setattr(TeamTrial, "end", lambda self, _: None)  # alone it would have to do them all
    strategy = static.ExecutionStrategy()
    strategy.num_threads, strategy.timeout = 4, 10.0
    model, bad = labelled().start(), batch(200)
    bad["y"][199] = 10
    return model, model.parallel(1, exec_strategy=strategy), bad


def test_an_error_in_a_block_of_another_thread_is_told_at_once(labelled_by_others: Any) -> None:
    model, exe, bad = labelled_by_others
    for _ in range(3):
        exe.run([model.loss], feed=batch(200))
        before = held(exe, model.main)
        with pytest.raises(InvalidArgument, match="softmax_with_cross_entropy"):
            exe.run([model.loss], feed=bad)
        assert held(exe, model.main) == before


def test_nobody_waits_for_a_block_that_is_neither_done_nor_in_error(
    labelled_by_others: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, exe, bad = labelled_by_others
    exe.run([model.loss], feed=batch(200))
    monkeypatch.setattr(Segment, "_run_by_numpy", lambda self, mark: None)
    before = held(exe, model.main)
    with pytest.raises(ExecutionError, match="a kernel has declined a block"):
        exe.run([model.loss], feed=bad)
    assert held(exe, model.main) == before
