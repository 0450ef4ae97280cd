"""`paddle.distributed.fleet` of 2.x: in front of both kinds of fleets, in both modes."""

import warnings
from typing import Any

import numpy as np
import pytest

import workbench as wb
import workbench.distributed.fleet as fleet
from workbench import static
from workbench.errors import InvalidType, NotFound, PreconditionNotMet, Unimplemented
from workbench.framework.notice import Notice
from workbench.parallel.fleet.collective.fleet import CollectiveFleet
from workbench.parallel.fleet.unified import UnifiedFleet
from workbench.parallel.roles.cloud import PaddleCloudRoleMaker
from workbench.precision.program import AutoMixedPrecisionLists, decorate

X = np.random.default_rng(0).normal(size=(8, 4)).astype(np.float32)


@pytest.fixture
def programs() -> Any:
    wb.enable_static()
    with (
        static.program_guard(static.Program(), static.Program()),
        wb.utils.unique_name.guard(),
        static.scope_guard(static.Scope()),
    ):
        yield
    wb.disable_static()


def model() -> Any:
    static.default_startup_program().random_seed = 3
    h = static.nn.fc(static.data("x", [None, 4]), 8, activation="tanh")
    return h, wb.mean(static.nn.fc(h, 1))


def trained(distributed: bool, **fields: Any) -> list[np.ndarray]:
    with (
        static.program_guard(static.Program(), static.Program()),
        wb.utils.unique_name.guard(),
        static.scope_guard(static.Scope()),
    ):
        h, loss = model()
        optimizer: Any = wb.optimizer.SGD(0.1)
        if distributed:
            strategy = fleet.DistributedStrategy()
            for name, value in fields.items():
                setattr(strategy, name, value)
            if strategy.recompute:
                strategy.recompute_configs = {"checkpoints": [h]}
            fleet.init(is_collective=True, strategy=strategy)
            optimizer = fleet.distributed_optimizer(optimizer)
        optimizer.minimize(loss)
        executor = static.Executor()
        executor.run(static.default_startup_program())
        return [executor.run(feed={"x": X}, fetch_list=[loss])[0] for _ in range(3)]


def test_the_default_program_is_what_a_trainer_runs(programs: None) -> None:
    for one, other in zip(trained(True), trained(False)):
        np.testing.assert_array_equal(one, other)


def test_fields_have_their_effects(programs: None) -> None:
    for one, other in zip(trained(True, recompute=True), trained(False)):
        np.testing.assert_array_equal(one, other)
    half = trained(True, amp=True, amp_configs={"init_loss_scaling": 64.0})
    assert any((a != b).any() for a, b in zip(half, trained(False)))


def operators(optimizer: Any) -> list[str]:
    """What a program and its startup program do once they are trained so."""
    with static.program_guard(static.Program(), static.Program()), wb.utils.unique_name.guard():
        _, loss = model()
        optimizer.minimize(loss)
        blocks = (loss.block, static.default_startup_program().global_block())
        return [f"{op.type} {op.call_attrs()}" for block in blocks for op in block.ops]


def in_half_precision(**settings: Any) -> Any:
    strategy = fleet.DistributedStrategy()
    strategy.amp, strategy.amp_configs = True, settings
    fleet.init(is_collective=True, strategy=strategy)
    return fleet.distributed_optimizer(wb.optimizer.SGD(0.1))


AMP = {
    "init_loss_scaling": 64.0, "incr_every_n_steps": 7, "decr_every_n_nan_or_inf": 3, "incr_ratio": 3.0,
    "decr_ratio": 0.25, "use_dynamic_loss_scaling": False, "custom_white_list": ["tanh"], "custom_black_list": ["mul"],
}  # fmt: skip


@pytest.mark.parametrize(("setting", "value"), AMP.items())
def test_every_setting_of_half_precision_counts(programs: None, setting: str, value: Any) -> None:
    """As it does for an optimizer that is decorated by hand."""
    ops = operators(in_half_precision(**{setting: value}))
    by_hand: dict[str, Any] = {"init_loss_scaling": 32768.0}
    if setting.endswith("_list"):
        by_hand["amp_lists"] = AutoMixedPrecisionLists(**{setting: value})
    else:
        by_hand[setting] = value
    assert ops == operators(decorate(wb.optimizer.SGD(0.1), **by_hand)) != operators(in_half_precision())


