"""F-1 … F-6: fleets without servers, in one process (what takes several is in tests/processes/fleet/test_fleet.py)."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
import workbench.fluid as fluid
from workbench.errors import InvalidForm, InvalidType, PreconditionNotMet
from workbench.fluid.incubate.fleet.base.role_maker import UserDefinedCollectiveRoleMaker, UserDefinedRoleMaker
from workbench.fluid.incubate.fleet.collective import Collective, CollectiveOptimizer, DistributedStrategy, fleet
from workbench.framework.notice import Notice

TWO = ["127.0.0.1:6170", "127.0.0.1:6171"]
X = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)


@pytest.fixture(autouse=True)
def _afresh() -> Any:
    wb.enable_static()
    with (
        fluid.program_guard(fluid.Program(), fluid.Program()),
        fluid.unique_name.guard(),
        fluid.scope_guard(fluid.Scope()),
    ):
        yield
    wb.disable_static()


def alone() -> Collective:
    collective = Collective()
    collective.init(UserDefinedCollectiveRoleMaker(0, TWO[:1]))
    return collective


def one_of_two(index: int = 1) -> Collective:
    collective = Collective()
    collective.init(UserDefinedCollectiveRoleMaker(index, TWO))
    return collective


def model() -> Any:
    fluid.default_startup_program().random_seed = 3
    h = fluid.layers.fc(fluid.data("x", [None, 4]), 8, act="tanh")
    return h, fluid.layers.mean(fluid.layers.fc(h, 1))


def strategy(**fields: Any) -> DistributedStrategy:
    strategy = DistributedStrategy()
    for name, value in fields.items():
        setattr(strategy, name, value)
    return strategy


@pytest.mark.parametrize("method", ["init_worker", "run_worker", "init_server", "run_server", "stop_worker"])
def test_f1_these_methods_do_nothing_and_say_so(method: str) -> None:
    with pytest.warns(Notice, match=method):
        getattr(alone(), method)()


def test_f2_an_optimizer_becomes_one_of_the_fleet() -> None:
    optimizer = alone().distributed_optimizer(fluid.optimizer.SGD(0.1))
    assert isinstance(optimizer, CollectiveOptimizer) and isinstance(optimizer._strategy, DistributedStrategy)
    with pytest.raises(TypeError, match="optimizer"):
        alone().distributed_optimizer(3)
    with pytest.raises(TypeError, match="DistributedStrategy"):
        alone().distributed_optimizer(fluid.optimizer.SGD(0.1), fluid.BuildStrategy())


def test_f3_a_strategy_is_a_build_strategy_with_these_defaults() -> None:
    build_strategy = DistributedStrategy()
    assert isinstance(build_strategy, fluid.BuildStrategy) and isinstance(
        build_strategy.exec_strategy, fluid.ExecutionStrategy
    )
    wanted = {
        "use_local_sgd": False, "use_dist_fc": False, "dist_fc_config": None, "mode": "nccl2", "collective_mode": None,
        "nccl_comm_num": 1, "forward_recompute": False, "recompute_checkpoints": (), "use_amp": False,
        "amp_loss_scaling": 2**15,
    }  # fmt: skip
    assert {name: getattr(build_strategy, name) for name in wanted} == wanted
    assert DistributedStrategy().exec_strategy is not build_strategy.exec_strategy
    for name, wrong in (("mode", "pserver"), ("collective_mode", "all"), ("use_amp", 1), ("amp_loss_scaling", 0)):
        with pytest.raises(ValueError, match=name):
            setattr(build_strategy, name, wrong)
    with pytest.raises(TypeError, match="recompute_checkpoints"):
        build_strategy.recompute_checkpoints = [3]


def test_f4_minimize_gives_what_the_optimizer_gives_and_leaves_the_programs() -> None:
    collective = alone()
    _, loss = model()
    ops, pairs = collective.distributed_optimizer(fluid.optimizer.SGD(0.1)).minimize(loss)
    assert [op.type for op in ops] == ["sgd"] * 4 and pairs[0][0].name == "fc_0.w_0"
    assert isinstance(collective.main_program, fluid.CompiledProgram)
    assert collective.startup_program is fluid.default_startup_program()
    assert collective._origin_program is not collective._transpiled_program is fluid.default_main_program()
    with pytest.raises(InvalidType, match="loss"):
        collective.distributed_optimizer(fluid.optimizer.SGD(0.1)).minimize([loss])


def test_f4_settings_that_exclude_each_other() -> None:
    _, loss = model()
    collective = alone()
    with pytest.raises(AssertionError, match="use_dist_fc"):
        collective.distributed_optimizer(
            fluid.optimizer.SGD(0.1), strategy(use_local_sgd=True, use_dist_fc=True)
        ).minimize(loss)
    with pytest.raises(AssertionError, match="Lamb"):
        collective.distributed_optimizer(fluid.optimizer.LambOptimizer(0.1), strategy(use_local_sgd=True)).minimize(
            loss
        )
    with pytest.raises(InvalidForm, match="recompute_checkpoints"):
        collective.distributed_optimizer(fluid.optimizer.SGD(0.1), strategy(forward_recompute=True)).minimize(loss)
    with pytest.raises(NotImplementedError, match="use_dist_fc"):
        collective.distributed_optimizer(fluid.optimizer.SGD(0.1), strategy(use_dist_fc=True)).minimize(loss)
        fluid.Executor().run(fluid.default_startup_program())
        fluid.Executor().run(collective.main_program, feed={"x": X})


def test_f4_local_sgd_forces_its_mode() -> None:
    given = strategy(use_local_sgd=True)
    collective = one_of_two()
    collective.distributed_optimizer(fluid.optimizer.SGD(0.1), given).minimize(model()[1])
    assert (given.mode, given.collective_mode) == ("collective", "local_sgd")
    types = [op.type for op in collective.main_program.global_block().ops]
    assert isinstance(collective.main_program, fluid.Program) and "c_allreduce_sum" in types
    assert any("@SNAPSHOT" in v.name for v in collective.main_program.list_vars())


def trained(steps: int = 4, **fields: Any) -> list[Any]:
    """The losses, and what the parameters come to."""
    with (
        fluid.program_guard(fluid.Program(), fluid.Program()),
        fluid.unique_name.guard(),
        fluid.scope_guard(fluid.Scope()),
    ):
        collective = alone()
        h, loss = model()
        if fields.get("forward_recompute"):
            fields["recompute_checkpoints"] = [h]
        collective.distributed_optimizer(fluid.optimizer.SGD(0.1), strategy(**fields)).minimize(loss)
        executor = fluid.Executor()
        executor.run(collective.startup_program)
        losses = [executor.run(collective.main_program, feed={"x": X}, fetch_list=[loss])[0] for _ in range(steps)]
        names = [p.name for p in collective._origin_program.all_parameters()]
        return [*losses, *(np.array(fluid.global_scope().find_var(n).get_tensor()) for n in names)]


def test_f4_recompute_has_the_same_bits() -> None:
    for one, other in zip(trained(forward_recompute=True), trained()):
        np.testing.assert_array_equal(one, other)


def test_f4_amp_comes_close_and_has_a_factor() -> None:
    plain, half = trained(), trained(use_amp=True, amp_loss_scaling=128.0)
    both = trained(use_amp=True, amp_loss_scaling=128.0, forward_recompute=True)
    assert any((a != b).any() for a, b in zip(plain, half))
    for one, other in zip(plain, half):
        np.testing.assert_allclose(one, other, rtol=0.02, atol=2e-3)
    for one, other in zip(both, half):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("fields", "waits", "wanted"),
    [
        ({}, None, (2, 1)),
        ({"nccl_comm_num": 3}, None, (4, 3)),
        ({"nccl_comm_num": 3}, "0", (8, 3)),
        ({"nccl_comm_num": 3, "sync_batch_norm": True}, None, (1, 1)),
    ],
)
def test_f5_threads_and_communicators(
    fields: dict[str, Any], waits: str | None, wanted: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FLAGS_sync_nccl_allreduce", raising=False)
    if waits is not None:
        monkeypatch.setenv("FLAGS_sync_nccl_allreduce", waits)
    given = strategy(**fields)
    given.exec_strategy.num_threads = 8
    one_of_two().distributed_optimizer(fluid.optimizer.SGD(0.1), given).minimize(model()[1])
    assert (given.exec_strategy.num_threads, given.nccl_comm_num) == wanted


def test_f5_one_trainer_has_one_communicator() -> None:
    given = strategy(nccl_comm_num=3)
    with pytest.warns(Notice, match="nccl_comm_num"):
        alone().distributed_optimizer(fluid.optimizer.SGD(0.1), given).minimize(model()[1])
    assert given.nccl_comm_num == 1


def test_f5_nccl2_tells_the_strategy_who_trains() -> None:
    given = strategy(mode="nccl2", collective_mode="nccl2")  # as programs of Paddle write it
    collective = one_of_two(1)
    collective.distributed_optimizer(fluid.optimizer.SGD(0.1), given).minimize(model()[1])
    assert (given.num_trainers, given.trainer_id, list(given.trainers_endpoints)) == (2, 1, TWO)
    assert collective.startup_program.global_block().ops[-1].type == "gen_nccl_id"
    assert isinstance(collective.main_program, fluid.CompiledProgram)


def test_f5_collective_mode_gives_the_plain_program() -> None:
    collective = one_of_two()
    given = strategy(mode="collective", collective_mode="grad_allreduce")
    collective.distributed_optimizer(fluid.optimizer.SGD(0.1), given).minimize(model()[1])
    assert isinstance(collective.main_program, fluid.Program)
    assert [op.type for op in collective.main_program.global_block().ops].count("c_allreduce_sum") == 4
    assert "c_allreduce_sum" not in [op.type for op in collective._origin_program.global_block().ops]


def test_f6_save_persistables_and_inference_models(tmp_path: Path) -> None:
    collective = alone()
    h, loss = model()
    collective.distributed_optimizer(fluid.optimizer.Momentum(0.1, 0.9)).minimize(loss)
    executor = fluid.Executor()
    executor.run(collective.startup_program)
    collective.save_persistables(executor, str(tmp_path / "all"))
    names = {path.name for path in (tmp_path / "all").iterdir()}
    assert {"fc_0.w_0", "fc_0.w_0_velocity_0", "learning_rate_0"} < names and len(names) == 9
    collective.save_persistables(executor, tmp_path / "one", filename="file")
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["file"]
    collective.save_inference_model(executor, tmp_path / "model", ["x"], [h])
    assert {path.name for path in (tmp_path / "model").iterdir()} == {"__model__", "fc_0.w_0", "fc_0.b_0"}
    with pytest.raises(AssertionError, match="Executor"):
        collective.save_persistables("executor", tmp_path)
    with pytest.raises(AssertionError, match="Program"):
        collective.save_persistables(executor, tmp_path, main_program="main")
    with pytest.raises(TypeError, match="Program"):
        collective.save_persistables(executor, tmp_path, main_program=collective.main_program)


def test_fleet_init_takes_a_role_maker() -> None:
    for wrong in (None, 3):
        with pytest.raises(TypeError, match="role maker"):
            Collective().init(wrong)
    with pytest.raises(PreconditionNotMet, match=r"fleet\.init"):
        Collective().worker_num()


def test_fleet_says_who_is_who() -> None:
    collective = one_of_two()
    assert (
        collective.is_worker()
        and not collective.is_first_worker()
        and collective.worker_num() == 2
        and collective.worker_index() == 1
    )
    assert collective.worker_endpoints() == TWO and collective.worker_endpoints(to_string=True) == ",".join(TWO)
    assert (
        collective.server_num() == 0
        and collective.server_endpoints() == []
        and collective.server_endpoints(to_string=True) == ""
    )
    assert isinstance(fleet, Collective)


def test_fleet_split_files_gives_the_first_ones_one_more() -> None:
    files = ["a", "b", "c", "d", "e"]
    for workers in (1, 2, 3, 5, 7):
        parts = []
        for index in range(workers):
            collective = Collective()
            collective.init(UserDefinedRoleMaker(index, 1, workers, ["127.0.0.1:6001"]))
            parts.append(collective.split_files(files))
        assert [file for part in parts for file in part] == files
        assert [len(p) for p in parts] == sorted((len(p) for p in parts), reverse=True)
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert one_of_two(0).split_files(files) == ["a", "b", "c"] and one_of_two(1).split_files(files) == ["d", "e"]
    with pytest.raises(TypeError, match="list"):
        one_of_two().split_files("abc")


def test_a_minimize_that_fails_leaves_the_programs_as_they_were() -> None:
    _, loss = model()
    programs = fluid.default_main_program(), fluid.default_startup_program()
    before = [str(program) for program in programs]
    optimizer = fluid.optimizer.Momentum(0.1, 0.9)
    collective = one_of_two()
    with pytest.raises(ValueError, match="collective_mode"):
        collective.distributed_optimizer(optimizer, strategy(mode="collective", use_amp=True)).minimize(loss)
    assert [str(program) for program in programs] == before and collective.main_program is None
    collective.distributed_optimizer(optimizer, strategy(mode="collective", collective_mode="grad_allreduce")).minimize(
        loss
    )
    assert len([v for v in programs[0].persistables() if "velocity" in v.name]) == 4


def test_what_only_the_executors_exchange_reads_is_told_in_mode_collective() -> None:
    given = strategy(use_local_sgd=True, sync_batch_norm=True, fuse_all_reduce_ops=False)
    given.exec_strategy.num_threads = 7
    with pytest.warns(Notice, match="no effect in mode 'collective'") as told:
        one_of_two().distributed_optimizer(fluid.optimizer.SGD(0.1), given).minimize(model()[1])
    assert sorted(str(one.message).split()[0] for one in told) == [
        "DistributedStrategy.fuse_all_reduce_ops", "DistributedStrategy.sync_batch_norm",
        "ExecutionStrategy.num_threads",
    ]  # fmt: skip


def test_a_distributed_fc_is_refused_in_mode_collective() -> None:
    given = strategy(mode="collective", collective_mode="grad_allreduce", use_dist_fc=True)
    with pytest.raises(NotImplementedError, match="use_dist_fc"):
        one_of_two().distributed_optimizer(fluid.optimizer.SGD(0.1), given).minimize(model()[1])


def test_optimizers_in_mixed_precision_and_with_recomputing_are_taken() -> None:
    h, loss = model()
    recomputing = fluid.optimizer.RecomputeOptimizer(fluid.optimizer.SGD(0.1))
    recomputing._set_checkpoints([h])
    given = strategy(mode="collective", collective_mode="grad_allreduce")
    collective = one_of_two()
    collective.distributed_optimizer(fluid.contrib.mixed_precision.decorate(recomputing), given).minimize(loss)
    block = collective.main_program.global_block()
    assert "float16" in {variable.dtype.name for variable in block.vars.values()}
    assert "c_allreduce_sum" in [op.type for op in block.ops]
