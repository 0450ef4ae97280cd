"""A folder for a whole cluster: what several servers have written goes on at another number of servers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
from tests.servers.in_process import free_endpoints
from workbench import fluid
from workbench.checkpoint.files import write_tensors
from workbench.errors import InvalidArgument, PreconditionNotMet
from workbench.fluid.incubate.fleet.base.role_maker import Role, UserDefinedRoleMaker
from workbench.fluid.incubate.fleet.parameter_server.distribute_transpiler import FleetTranspiler, StrategyFactory
from workbench.parallel.servers.serving import server as serving
from workbench.runtime.servers.standing import leave_servers


@pytest.fixture(autouse=True)
def _static() -> Any:
    wb.enable_static()
    yield
    wb.disable_static()


HEIGHT, WIDTH = 20_000, 4
FEEDS = [
    {
        "x": np.random.default_rng(step).standard_normal((6, 200)).astype(np.float32),
        "ids": np.random.default_rng(step).integers(0, HEIGHT, 6),
    }
    for step in range(4)
]


def minimized(fleet: FleetTranspiler, mode: str) -> None:
    """Parameters in blocks and whole, a table that only servers have, state, a schedule, statistics of batches."""
    x, ids = fluid.data("x", [None, 200]), fluid.data("ids", [None], "int64")
    named = fluid.ParamAttr
    wide = fluid.layers.batch_norm(fluid.layers.fc(x, 100, param_attr=named(name="w"), bias_attr=named(name="b")))
    rows = fluid.embedding(ids, [HEIGHT, WIDTH], is_sparse=mode != "geo", param_attr=named(name="table"))
    loss = fluid.layers.mean(fluid.layers.square(fluid.layers.concat([wide, rows], 1)))
    rate = fluid.layers.exponential_decay(0.1, 1, 0.8)
    optimizer = fluid.optimizer.Adam(rate, lazy_mode=True)
    strategy = getattr(StrategyFactory, f"create_{mode}_strategy")(*[1] if mode == "geo" else [])
    fleet.distributed_optimizer(optimizer, strategy).minimize(loss)


class Cluster:
    """Servers on threads of this process, and the only trainer."""

    def __init__(self, servers: int, mode: str, folder: Path | None, trainers: int = 1) -> None:
        self.trainers = trainers
        self.endpoints, self.scopes = free_endpoints(servers), [fluid.Scope() for _ in range(servers)]
        self.servers = [self._member(Role.SERVER, index, mode) for index in range(servers)]
        for fleet, scope in zip(self.servers, self.scopes, strict=True):
            with fluid.scope_guard(scope):
                fleet.init_server(folder)
        self.threads = [
            threading.Thread(target=_serve, args=(fleet.main_program, scope), daemon=True)
            for fleet, scope in zip(self.servers, self.scopes, strict=True)
        ]
        self.trainer, self.executor = self._member(Role.WORKER, 0, mode), fluid.Executor()

    def _member(self, role: Role, index: int, mode: str) -> FleetTranspiler:
        fleet, main, startup = FleetTranspiler(), fluid.Program(), fluid.Program()
        main.random_seed = startup.random_seed = 7
        fleet.init(UserDefinedRoleMaker(index, role, self.trainers, self.endpoints))
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            minimized(fleet, mode)
        return fleet

    def step(self, number: int) -> np.ndarray:
        self.executor.run(self.trainer.main_program, feed=FEEDS[number])
        return np.array(fluid.global_scope().find_var("w").get_tensor())

    def whole(self) -> dict[str, np.ndarray]:
        """What all servers hold, blocks one below the other."""
        pieces: dict[str, dict[int, np.ndarray]] = {}
        for fleet, scope in zip(self.servers, self.scopes, strict=True):
            own = fleet.server_endpoints()[fleet.server_index()]
            for name, extent in fleet._transpiler._held_at(own).items():
                held = scope.find_var(name).get_tensor()
                pieces.setdefault(extent.variable, {})[extent.start] = np.array(held)
        return {name: np.concatenate([rows[start] for start in sorted(rows)]) for name, rows in pieces.items()}


def _serve(program: fluid.Program, scope: fluid.Scope) -> None:
    fluid.Executor().run(program, scope=scope)


@contextmanager
def cluster(servers: int, mode: str, folder: Path | None = None) -> Iterator[Cluster]:
    cluster = Cluster(servers, mode, folder)
    for thread in cluster.threads:
        thread.start()
    try:
        with fluid.scope_guard(fluid.Scope()):
            cluster.trainer.init_worker()
            if mode == "async":  # steps that end with their exchange can be compared one by one
                fluid.communicator.Communicator(cluster.trainer.main_program, mode=1).stop()
            cluster.executor.run(cluster.trainer.startup_program)
            if folder is not None:
                cluster.trainer.load_persistables(cluster.executor, folder)
            yield cluster
    finally:
        leave_servers()
        for thread in cluster.threads:
            thread.join(20)
    assert not any(thread.is_alive() for thread in cluster.threads)


def statistics(trainer: FleetTranspiler) -> dict[str, np.ndarray]:
    """What only the trainer has."""
    scope = fluid.global_scope()
    return {one.name: np.array(scope.find_var(one.name).get_tensor()) for one in trainer._of_trainers()}


@pytest.mark.filterwarnings("error:init_server")
@pytest.mark.parametrize("mode", ["sync", "async", "geo"])
def test_a_cluster_goes_on_at_another_number_of_servers(mode: str, tmp_path: Path) -> None:
    with cluster(2, mode) as first:
        for number in (0, 1):
            first.step(number)
        first.trainer.save_persistables(first.executor, tmp_path / "saved")
        saved, kept = first.whole(), statistics(first.trainer)
        expected = [first.step(number) for number in (2, 3)]
        at_end = first.whole()
    assert {path.name for path in (tmp_path / "saved").iterdir()} == {"manifest.json", "save-1"}
    assert mode == "geo" or any("moment1" in name for name in saved)
    assert any(name.startswith("batch_norm") for name in kept)
    with cluster(3, mode, tmp_path / "saved") as second:
        loaded = second.whole()
        assert loaded.keys() == saved.keys() and loaded["table"].shape == (HEIGHT, WIDTH)
        for name, value in saved.items():
            np.testing.assert_array_equal(loaded[name], value, err_msg=name)
        for name, value in statistics(second.trainer).items():
            np.testing.assert_array_equal(value, kept[name], err_msg=name)
        losses = [second.step(number) for number in (2, 3)]
        np.testing.assert_allclose(losses, expected, rtol=1e-5, atol=1e-6)
        for name, value in second.whole().items():
            np.testing.assert_allclose(value, at_end[name], rtol=1e-5, atol=1e-6, err_msg=name)


def test_a_schedule_goes_on_where_it_was_with_another_number_of_trainers(tmp_path: Path) -> None:
    with cluster(1, "async") as first:
        for number in (0, 1):
            first.step(number)
        first.trainer.save_persistables(first.executor, tmp_path)
        (steps,) = first.whole()["@LR_DECAY_COUNTER@.trainer_0"]
    for scope in Cluster(2, "async", tmp_path, trainers=3).scopes:
        counters = [scope.find_var(f"@LR_DECAY_COUNTER@.trainer_{trainer}") for trainer in range(3)]
        assert sum(int(np.array(counter.get_tensor()).item()) for counter in counters) == steps > 1


def test_a_save_that_one_server_cannot_write_leaves_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster(2, "sync") as running:
        running.step(0)
        running.trainer.save_persistables(running.executor, tmp_path)
        before = running.whole()
        running.step(1)

        def full(path: Path, tensors: Any) -> None:
            if path.name.startswith("part-1"):
                raise OSError(28, "No space left on device")
            write_tensors(path, tensors)

        monkeypatch.setattr(serving, "write_tensors", full)
        with pytest.raises(PreconditionNotMet, match=f"{running.endpoints[1]}.*No space"):
            running.trainer.save_persistables(running.executor, tmp_path)
        monkeypatch.undo()
        assert [path.name for path in tmp_path.glob("save-*")] == ["save-1"]
        with fluid.scope_guard(fluid.Scope()):
            origin = running.trainer._origin_program
            names = ["w", "b", "table"]
            fluid.io.load_vars(fluid.Executor(), tmp_path, origin, vars=names)  # into one process, whole
            for name in names:
                np.testing.assert_array_equal(np.array(fluid.global_scope().find_var(name).get_tensor()), before[name])
        running.trainer.save_persistables(running.executor, tmp_path)
        assert [path.name for path in tmp_path.glob("save-*")] == ["save-2"]


def test_what_was_written_last_of_a_variable_counts(tmp_path: Path) -> None:
    with cluster(1, "sync") as running:
        running.trainer.save_persistables(running.executor, tmp_path)
        origin, executor = running.trainer._origin_program, fluid.Executor()
        later = np.full((200, 100), 3, np.float32)
        with fluid.scope_guard(fluid.Scope()):
            fluid.global_scope().var("w").get_tensor().set(later, fluid.CPUPlace())
            fluid.io.save_vars(executor, tmp_path, origin, vars=["w"])
            fluid.io.load_vars(executor, tmp_path, origin, vars=["w"])
            assert np.array_equal(np.array(fluid.global_scope().find_var("w").get_tensor()), later)
        running.trainer.save_persistables(running.executor, tmp_path)
        with fluid.scope_guard(fluid.Scope()):
            fluid.io.load_vars(executor, tmp_path, origin, vars=["w"])
            value = np.array(fluid.global_scope().find_var("w").get_tensor())
            np.testing.assert_array_equal(value, running.whole()["w"])


def test_another_checkpoint_is_not_one_of_a_cluster(tmp_path: Path) -> None:
    wb.distributed.save_state_dict({"w": np.zeros((2, 2), np.float32)}, tmp_path)
    with pytest.raises(InvalidArgument, match="variables in pieces"):
        Cluster(1, "sync", tmp_path)