def test_every_setting_of_half_precision_is_tried() -> None:
    assert set(fleet.DistributedStrategy().amp_configs) == set(AMP)


def test_settings_of_fields_are_assigned_whole(programs: None) -> None:
    with pytest.raises(TypeError, match="item assignment"):
        fleet.DistributedStrategy().amp_configs["init_loss_scaling"] = 64.0
    assert fleet.DistributedStrategy().amp_configs["init_loss_scaling"] == 32768.0


@pytest.mark.parametrize("setting", ["k_steps", "begin_step"])
def test_settings_of_local_sgd_without_effect_are_told(setting: str) -> None:
    strategy = fleet.DistributedStrategy()
    strategy.localsgd_configs = {setting: 5}
    with warnings.catch_warnings():
        warnings.simplefilter("error", Notice)
        strategy.checked()  # there is no local SGD
    strategy.localsgd = True
    with pytest.warns(Notice, match=f"localsgd_configs: {setting} has no effect") as told:
        strategy.checked()
    assert len(told) == 1


def test_what_counts_elsewhere_is_told(programs: None, monkeypatch: pytest.MonkeyPatch) -> None:
    strategy = fleet.DistributedStrategy()
    strategy.amp = strategy.a_sync = strategy.find_unused_parameters = True
    alone = UnifiedFleet().init(is_collective=True, strategy=strategy)
    for name, value in {"PSERVERS_IP_PORT_LIST": "127.0.0.1:6001", "TRAINERS_NUM": "2", "TRAINER_ID": "1"}.items():
        monkeypatch.setenv(f"PADDLE_{name}", value)
    monkeypatch.setenv("TRAINING_ROLE", "TRAINER")
    with_servers = UnifiedFleet().init(strategy=strategy)
    for does, idle in {
        lambda: operators(alone.distributed_optimizer(wb.optimizer.SGD(0.1))): ["a_sync", "find_unused_parameters"],
        lambda: operators(with_servers.distributed_optimizer(wb.optimizer.SGD(0.1))): ["amp", "find_unused_parameters"],
        lambda: alone.distributed_model(None): ["a_sync", "amp"],
    }.items():
        with pytest.warns(Notice, match="has no effect in") as told:
            does()
        assert sorted(str(one.message).split()[0] for one in told) == [f"DistributedStrategy.{name}" for name in idle]


def test_every_field_has_an_effect_a_notice_or_an_error(programs: None) -> None:
    kinds = {name: fleet.DistributedStrategy.effect(name).kind for name in fleet.DistributedStrategy.OPTIONS}
    assert set(kinds.values()) == {"graph", "step", "notice", "error"}
    for name, kind in kinds.items():
        option = fleet.DistributedStrategy.OPTIONS[name]
        if kind not in ("notice", "error"):
            continue
        strategy = fleet.DistributedStrategy()
        setattr(strategy, name, not option.default if isinstance(option.default, bool) else option.default + 1)
        if kind == "error":
            with pytest.raises(Unimplemented, match=name):
                UnifiedFleet().init(is_collective=True, strategy=strategy)
        else:
            with pytest.warns(Notice, match=name):
                UnifiedFleet().init(is_collective=True, strategy=strategy)


def test_unknown_fields_and_settings_are_refused() -> None:
    strategy = fleet.DistributedStrategy()
    with pytest.raises(NotFound, match="recompute"):
        strategy.recomput = True
    with pytest.raises(NotFound, match="checkpoints"):
        strategy.recompute_configs = {"checkpoint": []}
    strategy.amp_configs = {"incr_ratio": 3.0}
    assert strategy.amp_configs["incr_ratio"] == 3.0 and strategy.amp_configs["decr_ratio"] == 0.8
    with pytest.raises(InvalidType, match="amp"):
        strategy.amp = 1


