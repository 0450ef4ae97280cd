"""ExecutionStrategy: fields, types, effects, what is settled at the first run (section 5.3)."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench as paddle
from workbench.errors import InvalidArgument, InvalidType
from workbench.executors.execution_strategy import ExecutionStrategy
from workbench.framework.notice import Notice

DEFAULTS = {
    "num_threads": 0,
    "num_iteration_per_drop_scope": 100,
    "num_iteration_per_run": 1,
    "use_experimental_executor": True,
    "allow_op_delay": False,
    "use_thread_barrier": False,
    "use_cuda": True,
    "_dry_run": False,
}
OURS = {"feed_split": "floor", "keep_temporaries": False, "timeout": 600.0}
ALL = DEFAULTS | OURS
WRONG_TYPE = {
    bool: [0, 1, "yes", None],
    int: [1.5, True, "4", None],
    float: ["1", None, True, 1j],
    str: [1, None, True],
}


def test_fields_and_defaults() -> None:
    strategy = paddle.static.ExecutionStrategy()
    assert {name: getattr(strategy, name) for name in ExecutionStrategy.OPTIONS} == ALL


@pytest.mark.parametrize(("field", "value"), [(name, bad) for name in ALL for bad in WRONG_TYPE[type(ALL[name])]])
def test_another_type_is_refused_by_name(field: str, value: Any) -> None:
    strategy = ExecutionStrategy()
    with pytest.raises(InvalidType, match=f"^ExecutionStrategy.{field}\n  expected: .+\n  got:      "):
        setattr(strategy, field, value)
    assert getattr(strategy, field) == ALL[field]


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("num_threads", -1, ">= 0"),
        ("num_iteration_per_drop_scope", -1, ">= 0"),
        ("num_iteration_per_run", 0, ">= 1"),
        ("feed_split", "round", "'floor' or 'ceil'"),
        ("timeout", 0, "a positive number of seconds"),
        ("timeout", -1.0, "a positive number of seconds"),
        ("timeout", math.inf, "a positive number of seconds"),
        ("timeout", math.nan, "a positive number of seconds"),
    ],
)
def test_a_value_out_of_range_is_refused(field: str, value: Any, expected: str) -> None:
    with pytest.raises(InvalidArgument, match=f"{field}\n  expected: .*{expected}\n  got:      {value!r}"):
        setattr(ExecutionStrategy(), field, value)


def test_an_unknown_field_comes_with_the_closest_name() -> None:
    with pytest.raises(AttributeError, match="Did you mean 'num_threads'"):
        ExecutionStrategy().num_thread = 4  # type: ignore[attr-defined]


@given(st.integers(1, 64), st.booleans())
def test_threads_that_were_not_chosen_are_settled_in_the_object(devices: int, use_cuda: bool) -> None:
    strategy = ExecutionStrategy()
    strategy.settle(devices, use_cuda)
    assert strategy.num_threads == devices * (4 if use_cuda else 2) and strategy.use_cuda is use_cuda
    strategy.settle(devices + 1, use_cuda)
    assert strategy.num_threads == devices * (4 if use_cuda else 2)


def test_threads_that_were_chosen_stay() -> None:
    strategy = ExecutionStrategy()
    strategy.num_threads = 3
    strategy.settle(8)
    assert strategy.num_threads == 3


@pytest.mark.parametrize("field", ALL)
def test_every_field_has_a_documented_effect(field: str) -> None:
    assert ExecutionStrategy.effect(field).kind in ("step", "notice")
    assert ExecutionStrategy.effect(field).reason in getattr(ExecutionStrategy, field).__doc__


@pytest.mark.parametrize("field", [f for f in ALL if ExecutionStrategy.effect(f).kind == "notice"])
def test_what_has_no_effect_is_told_once(field: str) -> None:
    strategy = ExecutionStrategy()
    setattr(strategy, field, not ALL[field])
    with pytest.warns(Notice, match=f"ExecutionStrategy.{field} = .* has no effect: ") as told:
        strategy.settle(2)
    strategy.settle(2)  # told again, it would be an error
    assert len(told) == 1


@pytest.mark.parametrize(("default_executor", "iterations", "told"), [(True, 1, 1), (False, 3, 0)])
def test_several_iterations_per_run_need_the_other_executor(
    default_executor: bool, iterations: int, told: int, recwarn: pytest.WarningsRecorder
) -> None:
    strategy = ExecutionStrategy()
    strategy.num_iteration_per_run, strategy.use_experimental_executor = 3, default_executor
    if told:
        with pytest.warns(Notice, match="num_iteration_per_run = 3 has no effect"):
            strategy.settle(2)
    else:
        strategy.settle(2)
    assert strategy.iterations == iterations and len(recwarn) == 0
