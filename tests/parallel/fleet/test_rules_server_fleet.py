"""F-10 … F-15: fleets with parameter servers, in one process (several: tests/processes/fleet/test_fleet.py)."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench as wb
import workbench.fluid as fluid
from tests.parallel.transpiler.programs import line, transpiled
from workbench.config import get_flags, set_flags
from workbench.errors import InvalidArgument, InvalidForm, InvalidType, NotFound
from workbench.fluid.incubate.fleet.base.role_maker import Role, UserDefinedRoleMaker
from workbench.fluid.incubate.fleet.parameter_server.distribute_transpiler import FleetTranspiler, StrategyFactory
from workbench.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy import (
    AsyncStrategy,
    GeoStrategy,
    HalfAsyncStrategy,
    SyncStrategy,
)
from workbench.framework.notice import Notice
from workbench.parallel.fleet.server.strategies import strategy_of

SERVERS = ["127.0.0.1:6001", "127.0.0.1:6002"]


@pytest.fixture(autouse=True)
def _afresh() -> Any:
    with (
        fluid.program_guard(fluid.Program(), fluid.Program()),
        fluid.unique_name.guard(),
        fluid.scope_guard(fluid.Scope()),
    ):
        yield


def in_fleet(role: Role = Role.WORKER, index: int = 0) -> FleetTranspiler:
    fleet = FleetTranspiler()
    fleet.init(UserDefinedRoleMaker(index, role, 2, SERVERS))
    return fleet


def minimized(fleet: FleetTranspiler, strategy: Any = None) -> Any:
    out = fluid.layers.fc(fluid.data("x", [None, 4]), 2)
    loss = fluid.layers.mean(out)
    result = fleet.distributed_optimizer(fluid.optimizer.SGD(0.1), strategy).minimize(loss)
    return out, result


# What Paddle 1.8.5 makes: kind, mode, half_async, completely_not_async, geo_sgd_mode, trainers meet.
OBSERVED = {
    "sync": (SyncStrategy, 0, True, True, False, True),
    "async": (AsyncStrategy, 1, False, False, False, False),
    "half_async": (HalfAsyncStrategy, 2, True, False, False, True),
    "geo": (GeoStrategy, 3, False, False, True, False),
}


@pytest.mark.parametrize("name", OBSERVED)
def test_f10_strategies_have_these_settings(name: str) -> None:
    strategy = getattr(StrategyFactory, f"create_{name}_strategy")()
    kind, mode, half, not_async, geo, meets = OBSERVED[name]
    config = strategy.get_program_config()
    assert type(strategy) is kind and strategy.get_trainer_runtime_config().mode == mode
    assert (config.sync_mode, config.runtime_split_send_recv) == (False, True)
    assert (config.half_async, config.completely_not_async, config.geo_sgd_mode) == (half, not_async, geo)
    assert strategy.get_execute_strategy().use_thread_barrier is meets


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({}, SyncStrategy),
        ({"sync_mode": False}, HalfAsyncStrategy),
        ({"sync_mode": False, "runtime_split_send_recv": True}, AsyncStrategy),
        ({"sync_mode": False, "geo_sgd_mode": True, "geo_sgd_need_push_nums": 7}, GeoStrategy),
    ],
)
def test_f10_settings_of_a_transpiler_stand_for_a_strategy(fields: dict[str, Any], kind: Any) -> None:
    config = fluid.DistributeTranspilerConfig()
    for name, value in {**fields, "slice_var_up": False}.items():
        setattr(config, name, value)
    strategy = strategy_of(config)
    assert type(strategy) is kind and strategy.get_program_config().slice_var_up is False
    assert strategy.get_program_config().geo_sgd_need_push_nums == fields.get("geo_sgd_need_push_nums", 100)
    assert type(strategy_of(None)) is SyncStrategy
    with pytest.raises(InvalidType, match="StrategyFactory"):
        strategy_of(fluid.BuildStrategy())


def test_f11_a_trainer_sends_whole_gradients() -> None:
    fleet = in_fleet()
    minimized(fleet, StrategyFactory.create_sync_strategy())
    types = [op.type for op in fleet.main_program.global_block().ops]
    assert types.count("send") == types.count("recv") == 2 and types.count("send_barrier") == 1
    assert not {"split_byref", "concat", "sgd"} & set(types)
    sends = [op for op in fleet.main_program.global_block().ops if op.type == "send"]
    assert all(op.has_attr("sections") and op.has_attr("send_varnames") for op in sends)


def test_f12_the_order_of_calls_and_what_each_process_runs() -> None:
    with pytest.raises(ValueError, match="init"):
        FleetTranspiler().distributed_optimizer(fluid.optimizer.SGD(0.1))
    with pytest.raises(TypeError, match="one loss"):
        in_fleet().distributed_optimizer(fluid.optimizer.SGD(0.1)).minimize([])
    trainer = in_fleet()
    _, (ops, pairs) = minimized(trainer)
    assert len(ops) == len(pairs) == 2
    assert trainer.main_program is fluid.default_main_program()
    assert trainer.startup_program is fluid.default_startup_program()
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        server = in_fleet(Role.SERVER, 1)
        minimized(server)
        assert [op.type for op in server.main_program.global_block().ops] == ["listen_and_serv"]
        assert server.startup_program is not fluid.default_startup_program()


@pytest.mark.parametrize("method", ["init_worker", "init_server", "run_server"])
def test_f13_nothing_begins_before_minimize(method: str) -> None:
    with pytest.raises(ValueError, match=f"before fleet.{method}"):
        getattr(in_fleet(), method)()


def test_f13_a_server_begins_with_its_startup_program_or_a_folder(tmp_path: Path) -> None:
    server = in_fleet(Role.SERVER, 1)
    minimized(server)
    server.init_server()
    held = [v.name for v in server.main_program.persistables() if "fc_0" in v.name and "@GRAD" not in v.name]
    (name,) = held
    value = np.array(fluid.global_scope().find_var(name).get_tensor())
    fluid.io.save_vars(fluid.Executor(), tmp_path, server.main_program, vars=[name])
    fluid.global_scope().find_var(name).get_tensor().set(np.zeros_like(value), fluid.CPUPlace())
    with pytest.warns(UserWarning, match="learning_rate"):
        server.init_server(str(tmp_path))
    np.testing.assert_array_equal(np.array(fluid.global_scope().find_var(name).get_tensor()), value)
    with pytest.raises(ValueError, match="no folder"):
        server.init_server(str(tmp_path / "elsewhere"))


@pytest.mark.parametrize("index", [0, 1])
def test_f13_a_server_takes_its_rows_of_a_parameter_that_was_saved_whole(index: int, tmp_path: Path) -> None:
    server = in_fleet(Role.SERVER, index)
    out = fluid.layers.fc(fluid.data("x", [None, 200]), 100, param_attr=fluid.ParamAttr(name="w"), bias_attr=False)
    server.distributed_optimizer(fluid.optimizer.SGD(0.1)).minimize(fluid.layers.mean(out))
    whole = np.random.default_rng(0).standard_normal((200, 100)).astype(np.float32)
    with fluid.scope_guard(fluid.Scope()):
        fluid.global_scope().var("w").get_tensor().set(whole, fluid.CPUPlace())
        fluid.io.save_vars(fluid.Executor(), tmp_path, server._origin_program, vars=["w"])
    with pytest.warns(UserWarning, match="no values of .*learning_rate"):
        server.init_server(str(tmp_path))
    held = [v.name for v in server.main_program.persistables() if v.name.startswith("w.block") and "@" not in v.name]
    (name,) = held
    rows = whole[:100] if name == "w.block0" else whole[100:]
    np.testing.assert_array_equal(np.array(fluid.global_scope().find_var(name).get_tensor()), rows)


def test_f13_stop_worker_closes_the_executor() -> None:
    fleet = in_fleet()
    fleet.stop_worker()
    with pytest.raises(RuntimeError, match="closed"):
        fleet._executor.run(fluid.Program())


def test_f14_what_is_saved_is_a_program_of_the_fleet(tmp_path: Path) -> None:
    fleet = in_fleet()
    out, _ = minimized(fleet)
    executor = fluid.Executor()
    compiled = fluid.CompiledProgram(fluid.Program())
    with pytest.raises(TypeError, match="Program"):
        fleet.save_persistables(executor, tmp_path, compiled)
    with pytest.raises(TypeError, match="Executor"):
        fleet.save_persistables("executor", tmp_path)
    with pytest.raises(ValueError, match="program of this fleet"):
        fleet.save_persistables(executor, tmp_path, fluid.Program())
    with pytest.raises(TypeError, match="Program"):
        fleet.save_inference_model(executor, tmp_path, ["x"], [out], compiled)


def test_f15_defaults_follow_the_number_of_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    reduce = fluid.BuildStrategy.ReduceStrategy
    monkeypatch.setenv("CPU_NUM", "2")
    strategy = StrategyFactory.create_sync_strategy()
    assert strategy.get_execute_strategy().num_threads == 2
    assert strategy.get_build_strategy().reduce_strategy == reduce.Reduce
    assert strategy.get_trainer_runtime_config().runtime_configs == {
        "communicator_max_merge_var_num": "2",
        "communicator_send_queue_size": "2",
        "communicator_independent_recv_thread": "1",
        "communicator_min_send_grad_num_before_recv": "2",
        "communicator_thread_pool_size": "5",
        "communicator_send_wait_times": "5",
        "communicator_is_sgd_optimizer": "1",
        "rpc_deadline": "180000",
        "rpc_retry_times": "3",
    }
    monkeypatch.delenv("CPU_NUM")
    strategy = StrategyFactory.create_async_strategy()
    assert strategy.get_execute_strategy().num_threads == 1
    assert strategy.get_build_strategy().reduce_strategy == reduce.AllReduce
    monkeypatch.setenv("CPU_NUM", "many")
    with pytest.raises(InvalidArgument, match="CPU_NUM"):
        StrategyFactory.create_sync_strategy()


def test_f15_settings_are_set_whole_or_in_part() -> None:
    strategy = StrategyFactory.create_async_strategy()
    strategy.set_trainer_runtime_config({"communicator_send_queue_size": 9})
    assert strategy.get_trainer_runtime_config().get_communicator_flags()["communicator_send_queue_size"] == "9"
    with pytest.raises(NotFound, match="communicator_send_queue_size"):
        strategy.set_trainer_runtime_config({"communicator_send_queue": 9})
    strategy.set_program_config({"slice_var_up": False})
    assert strategy.get_program_config().slice_var_up is False
    for method in ("set_program_config", "set_trainer_runtime_config", "set_build_strategy", "set_execute_strategy"):
        with pytest.raises(InvalidType, match=method):
            getattr(strategy, method)(3)
    with pytest.raises(InvalidArgument, match="steps"):
        StrategyFactory.create_geo_strategy(0)
    assert not wb.in_dynamic_mode()


RUNTIME = StrategyFactory.create_sync_strategy().get_trainer_runtime_config().get_communicator_flags()


@pytest.mark.parametrize("name", sorted(set(RUNTIME) - {"rpc_deadline"}))
@pytest.mark.parametrize("how", ["set", "assigned", "environment"])
def test_f15_runtime_configs_without_effect_are_told(monkeypatch: pytest.MonkeyPatch, how: str, name: str) -> None:
    if how == "environment":
        monkeypatch.setenv(f"FLAGS_{name}", "7")
    strategy = StrategyFactory.create_sync_strategy()
    if how == "set":
        strategy.set_trainer_runtime_config({name: 7})
    elif how == "assigned":
        strategy.get_trainer_runtime_config().runtime_configs[name] = "7"
    with pytest.warns(Notice, match=f"{name} = 7 has no effect"):
        minimized(in_fleet(), strategy)


def test_f15_rpc_deadline_is_how_long_this_process_waits() -> None:
    before = get_flags("FLAGS_rpc_deadline")
    strategy = StrategyFactory.create_sync_strategy()
    strategy.set_trainer_runtime_config({"rpc_deadline": 60000})
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            minimized(in_fleet(), strategy)
        assert get_flags("FLAGS_rpc_deadline") == {"FLAGS_rpc_deadline": 60000}
    finally:
        set_flags(before)
    for wrong in ("0", "soon", "-1"):
        strategy.set_trainer_runtime_config({"rpc_deadline": wrong})
        with pytest.raises(InvalidArgument, match="rpc_deadline"):
            minimized(in_fleet(), strategy)


def test_a_minimize_that_fails_leaves_the_programs_as_they_were() -> None:
    loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 4]), 2))
    programs = fluid.default_main_program(), fluid.default_startup_program()
    before = [str(program) for program in programs]
    fleet = in_fleet()
    config = fluid.DistributeTranspilerConfig()
    config.split_method = int
    with pytest.raises(TypeError, match="PSDispatcher"):
        fleet.distributed_optimizer(fluid.optimizer.SGD(0.1), config).minimize(loss)
    assert [str(program) for program in programs] == before
    fleet.distributed_optimizer(fluid.optimizer.SGD(0.1)).minimize(loss)


def test_trainers_and_servers_take_leave_of_their_role_maker_after_the_servers_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    did: list[str] = []
    monkeypatch.setattr(UserDefinedRoleMaker, "_finalize", lambda _: did.append("leave"), raising=False)
    monkeypatch.setattr(fluid.Executor, "close", lambda _: did.append("close"))
    in_fleet().stop_worker()
    assert did == ["close", "leave"]
    monkeypatch.setattr(fluid.Executor, "run", lambda *_: did.append("run"))
    server = in_fleet(Role.SERVER, 1)
    minimized(server)
    server.run_server()
    assert did[2:] == ["run", "leave"]


def test_settings_of_a_transpiler_leave_the_mode_of_a_strategy() -> None:
    config = fluid.DistributeTranspilerConfig()
    config.slice_var_up = False
    for strategy in (StrategyFactory.create_async_strategy(), StrategyFactory.create_geo_strategy(25)):
        mode = ("sync_mode", "runtime_split_send_recv", "half_async", "geo_sgd_mode", "geo_sgd_need_push_nums")
        before = [getattr(strategy.get_program_config(), name) for name in mode]
        strategy.set_program_config(config)
        assert [getattr(strategy.get_program_config(), name) for name in mode] == before
        assert strategy.get_program_config().slice_var_up is False


def test_build_and_execute_strategies_are_set_in_part() -> None:
    strategy = StrategyFactory.create_async_strategy()
    strategy.set_build_strategy({"fuse_all_reduce_ops": False})
    strategy.set_execute_strategy({"num_threads": 7})
    assert not strategy.get_build_strategy().fuse_all_reduce_ops and strategy.get_execute_strategy().num_threads == 7
    assert strategy.get_execute_strategy().use_thread_barrier is False
    for method in ("set_program_config", "set_trainer_runtime_config", "set_build_strategy", "set_execute_strategy"):
        with pytest.raises(ValueError, match="'nothing'"):
            getattr(strategy, method)({"nothing": 1})


def test_what_is_for_servers_that_do_not_wait_is_refused_elsewhere() -> None:
    config = fluid.DistributeTranspilerConfig()
    config.geo_sgd_mode = True
    with pytest.raises(InvalidForm, match="geo_sgd_mode=True needs sync_mode=False"):
        strategy_of(config)
    with pytest.raises(InvalidForm, match="enable_dc_asgd=True needs sync_mode=False"):  # only transpile() knows
        transpiled(line(), {"enable_dc_asgd": True}, sync_mode=True)


def test_servers_take_recomputing_and_refuse_mixed_precision() -> None:
    fleet = in_fleet()
    with pytest.raises(NotImplementedError, match="mixed precision"):
        fleet.distributed_optimizer(fluid.contrib.mixed_precision.decorate(fluid.optimizer.SGD(0.1)))
    h = fluid.layers.fc(fluid.data("x", [None, 4]), 2)
    recomputing = fluid.optimizer.RecomputeOptimizer(fluid.optimizer.SGD(0.1))
    recomputing._set_checkpoints([h])
    fleet.distributed_optimizer(recomputing).minimize(fluid.layers.mean(h))
    assert "send" in [op.type for op in fleet.main_program.global_block().ops]


@pytest.mark.parametrize("mode", ["async", "half_async"])
def test_f15_how_much_is_merged_is_a_matter_of_asynchronous_trainers(mode: str) -> None:
    names = ("max_merge_var_num", "send_queue_size", "is_sgd_optimizer")
    before = get_flags([f"FLAGS_communicator_{name}" for name in names])
    given = {f"communicator_{name}": value for name, value in zip(names, (7, 9, 0), strict=True)}
    try:
        strategy = getattr(StrategyFactory, f"create_{mode}_strategy")()
        strategy.set_trainer_runtime_config(given)
        strategy.get_trainer_runtime_config().apply()
        assert list(get_flags([*before]).values()) == [7, 9, False]
        getattr(StrategyFactory, f"create_{mode}_strategy")().get_trainer_runtime_config().apply()
        assert list(get_flags([*before]).values()) == [7, 9, False], "what nobody gave stays as it was set"
    finally:
        set_flags(before)
    others = StrategyFactory.create_sync_strategy()
    others.set_trainer_runtime_config({"communicator_max_merge_var_num": 7})
    with pytest.warns(Notice, match="communicator_max_merge_var_num = 7 has no effect"):
        others.get_trainer_runtime_config().apply()
    assert get_flags([*before]) == before