def test_servers_are_chosen_by_a_sync(programs: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDLE_PSERVERS_IP_PORT_LIST", "127.0.0.1:6001")
    monkeypatch.setenv("PADDLE_TRAINERS_NUM", "2")
    monkeypatch.setenv("TRAINING_ROLE", "TRAINER")
    monkeypatch.setenv("PADDLE_TRAINER_ID", "1")
    unified = UnifiedFleet().init()
    assert unified.is_worker() and not unified.is_server() and unified.worker_num() == 2 and unified.server_num() == 1
    modes = {}
    for name, fields in {
        "sync": {}, "async": {"a_sync": True}, "geo": {"a_sync": True, "a_sync_configs": {"k_steps": 7}},
    }.items():  # fmt: skip
        strategy = fleet.DistributedStrategy()
        for field, value in fields.items():
            setattr(strategy, field, value)
        modes[name] = unified.distributed_optimizer(wb.optimizer.SGD(0.1), strategy)._with_servers()
    assert [modes[name].mode for name in ("sync", "async", "geo")] == [0, 1, 3]
    assert modes["geo"].get_program_config().geo_sgd_need_push_nums == 7
    _, loss = model()
    unified.distributed_optimizer(wb.optimizer.SGD(0.1)).minimize(loss)
    assert "send" in [op.type for op in unified.main_program.global_block().ops]


def test_dynamic_mode_has_the_optimizer_itself_and_the_layer() -> None:
    wb.disable_static()
    fleet.init(is_collective=True)
    layer = wb.nn.Linear(4, 2)
    assert fleet.distributed_model(layer) is layer and fleet.worker_num() == 1 and fleet.is_first_worker()
    optimizer = fleet.distributed_optimizer(wb.optimizer.SGD(0.5, parameters=layer.parameters()))
    before = layer.weight.numpy().copy()
    layer(wb.ones([1, 4])).sum().backward()
    optimizer.step()
    optimizer.clear_grad()
    np.testing.assert_allclose(layer.weight.numpy(), before - 0.5)


def test_what_is_asked_too_early_or_wrongly() -> None:
    with pytest.raises(PreconditionNotMet, match=r"fleet\.init"):
        UnifiedFleet().worker_num()
    with pytest.raises(InvalidType, match="strategy"):
        UnifiedFleet().init(is_collective=True, strategy=static.BuildStrategy())
    with pytest.raises(InvalidType, match="role maker"):
        UnifiedFleet().init(role_maker="cloud", is_collective=True)


def test_a_role_maker_of_a_collective_fleet_makes_one(programs: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDLE_TRAINER_ENDPOINTS", "127.0.0.1:6170")
    monkeypatch.setenv("PADDLE_TRAINER_ID", "0")
    unified = UnifiedFleet().init(PaddleCloudRoleMaker(is_collective=True))
    assert isinstance(unified._inner, CollectiveFleet)


def test_a_refused_strategy_leaves_the_fleet_as_it_was(programs: None) -> None:
    strategy, unified = fleet.DistributedStrategy(), UnifiedFleet()
    strategy.dgc = True
    with pytest.raises(Unimplemented, match="dgc"):
        unified.init(is_collective=True, strategy=strategy)
    with pytest.raises(PreconditionNotMet, match=r"fleet\.init"):
        unified.worker_num()


def test_a_default_does_not_overwrite_what_the_build_strategy_says(programs: None) -> None:
    strategy, unified = fleet.DistributedStrategy(), UnifiedFleet().init(is_collective=True)
    build = static.BuildStrategy()
    build.sync_batch_norm, build.fuse_all_reduce_ops = True, False
    strategy.build_strategy = build
    chosen = unified.distributed_optimizer(wb.optimizer.SGD(0.1), strategy)._collective()
    assert chosen.sync_batch_norm and not chosen.fuse_all_reduce_ops
    strategy.sync_batch_norm = False
    assert not unified.distributed_optimizer(wb.optimizer.SGD(0.1), strategy)._collective().sync_batch_norm


def test_dynamic_mode_keeps_the_strategy_of_the_optimizer_for_the_layer() -> None:
    wb.disable_static()
    strategy, unified = fleet.DistributedStrategy(), UnifiedFleet().init(is_collective=True)
    strategy.amp = True
    layer = wb.nn.Linear(4, 2)
    unified.distributed_optimizer(wb.optimizer.SGD(0.5, parameters=layer.parameters()), strategy)
    with pytest.warns(Notice, match=r"DistributedStrategy\.amp has no effect in dynamic mode"):
        unified.distributed_model(layer)
