"""Transpiled programs of every mode with servers on threads of this process, against the same steps in NumPy."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.servers.in_process import free_endpoints, running
from workbench import events, fluid
from workbench.checkpoint.files import read_tensors
from workbench.executors.running.engine.step_runner import StepRunner
from workbench.framework.program.program import Program
from workbench.parallel.servers.asking.links import checkpoint_servers
from workbench.parallel.transpiler.config import DistributeTranspilerConfig
from workbench.parallel.transpiler.distribute_transpiler import DistributeTranspiler
from workbench.runtime.storage.scope import Scope


@pytest.fixture(autouse=True)
def _static() -> Any:
    wb.enable_static()
    yield
    wb.disable_static()


ROWS, WIDTH = 200, 90
X = np.random.default_rng(0).standard_normal((4, ROWS)).astype(np.float32)
START = np.random.default_rng(1).standard_normal((ROWS, WIDTH)).astype(np.float32)


def dense_model(optimizer: Any) -> Any:
    x = fluid.data("x", [None, ROWS])
    start = fluid.initializer.NumpyArrayInitializer(START)
    y = fluid.layers.fc(x, WIDTH, param_attr=fluid.ParamAttr(name="w", initializer=start), bias_attr=False)
    loss = fluid.layers.mean(y)
    optimizer().minimize(loss)
    return loss


GRADIENT = np.repeat(X.mean(0)[:, None] / WIDTH, WIDTH, axis=1)  # of the mean of all outputs


class Trainer:
    """One trainer's programs and what it holds; `transpiler` knows the servers' programs."""

    def __init__(
        self, number: int, trainers: int, endpoints: Sequence[str], sync: bool, model: Any, config: Any
    ) -> None:
        main, startup = Program(), Program()
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            self.loss = model()
        self.transpiler = DistributeTranspiler(config)
        self.transpiler.transpile(number, main, ",".join(endpoints), trainers, sync, startup)
        self.main, self.startup, self.scope = self.transpiler.get_trainer_program(False), startup, Scope()
        self.executor = fluid.Executor()

    def begin(self) -> None:
        self.executor.run(self.startup, scope=self.scope)

    def step(self, feed: Any = None, fetch: Any = "w") -> Any:
        feed = {"x": X} if feed is None else feed
        return self.executor.run(self.main, feed=feed, fetch_list=[fetch], scope=self.scope)[0]


@contextmanager
def job(
    model: Any, sync: bool, trainers: int = 1, servers: int = 2, **config: Any
) -> Iterator[tuple[list[Trainer], list[Scope]]]:
    endpoints = free_endpoints(servers)
    chosen = DistributeTranspilerConfig()
    chosen.sync_mode = config.pop("sync_mode", sync)
    for name, value in config.items():
        setattr(chosen, name, value)
    members = [Trainer(number, trainers, endpoints, sync, model, chosen) for number in range(trainers)]
    with running([members[0].transpiler.get_pserver_programs(endpoint) for endpoint in endpoints]) as scopes:
        for member in members:
            member.begin()
        yield members, scopes


def sgd() -> Any:
    return fluid.optimizer.SGD(0.1)


@pytest.mark.parametrize("sync", [True, False])
def test_T2_a_parameter_in_blocks_on_two_servers_trains(sync: bool) -> None:
    with job(lambda: dense_model(sgd), sync) as ((trainer,), scopes):
        assert np.array_equal(trainer.scope.find_var("w").get_tensor().array, START)  # T-6
        for step in (1, 2, 3):
            assert np.allclose(trainer.step(), START - 0.1 * step * GRADIENT, atol=1e-6)
        blocks = [scope.find_var(f"w.block{i}") for scope in scopes for i in (0, 1)]
        held = [block.get_tensor().array for block in blocks if block is not None]
        assert sorted(array.shape for array in held) == [(100, WIDTH), (100, WIDTH)]


def test_T5_two_asynchronous_trainers_take_turns() -> None:
    with job(lambda: dense_model(sgd), False, trainers=2) as ((one, two), _):
        for step in (1, 2, 3):
            assert np.allclose(one.step(), START - 0.1 * (2 * step - 1) * GRADIENT, atol=1e-6)
            assert np.allclose(two.step(), START - 0.1 * 2 * step * GRADIENT, atol=1e-6)


def both_step(one: Trainer, two: Trainer, beside: ThreadPoolExecutor) -> list[np.ndarray]:
    """A step of each of two trainers that wait for each other."""
    other = beside.submit(two.step)
    return [one.step(), other.result(60)]


def halved() -> Any:
    return fluid.optimizer.SGD(fluid.layers.exponential_decay(0.1, 1, 0.5))


BY_COMMUNICATOR = {"runtime_split_send_recv": True, "half_async": True, "completely_not_async": True}


@pytest.mark.filterwarnings("ignore:.*set both")
def test_T5_trainers_that_do_not_wait_have_each_gradient_applied_as_it_comes_whatever_the_config() -> None:
    """`transpile(sync_mode=False)` alone, as programs of 1.5 have it: 1.8.5's servers wait for ever."""
    with job(lambda: dense_model(sgd), False, trainers=2, sync_mode=True) as ((one, two), _):
        for step, trainer in enumerate((one, one, two, one, two), 1):
            assert np.allclose(trainer.step(), START - 0.1 * step * GRADIENT, atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*set both")
def test_T5_trainers_that_wait_have_the_mean_of_their_gradients_applied_whatever_the_config() -> None:
    """`config.sync_mode=False` alone: 1.8.5's servers refuse the barrier."""
    told = {"sync_mode": False}
    with job(lambda: dense_model(halved), True, trainers=2, **told) as ((one, two), _), ThreadPoolExecutor(1) as beside:
        for rates in (0.1, 0.15, 0.175):
            for now in both_step(one, two, beside):
                assert np.allclose(now, START - rates * GRADIENT, atol=1e-6)


def test_T7_a_rate_falls_by_the_steps_of_all_trainers_together_where_servers_wait_for_them() -> None:
    """The programs have a counter for each trainer, as in 1.8.5, where the rate falls twice as fast."""
    config = {"sync_mode": False, **BY_COMMUNICATOR}
    model = lambda: dense_model(halved)  # noqa: E731
    with job(model, False, trainers=2, **config) as ((one, two), _), ThreadPoolExecutor(1) as beside:
        for rates in (0.1, 0.15, 0.175):
            for now in both_step(one, two, beside):
                assert np.allclose(now, START - rates * GRADIENT, atol=1e-6)


@pytest.mark.filterwarnings("ignore:.*set both")
@pytest.mark.parametrize(
    ("waits", "config"), [(True, {"sync_mode": False}), (False, {"sync_mode": True}), (False, BY_COMMUNICATOR)]
)
def test_T7_a_rate_of_one_trainer_falls_from_its_first_step_on(waits: bool, config: Any) -> None:
    with job(lambda: dense_model(halved), waits, **config) as ((trainer,), _):
        for rates in (0.1, 0.15, 0.175):
            assert np.allclose(trainer.step(), START - rates * GRADIENT, atol=1e-6)


def discard_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next step of this thread that is ready to be applied is interrupted."""
    commit, thread = StepRunner.commit, threading.current_thread()

    def interrupted(*given: Any) -> None:
        if threading.current_thread() is not thread:  # that of a server, or of another trainer
            commit(*given)
            return
        monkeypatch.setattr(StepRunner, "commit", commit)
        raise KeyboardInterrupt

    monkeypatch.setattr(StepRunner, "commit", interrupted)


@pytest.mark.parametrize("sync", [True, False])
def test_a_step_that_servers_took_and_the_trainer_discarded_is_applied_once(
    sync: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with job(lambda: dense_model(sgd), sync) as ((trainer,), _):
        trainer.step()
        for _ in range(2):
            discard_once(monkeypatch)
            with pytest.raises(KeyboardInterrupt):
                trainer.step()
            held = trainer.scope.find_var("w").get_tensor().array
            assert np.allclose(held, START - 0.1 * GRADIENT, atol=1e-6)
        for step in (2, 3):
            assert np.allclose(trainer.step(), START - 0.1 * step * GRADIENT, atol=1e-6)


def test_a_discarded_step_of_one_synchronous_trainer_keeps_both_at_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    with job(lambda: dense_model(sgd), True, trainers=2) as ((one, two), _), ThreadPoolExecutor(1) as beside:
        other = beside.submit(lambda: [two.step() for _ in range(3)])
        discard_once(monkeypatch)
        with pytest.raises(KeyboardInterrupt):
            one.step()
        steps, others = [one.step() for _ in range(3)], other.result(60)
        for number, (mine, theirs) in enumerate(zip(steps, others), 1):
            assert np.allclose(mine, START - 0.1 * number * GRADIENT, atol=1e-6) and np.array_equal(mine, theirs)


@pytest.mark.parametrize("sync", [True, False])
def test_a_step_with_a_nan_in_it_is_stopped_before_it_is_pushed(sync: bool) -> None:
    with job(lambda: dense_model(sgd), sync) as ((trainer,), _):
        trainer.step()
        compiled = trainer.executor.compiled(trainer.main, trainer.scope)

        def stop(take: Any) -> None:
            raise FloatingPointError("made to stop")

        dismiss = compiled.inspection.guard(stop)
        with pytest.raises(FloatingPointError, match="made to stop"):
            trainer.step({"x": np.full_like(X, np.nan)})
        dismiss()
        assert np.allclose(trainer.step(), START - 0.1 * 2 * GRADIENT, atol=1e-6)


@pytest.mark.parametrize("sync", [True, False])
def test_T7_schedules_and_state_of_optimizers_are_the_servers(sync: bool) -> None:
    def momentum() -> Any:
        return fluid.optimizer.Momentum(fluid.layers.exponential_decay(0.1, 1, 0.5), 0.9)

    with job(lambda: dense_model(momentum), sync) as ((trainer,), scopes):
        values = [trainer.step() for _ in range(3)]
        rates = [scope.find_var("@LR_DECAY_COUNTER@").get_tensor().array for scope in scopes]
        assert not any("velocity" in name for name in trainer.scope.local_var_names())
    w, velocity = START.astype(np.float64), np.zeros_like(START, np.float64)
    first = int(rates[0][0]) - 2  # of the first step; asynchronous counters begin elsewhere
    for step, now in enumerate(values):
        velocity = 0.9 * velocity + GRADIENT
        w = w - 0.1 * 0.5 ** (first + step) * velocity
        assert np.allclose(now, w, atol=1e-5)
    assert rates[0] == rates[1] and (first == 0 or not sync)


def test_T7_a_scheduler_of_a_trainer_sets_the_rate_at_the_servers() -> None:
    schedule = wb.optimizer.lr.StepDecay(0.1, 1, 0.5)
    model = lambda: dense_model(lambda: wb.optimizer.SGD(schedule))  # noqa: E731
    with job(model, True) as ((trainer,), _):
        trainer.step()
        schedule.step()
        assert np.allclose(trainer.step(), START - (0.1 + 0.05) * GRADIENT, atol=1e-6)


def test_T7_a_clip_by_the_norm_of_all_gradients_is_the_servers() -> None:
    """One block of the server is for two gradients of different shapes."""

    def clipped() -> Any:
        start = fluid.initializer.NumpyArrayInitializer(START)
        y = fluid.layers.fc(fluid.data("x", [None, ROWS]), WIDTH, param_attr=fluid.ParamAttr("w", start), bias_attr="b")
        fluid.optimizer.SGD(0.1, grad_clip=fluid.clip.GradientClipByGlobalNorm(0.01)).minimize(fluid.layers.mean(y))

    with job(clipped, True, servers=1) as ((trainer,), _):
        w, b = trainer.step(), trainer.scope.find_var("b").get_tensor().array
    share = 0.01 / np.sqrt((GRADIENT**2).sum() + 1 / WIDTH)
    assert np.allclose(w, START - 0.1 * share * GRADIENT, rtol=0, atol=1e-7)
    assert np.allclose(b, np.full(WIDTH, -0.1 * share / WIDTH), rtol=1e-5)


def test_T12_a_late_gradient_is_corrected() -> None:
    with job(lambda: dense_model(sgd), False, trainers=2, enable_dc_asgd=True) as ((one, two), _):
        first = one.step()
        late = two.step()
    assert np.allclose(first, START - 0.1 * GRADIENT, atol=1e-6)
    expected = first - 0.1 * (GRADIENT + GRADIENT * GRADIENT * (first - START))
    assert np.allclose(late, expected, atol=1e-7)


def test_T12_a_late_gradient_decays_and_is_corrected_after_that() -> None:
    def decaying() -> Any:
        return fluid.optimizer.SGD(0.1, regularization=fluid.regularizer.L2Decay(0.2))

    with job(lambda: dense_model(decaying), False, trainers=2, enable_dc_asgd=True) as ((one, two), _):
        first = one.step()
        late = two.step()
    assert np.allclose(first, START - 0.1 * (GRADIENT + 0.2 * START), atol=1e-6)
    decayed = GRADIENT + 0.2 * first
    assert np.allclose(late, first - 0.1 * (decayed + decayed * decayed * (first - START)), atol=1e-6)


def test_geo_trainers_take_over_what_others_have_changed() -> None:
    config = {"geo_sgd_mode": True, "geo_sgd_need_push_nums": 2, "slice_var_up": True}
    with job(lambda: dense_model(sgd), False, trainers=2, **config) as ((one, two), _):
        assert np.allclose(one.step(), START - 0.1 * GRADIENT, atol=1e-6)  # by itself
        assert np.allclose(one.step(), START - 0.2 * GRADIENT, atol=1e-6)  # has pushed half of its change
        two.step()
        assert np.allclose(two.step(), START - (0.2 + 0.1) * GRADIENT, atol=1e-6)  # its own, and what one pushed
        one.step()
        third = START - (0.2 + 0.1 + 0.1 + 0.1) * GRADIENT  # four steps of its own, and what two pushed
        assert np.allclose(one.step(), third, atol=1e-6)


TABLE = np.random.default_rng(2).standard_normal((20_000, 4)).astype(np.float32)


def table_model(optimizer: Any = sgd, shape: Any = (None,), by: str = "is_sparse") -> Any:
    ids = fluid.data("ids", shape, "int64")
    start = fluid.initializer.NumpyArrayInitializer(TABLE)
    look_up = fluid.layers.embedding if len(shape) > 1 else fluid.embedding
    rows = look_up(
        ids, list(TABLE.shape), **{by: True},
        param_attr=fluid.ParamAttr(name="table", initializer=start),
    )  # fmt: skip
    loss = fluid.layers.mean(rows)
    optimizer().minimize(loss)
    return rows


@pytest.mark.parametrize(
    ("sync", "shape", "by"),
    [(True, (None,), "is_sparse"), (True, (None,), "is_distributed"), (False, (None, 1), "is_distributed")],
)
def test_tables_live_on_servers_and_rows_travel(sync: bool, shape: Any, by: str) -> None:
    ids = np.array([3, 19_999, 3, 12_345])
    expected = TABLE.copy()
    with job(lambda: table_model(shape=shape, by=by), sync) as ((trainer,), scopes):
        for _ in range(3):
            rows = trainer.step({"ids": ids.reshape(-1, *shape[1:])}, trainer.loss)
            assert np.allclose(rows, expected[ids], atol=1e-6)
            np.subtract.at(expected, ids, 0.1 / rows.size)
        parts = [scope.find_var(f"table.block{i}") for i, scope in enumerate(scopes)]
        held = np.concatenate([part.get_tensor().array for part in parts if part is not None])
        table = trainer.scope.find_var("table")
        assert table is None or not table.get_tensor().initialized
    assert np.allclose(held, expected, atol=1e-6)


def test_devices_of_a_trainer_exchange_once() -> None:
    with job(lambda: dense_model(sgd), True) as ((trainer,), _):
        compiled = fluid.CompiledProgram(trainer.main).with_data_parallel(
            trainer.loss.name, places=wb.static.cpu_places(2)
        )
        trainer.main = compiled
        for step in (1, 2, 3):
            both = trainer.step()  # the halves of the batch have different gradients
            assert np.allclose(both, np.tile(START - 0.1 * step * GRADIENT, (2, 1)), atol=1e-6)


def test_a_trainer_has_all_servers_write_their_checkpoints(tmp_path: Path) -> None:
    wb.set_flags({"FLAGS_server_checkpoint": str(tmp_path)})
    try:
        with job(lambda: dense_model(sgd), True) as ((trainer,), _):
            before = trainer.step()
            checkpoint_servers()
        assert len(list(tmp_path.iterdir())) == 2
    finally:
        wb.set_flags({"FLAGS_server_checkpoint": ""})
    kept = [read_tensors(path)[0] for path in tmp_path.iterdir()]
    blocks = {name: array for one in kept for name, array in one.items() if name.startswith("w.block")}
    assert np.array_equal(np.concatenate([blocks["w.block0"], blocks["w.block1"]]), before)


GEO = {"geo_sgd_mode": True, "slice_var_up": True}


class GeoOfNumPy:
    """Geo-SGD of a table, as its paper has it: trainers step by themselves and exchange every so many steps.

    A row that neither has changed since the last exchange must not matter.
    """

    def __init__(self, trainers: int, every: int) -> None:
        self.server = TABLE.astype(np.float64)
        self.own = [self.server.copy() for _ in range(trainers)]
        self.known = [self.server.copy() for _ in range(trainers)]
        self.steps, self.trainers, self.every = [0] * trainers, trainers, every

    def step(self, trainer: int, ids: np.ndarray) -> None:
        own, known = self.own[trainer], self.known[trainer]
        np.subtract.at(own, ids, 0.1 / (ids.size * own.shape[1]))
        self.steps[trainer] += 1
        if self.steps[trainer] % self.every == 0:
            change = (own - known) / self.trainers
            self.server += change
            own += self.server - (known + change)
            known[:] = self.server


@pytest.mark.parametrize("every", [1, 2])
def test_geo_pushes_and_pulls_the_rows_of_tables_that_have_changed(every: int) -> None:
    chance, expected = np.random.default_rng(3), GeoOfNumPy(2, every)
    moved: list[events.Exchanged] = []
    with (
        job(table_model, False, trainers=2, geo_sgd_need_push_nums=every, **GEO) as (members, scopes),
        events.subscribe(moved.append, events.Exchanged),
    ):
        for _ in range(3 * every):
            for number, trainer in enumerate(members):
                ids = np.concatenate([chance.integers(0, len(TABLE), 4), [7, 7]])  # 7 is everybody's, and twice
                table = trainer.step({"ids": ids}, "table")
                expected.step(number, ids)
                assert np.allclose(table, expected.own[number], atol=1e-6)
        parts = [scope.find_var(f"table.block{i}") for i, scope in enumerate(scopes)]
        held = np.concatenate([part.get_tensor().array for part in parts if part is not None])
    assert np.allclose(held, expected.server, atol=1e-6)
    assert len(moved) == 2 * 3 * 2 and max(max(one.pushed, one.pulled) for one in moved) < TABLE.nbytes / 100


def test_geo_steps_that_are_discarded_change_the_rows_of_tables_once(monkeypatch: pytest.MonkeyPatch) -> None:
    expected, ids = GeoOfNumPy(1, 2), np.array([5, 19_000, 5])
    with job(table_model, False, geo_sgd_need_push_nums=2, **GEO) as ((trainer,), _):
        for step in range(6):
            if step % 3:
                discard_once(monkeypatch)
                with pytest.raises(KeyboardInterrupt):
                    trainer.step({"ids": ids}, "table")
            table = trainer.step({"ids": ids}, "table")
            expected.step(0, ids)
            assert np.allclose(table, expected.own[0], atol=1e-6)
