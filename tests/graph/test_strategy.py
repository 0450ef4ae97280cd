"""BuildStrategy: fields, types, effects, settings (rules B-1, B-2, G-14, X-6; section 5.1)."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as paddle
from workbench.config import override
from workbench.errors import InvalidArgument, InvalidType, NotFound, PreconditionNotMet, Unimplemented
from workbench.framework.notice import Notice
from workbench.graph.settings import Settings
from workbench.graph.strategy import BuildStrategy

Reduce, AllReduce = BuildStrategy.ReduceStrategy.Reduce, BuildStrategy.ReduceStrategy.AllReduce
Scale = BuildStrategy.GradientScaleStrategy


# What 1.8.5 and 2.6.2 read from Python, and what is ours.
PADDLE_1_8 = {
    "reduce_strategy": AllReduce,
    "gradient_scale_strategy": Scale.CoeffNumDevice,
    "debug_graphviz_path": "",
    "enable_sequential_execution": False,
    "remove_unnecessary_lock": True,
    "num_trainers": 1,
    "trainer_id": 0,
    "trainers_endpoints": (),
    "nccl_comm_num": 1,
    "use_hierarchical_allreduce": False,
    "hierarchical_allreduce_inter_nranks": 0,
    "fuse_elewise_add_act_ops": False,
    "fuse_bn_act_ops": False,
    "fuse_relu_depthwise_conv": False,
    "enable_auto_fusion": False,
    "fuse_all_reduce_ops": True,
    "fuse_all_optimizer_ops": None,  # False there; neither on nor off until it is compiled
    "fuse_broadcast_ops": True,
    "sync_batch_norm": False,
    "memory_optimize": None,
    "enable_inplace": True,
    "enable_backward_optimizer_op_deps": True,
    "cache_runtime_context": False,
    "is_distribution": False,
    "async_mode": False,
    "mkldnn_enabled_op_types": frozenset(),
}
PADDLE_2 = {
    "fix_op_run_order": False,
    "fuse_bn_add_act_ops": True,
    "enable_addto": False,
    "bkcl_comm_num": 1,
    "fuse_gemm_epilogue": False,
    "fused_attention": None,  # False there; where that is quicker
    "fused_feedforward": False,
    "sequential_run": False,
    "build_cinn_pass": False,
    "allow_cuda_graph_capture": False,
    "fuse_adamw": False,
}
DEFAULTS = PADDLE_1_8 | PADDLE_2 | {"exact": False, "winograd": True}
FIELDS = sorted(DEFAULTS)


# Another value for each field that is not a switch.
OTHER = {
    "reduce_strategy": Reduce,
    "gradient_scale_strategy": Scale.One,
    "debug_graphviz_path": "/tmp/graph",
    "num_trainers": 2,
    "trainer_id": 1,
    "trainers_endpoints": ["10.0.0.1:6170", "10.0.0.2:6170"],
    "nccl_comm_num": 2,
    "bkcl_comm_num": 2,
    "hierarchical_allreduce_inter_nranks": 2,
    "fuse_all_optimizer_ops": False,
    "fused_attention": False,
    "memory_optimize": False,
    "mkldnn_enabled_op_types": {"conv2d"},
}


def other(field: str) -> Any:
    return OTHER[field] if field in OTHER else not DEFAULTS[field]


def strategy(**fields: Any) -> BuildStrategy:
    build_strategy = BuildStrategy()
    for name, value in fields.items():
        setattr(build_strategy, name, value)
    return build_strategy


def kept(value: Any) -> Any:
    """Lists and sets are kept as what cannot be changed in place."""
    return {list: tuple, set: frozenset}.get(type(value), lambda v: v)(value)


# Fields


def test_the_fields_are_those_of_both_versions_and_ours() -> None:
    assert sorted(BuildStrategy.OPTIONS) == FIELDS


@pytest.mark.parametrize("field", FIELDS)
def test_the_default_is_the_documented_one(field: str) -> None:
    build_strategy = BuildStrategy()
    assert getattr(build_strategy, field) == DEFAULTS[field] and type(getattr(build_strategy, field)) is type(
        DEFAULTS[field]
    )
    assert not build_strategy.is_set(field)


@pytest.mark.parametrize("field", FIELDS)
def test_a_field_is_set_and_remembers_it(field: str) -> None:
    build_strategy = BuildStrategy()
    setattr(build_strategy, field, other(field))
    assert getattr(build_strategy, field) == kept(other(field)) != DEFAULTS[field]
    assert build_strategy.is_set(field) and getattr(BuildStrategy(), field) == DEFAULTS[field]
    assert repr(build_strategy).startswith(f"BuildStrategy({field}=")


@pytest.mark.parametrize("field", FIELDS)
def test_every_field_is_documented(field: str) -> None:
    option = getattr(BuildStrategy, field)
    effect = BuildStrategy.effect(field)
    assert option.__doc__.startswith(option.rule.expected) and effect.reason in option.__doc__
    assert effect.kind in ("graph", "notice", "error") and len(effect.reason) > 15


WRONG_TYPE = {
    bool: [1, 0, "True", 1.0, [], AllReduce],
    int: [1.0, "1", True, None, [1]],
    str: [1, b"x", None, True],
    Enum: [0, 1, "Reduce", None],
    tuple: ["a:1", [1], None, {"a": 1}],
    frozenset: ["conv2d", [1], None],
}


def wrong(field: str) -> list[Any]:
    if field in ("memory_optimize", "fuse_all_optimizer_ops", "fused_attention"):
        return WRONG_TYPE[bool]
    values = next(listed for kind, listed in WRONG_TYPE.items() if isinstance(DEFAULTS[field], kind))
    others = {"reduce_strategy": [Scale.One], "gradient_scale_strategy": [Reduce]}
    return [*values, *others.get(field, [])]


@pytest.mark.parametrize(("field", "value"), [(field, value) for field in FIELDS for value in wrong(field)])
def test_another_type_is_refused_by_name(field: str, value: Any) -> None:
    chosen = strategy(**{field: other(field)})
    with pytest.raises(InvalidType) as caught:
        setattr(chosen, field, value)
    text = str(caught.value)
    assert text.startswith(f"BuildStrategy.{field}\n  expected: ") and "\n  got:      " in text
    assert BuildStrategy.OPTIONS[field].rule.expected in text
    shown = f"{type(value).__name__}.{value.name}" if isinstance(value, Enum) else repr(value)
    assert text.endswith(shown)
    assert getattr(chosen, field) == kept(other(field))


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("num_trainers", 0, ">= 1"),
        ("num_trainers", -1, ">= 1"),
        ("trainer_id", -1, ">= 0"),
        ("nccl_comm_num", 0, ">= 1"),
        ("bkcl_comm_num", 0, ">= 1"),
        ("hierarchical_allreduce_inter_nranks", -1, ">= 0"),
    ],
)
def test_a_number_out_of_range_is_refused(field: str, value: int, expected: str) -> None:
    build_strategy = BuildStrategy()
    with pytest.raises(InvalidArgument, match=rf"BuildStrategy.{field}\n  expected: a whole number {expected}\n"):
        setattr(build_strategy, field, value)
    assert not build_strategy.is_set(field)


ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.lists(st.text(max_size=2)),
    st.sets(st.integers()),
    st.sampled_from([*BuildStrategy.ReduceStrategy, *Scale, np.bool_(True), np.int64(3), object()]),
)  # fmt: skip


@given(st.sampled_from(FIELDS), ANYTHING)
def test_whatever_is_assigned_is_kept_as_the_fields_type_or_refused(field: str, value: Any) -> None:
    build_strategy = BuildStrategy()
    try:
        setattr(build_strategy, field, value)
    except InvalidArgument:
        assert getattr(build_strategy, field) == DEFAULTS[field] and not build_strategy.is_set(field)
        return
    stored = getattr(build_strategy, field)
    tristate = field in ("memory_optimize", "fuse_all_optimizer_ops", "fused_attention")
    assert type(stored) in ((bool, type(None)) if tristate else (type(DEFAULTS[field]),))


def test_numpy_scalars_and_paths_are_what_they_look_like() -> None:
    chosen = strategy(exact=np.True_, num_trainers=np.int32(3), debug_graphviz_path=Path("a") / "b")
    assert chosen.exact is True and type(chosen.num_trainers) is int and chosen.debug_graphviz_path == str(Path("a/b"))


@pytest.mark.parametrize(
    "field", ["fuse_all_reduce_ops", "fuse_all_optimizer_ops", "fuse_broadcast_ops", "memory_optimize"]
)
def test_none_takes_a_tri_state_back(field: str) -> None:
    chosen = strategy(**{field: False})
    setattr(chosen, field, None)
    assert not chosen.is_set(field) and getattr(chosen, field) == DEFAULTS[field]


def test_an_unknown_field_is_an_error_with_the_closest_name() -> None:
    build_strategy = BuildStrategy()
    for act in (
        lambda: setattr(build_strategy, "sync_batchnorm", True),
        lambda: build_strategy.sync_batchnorm,  # type: ignore[attr-defined]
        lambda: build_strategy.effect("sync_batchnorm"),
        lambda: build_strategy.is_set("sync_batchnorm"),
    ):
        with pytest.raises(NotFound, match=r"no field 'sync_batchnorm'\. Did you mean 'sync_batch_norm'\?"):
            act()
    assert not hasattr(build_strategy, "sync_batchnorm")
    with pytest.raises(AttributeError):
        build_strategy.frozen = False  # type: ignore[misc]


def test_enums_are_reached_through_the_class() -> None:
    build_strategy = paddle.static.BuildStrategy()
    build_strategy.reduce_strategy = build_strategy.ReduceStrategy.Reduce
    build_strategy.gradient_scale_strategy = paddle.static.BuildStrategy.GradientScaleStrategy.Customized
    assert int(build_strategy.reduce_strategy) == 1 and build_strategy.reduce_strategy.name == "Reduce"
    assert [(m.name, int(m)) for m in Scale] == [
        ("CoeffNumDevice", 0), ("One", 1), ("Customized", 2), ("WeightedBySamples", 3),
    ]  # fmt: skip


def test_a_subclass_has_the_fields_and_its_own() -> None:
    class Derived(BuildStrategy):
        pass

    derived = Derived()
    derived.exact = True
    assert derived.resolved().exact and set(Derived.OPTIONS) == set(FIELDS)
    with pytest.raises(AttributeError, match=r"Derived has no field 'exactly'\. Did you mean 'exact'\?"):
        derived.exactly = True  # type: ignore[attr-defined]


# Effects


@pytest.mark.parametrize("field", FIELDS)
def test_every_field_changes_the_settings_or_is_told_or_refused(field: str) -> None:
    base = {"reduce_strategy": Reduce} if field == "fuse_broadcast_ops" else {}
    plain, changed = strategy(**base).resolved(2), strategy(**base, **{field: other(field)})
    kind = BuildStrategy.effect(field).kind
    if kind == "graph":
        assert changed.resolved(2) != plain and changed.idle() == {}
    elif kind == "notice":
        assert changed.resolved(2) == plain
        with pytest.warns(Notice, match=f"BuildStrategy.{field} = .* has no effect: .+"):
            changed.freeze(2)
    else:
        with pytest.raises((InvalidArgument, PreconditionNotMet, Unimplemented), match=f"{field}|num_trainers"):
            changed.freeze(2)
        assert not changed.frozen


@pytest.mark.parametrize("field", [f for f in FIELDS if f != "fuse_broadcast_ops"])  # see below
def test_setting_the_default_changes_nothing_and_tells_nothing(field: str) -> None:
    chosen = strategy(**{field: DEFAULTS[field]})
    assert chosen.freeze(2) == BuildStrategy().resolved(2)


@pytest.mark.parametrize("field", [f for f in FIELDS if BuildStrategy.effect(f).kind == "graph"])
@pytest.mark.parametrize("mode", [AllReduce, Reduce])
def test_a_field_that_acts_is_a_field_of_the_settings(field: str, mode: Any) -> None:
    fields = {"reduce_strategy": mode} | ({} if field == "reduce_strategy" else {field: other(field)})
    settings = strategy(**fields).resolved(2)
    assert hasattr(settings, field)
    if field not in ("reduce_strategy", "fuse_broadcast_ops"):
        assert getattr(settings, field) == other(field)


def test_notices_are_told_once_at_the_users_line() -> None:
    chosen = strategy(remove_unnecessary_lock=False, fused_feedforward=True)
    with pytest.warns(Notice) as told:
        chosen.freeze(2)
    chosen.freeze(4)  # told here, it would be an error
    assert [str(w.message).split(" ")[0] for w in told] == [
        "BuildStrategy.remove_unnecessary_lock", "BuildStrategy.fused_feedforward",
    ]  # fmt: skip
    assert {w.filename for w in told} == {__file__}


def test_fusing_broadcasts_without_a_mode_is_told_and_with_reduce_acts() -> None:
    chosen = strategy(fuse_broadcast_ops=True)
    with pytest.warns(Notice, match="fuse_broadcast_ops = True has no effect: only Reduce mode broadcasts"):
        settings = chosen.freeze(2)
    assert not settings.fuse_broadcast_ops
    assert strategy(reduce_strategy=Reduce, fuse_broadcast_ops=True).freeze(2).fuse_broadcast_ops


# Settings


def test_what_is_decided_in_all_reduce_mode() -> None:
    s = BuildStrategy().resolved(2)
    assert s.fuse_all_reduce_ops and s.fuse_all_optimizer_ops and not s.fuse_broadcast_ops
    assert s.memory_optimize is True and s.enable_inplace and not s.exact and s.num_trainers == 1
    assert not s.sequential and not s.fuse_elementwise and s.passes == ()


def test_b_2_defaults_yield_silently_in_reduce_mode() -> None:
    s = strategy(reduce_strategy=Reduce).freeze(2)
    assert s.reduce_strategy is Reduce
    assert not s.fuse_all_reduce_ops and not s.fuse_all_optimizer_ops and s.fuse_broadcast_ops


@pytest.mark.parametrize("devices", [1, 2, 8])
def test_g_14_reduce_with_one_rank_is_all_reduce(devices: int) -> None:
    s = strategy(reduce_strategy=Reduce).resolved(devices)
    assert (s.reduce_strategy is Reduce) == (devices > 1) == (not s.fuse_all_optimizer_ops)


def test_g_14_counts_ranks_not_devices() -> None:
    with override(allow_lonely_trainer=True):
        assert strategy(reduce_strategy=Reduce, num_trainers=2).resolved(1).reduce_strategy is Reduce


@pytest.mark.parametrize("field", ["enable_sequential_execution", "fix_op_run_order", "sequential_run"])
def test_three_names_for_sequential_execution(field: str) -> None:
    assert strategy(**{field: True}).resolved().sequential


@pytest.mark.parametrize("field", ["fuse_elewise_add_act_ops", "enable_auto_fusion"])
def test_two_names_for_fusing_chains(field: str) -> None:
    assert strategy(**{field: True}).resolved().fuse_elementwise


def test_settings_do_not_change() -> None:
    settings = BuildStrategy().resolved(2)
    with pytest.raises(AttributeError):
        settings.exact = True  # type: ignore[misc]
    assert isinstance(settings, Settings) and hash(settings) == hash(BuildStrategy().resolved(2))
