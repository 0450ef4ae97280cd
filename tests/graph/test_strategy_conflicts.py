"""BuildStrategy: fields that contradict each other or the trainers, and when it is frozen."""

from __future__ import annotations

import copy
from enum import Enum
from typing import Any

import pytest

from tests.graph.test_strategy import DEFAULTS, FIELDS, AllReduce, Reduce, kept, other, strategy
from workbench.config import override
from workbench.errors import InvalidArgument, InvalidType, PreconditionNotMet
from workbench.framework.notice import Notice
from workbench.graph.strategy import BuildStrategy

EXEMPT = {  # B-1
    "num_trainers", "trainer_id", "trainers_endpoints", "nccl_comm_num", "bkcl_comm_num", "use_hierarchical_allreduce",
    "hierarchical_allreduce_inter_nranks", "memory_optimize", "enable_inplace", "fuse_all_reduce_ops", "async_mode",
    "is_distribution",
}  # fmt: skip


# Conflicts


@pytest.mark.parametrize(
    "fields",
    [
        {"reduce_strategy": Reduce, "fuse_all_reduce_ops": True},
        {"reduce_strategy": Reduce, "fuse_all_optimizer_ops": True},
        {"reduce_strategy": AllReduce, "fuse_broadcast_ops": True},
        {"num_trainers": 3, "trainers_endpoints": ["a:1", "b:1"]},
        {"num_trainers": 1, "trainers_endpoints": ["a:1", "b:1"]},
        {"trainer_id": 2, "num_trainers": 2},
    ],
    ids=lambda fields: "-".join(fields),
)
@pytest.mark.parametrize("turned", [False, True])
def test_explicit_settings_that_contradict_are_refused_naming_both(fields: dict[str, Any], turned: bool) -> None:
    pairs = list(fields.items())
    chosen = strategy(**dict(reversed(pairs) if turned else pairs))
    for compile_ in (lambda: chosen.freeze(2), chosen._finalize_strategy_and_create_passes):
        with pytest.raises(InvalidArgument, match="contradicts") as caught:
            compile_()
        for name, value in fields.items():
            shown = f"{type(value).__name__}.{value.name}" if isinstance(value, Enum) else repr(kept(value))
            assert f"{name} = {shown}" in str(caught.value)
        assert not chosen.frozen
    first = pairs[0][0]
    setattr(chosen, first, DEFAULTS[first] if first != "reduce_strategy" else other_mode(fields[first]))
    if first not in ("num_trainers", "trainer_id"):
        chosen._finalize_strategy_and_create_passes()


def other_mode(mode: Any) -> Any:
    return AllReduce if mode is Reduce else Reduce


@pytest.mark.parametrize(
    "fields",
    [
        {"reduce_strategy": Reduce, "fuse_all_reduce_ops": False},
        {"reduce_strategy": Reduce, "fuse_all_optimizer_ops": False, "fuse_broadcast_ops": True},
        {"reduce_strategy": AllReduce, "fuse_broadcast_ops": False, "fuse_all_reduce_ops": True},
        {"fuse_all_reduce_ops": True, "fuse_all_optimizer_ops": True},
    ],
)
def test_explicit_settings_that_agree_are_not(fields: dict[str, Any]) -> None:
    assert strategy(**fields).freeze(2).reduce_strategy is fields.get("reduce_strategy", AllReduce)


# Trainers


def test_several_trainers_need_a_process_group() -> None:
    chosen = strategy(num_trainers=2, trainer_id=1)
    with pytest.raises(PreconditionNotMet, match=r"process group.*FLAGS_allow_lonely_trainer"):
        chosen.freeze(2)
    assert chosen.resolved(2, process_group=True).num_trainers == 2
    with override(allow_lonely_trainer=True):
        settings = chosen.freeze(2)
    assert (settings.num_trainers, settings.trainer_id) == (2, 1)


def test_endpoints_count_the_trainers() -> None:
    chosen = strategy(trainers_endpoints=["a:1", "b:1", "c:1"], trainer_id=2)
    with pytest.raises(PreconditionNotMet, match="num_trainers = 3"):
        chosen.resolved()
    assert chosen.resolved(process_group=True).num_trainers == 3


def test_endpoints_are_not_appended_to_in_vain() -> None:
    with pytest.raises(AttributeError):
        BuildStrategy().trainers_endpoints.append("a:1")  # type: ignore[attr-defined]


def test_a_trainer_beyond_the_number_of_trainers() -> None:
    with pytest.raises(InvalidArgument, match="trainer_id = 1 contradicts num_trainers = 1"):
        strategy(trainer_id=1).freeze()


def test_x_6_what_the_executor_is_told_replaces_the_fields_with_a_notice() -> None:
    chosen = strategy(num_trainers=4, trainer_id=3)
    with pytest.warns(Notice, match="num_trainers=2, trainer_id=1"):
        chosen.set_trainers(2, 1)
    assert (chosen.num_trainers, chosen.trainer_id) == (2, 1)
    for wrong_pair in ((0, 0), (3, -1), (3, "x")):
        with pytest.raises(InvalidArgument):
            chosen.set_trainers(*wrong_pair)  # type: ignore[arg-type]
        assert (chosen.num_trainers, chosen.trainer_id) == (2, 1)


# Freezing


@pytest.mark.parametrize("field", FIELDS)
def test_b_1_after_the_first_compile(field: str) -> None:
    build_strategy = BuildStrategy()
    settings = build_strategy.freeze(2)
    if field in EXEMPT:
        setattr(build_strategy, field, other(field))
        assert getattr(build_strategy, field) == kept(other(field)) and settings == BuildStrategy().resolved(2)
        assert "after the first compile" in getattr(BuildStrategy, field).__doc__
    else:
        with pytest.raises(PreconditionNotMet, match=f"BuildStrategy.{field} cannot be changed any more"):
            setattr(build_strategy, field, other(field))
        assert getattr(build_strategy, field) == DEFAULTS[field]


def test_paddles_way_to_freeze() -> None:
    def pass_(graph: Any) -> None: ...

    build_strategy = BuildStrategy()
    build_strategy.append_pass(pass_)
    assert build_strategy._finalize_strategy_and_create_passes() == (pass_,) and build_strategy.frozen
    with pytest.raises(PreconditionNotMet):
        build_strategy.exact = True
    assert build_strategy._finalize_strategy_and_create_passes() == (pass_,)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_a_copy_can_be_changed_again(duplicate: Any) -> None:
    chosen = strategy(reduce_strategy=Reduce, trainers_endpoints=["a:1"])
    chosen.append_pass(len)
    chosen.freeze(2)
    new = duplicate(chosen)
    assert not new.frozen and new.resolved(2) == chosen.resolved(2) and repr(new) == repr(chosen)
    new.reduce_strategy = AllReduce
    new.append_pass(max)
    assert chosen.reduce_strategy is Reduce and chosen.passes == (len,) and new.passes == (len, max)


def test_passes_are_callables_and_part_of_the_settings() -> None:
    build_strategy = BuildStrategy()
    build_strategy.append_pass(len)
    with pytest.raises(InvalidType, match="append_pass\n  expected: a callable\n  got:      'fuse'"):
        build_strategy.append_pass("fuse")  # type: ignore[arg-type]
    assert build_strategy.freeze().passes == (len,)
    with pytest.raises(PreconditionNotMet, match="append_pass"):
        build_strategy.append_pass(max)
    assert build_strategy.passes == (len,)
