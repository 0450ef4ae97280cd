"""Leaving out what a run does not need (E-5)."""

from __future__ import annotations

import pytest

from tests.framework import toys
from tests.framework.models import data, forward, nested, parameter, trained
from workbench.errors import NotFound
from workbench.framework.program.guard import default_main_program
from workbench.framework.program.program import Program
from workbench.framework.program.reading.check import problems
from workbench.framework.program.reading.prune import prune
from workbench.framework.program.roles import OPTIMIZE


def types(program: Program) -> list[str]:
    return [op.type for op in program.global_block().ops]


def test_only_what_the_target_needs() -> None:
    forward()
    program = default_main_program()
    toys.show(program.global_block().var("x"))
    pruned = prune(program, ["fc_0.tmp_1"], ["x"])
    assert types(pruned) == ["toy_mul", "toy_add"]
    assert list(pruned.global_block().vars) == ["x", "fc_0.w_0", "fc_0.b_0", "fc_0.tmp_0", "fc_0.tmp_1"]
    assert problems(pruned) == [] and problems(program) == []
    assert len(program.global_block().ops) == 6


def test_a_fed_variable_is_a_leaf() -> None:
    loss = forward()
    pruned = prune(default_main_program(), [loss], ["toy_relu_0.tmp_0"])
    assert types(pruned) == ["toy_mean"] and list(pruned.global_block().vars) == ["toy_relu_0.tmp_0", loss.name]


def test_a_target_that_is_fed_needs_nothing() -> None:
    forward()
    pruned = prune(default_main_program(), ["fc_0.tmp_0", "x"], ["fc_0.tmp_0"])
    assert types(pruned) == [] and set(pruned.global_block().vars) == {"fc_0.tmp_0", "x"}


def test_feeds_nothing_needs_are_gone_and_unknown_ones_ignored() -> None:
    forward()
    data("label", (-1, 1))
    pruned = prune(default_main_program(), ["fc_0.tmp_0"], ["x", "label", "never"])
    assert "label" not in pruned.global_block().vars


def test_a_loss_needs_no_update() -> None:
    pruned = prune(trained(), ["mean_0.tmp_0"], ["x"])
    assert types(pruned) == ["toy_mul", "toy_add", "toy_dropout", "toy_relu", "toy_mean"]
    assert pruned.lr_schedulers == {}


def test_e5_updates_are_kept_with_what_they_need() -> None:
    program = trained()
    updates = [op for op in program.all_ops() if op.role & OPTIMIZE]
    pruned = prune(program, ["fc_0.tmp_0"], ["x"], keep_ops=updates)
    assert types(pruned) == ["toy_mul", "toy_constant", "toy_sgd"]
    assert pruned.lr_schedulers == program.lr_schedulers and problems(pruned) == []
    assert types(prune(program, [], [], keep_ops=updates)) == ["toy_constant", "toy_sgd"]


def test_a_parameter_wanted_after_the_step_needs_its_update() -> None:
    assert types(prune(trained(), ["fc_0.w_0"], ["x"])) == ["toy_constant", "toy_sgd"]


def test_the_last_value_counts_and_in_place_changes_chain() -> None:
    program = default_main_program()
    block = program.global_block()
    x = data("x", (2,))
    block.create_var("y", (2,))
    for _ in range(2):
        block.append_op("toy_relu", inputs={"X": x}, outputs={"Out": "y"})  # the first is overwritten
    for _ in range(3):
        block.append_op("toy_increment", inputs={"X": "y"}, outputs={"Out": "y"})
    pruned = prune(program, ["y"], ["x"])
    assert types(pruned) == ["toy_relu", *["toy_increment"] * 3]


def test_only_some_outputs_wanted() -> None:
    toys.split(data("x", (4, 2)), num=3)
    pruned = prune(default_main_program(), ["toy_split_0.tmp_1"], ["x"])
    assert pruned.global_block().ops[0].outputs["Out"] == [f"toy_split_0.tmp_{i}" for i in range(3)]
    assert problems(pruned) == []


def test_captured_values_are_kept() -> None:
    program, _, _ = nested()
    pruned = prune(program, ["run_1.tmp_0"], ["x"])
    assert types(pruned) == ["toy_relu", "toy_run"] and len(pruned.blocks) == 3
    assert problems(pruned) == []


def test_blocks_of_dropped_operators_go() -> None:
    program, _, _ = nested()
    pruned = prune(program, ["toy_relu_0.tmp_0"], ["x"])
    assert types(pruned) == ["toy_relu"] and len(pruned.blocks) == 1


def test_what_a_block_may_leave_alone_is_still_needed() -> None:
    program = default_main_program()
    x = data("x", (2,))
    block = program.global_block()
    y = toys.relu(x)
    inner = program.create_block()
    inner.append_op("toy_increment", inputs={"X": y}, outputs={"Out": y})
    program.rollback()
    block.append_op("toy_run", outputs={"Out": []}, attrs={"block": inner})
    assert types(prune(program, [y], ["x"])) == ["toy_relu", "toy_run"]


def test_parameters_stay_parameters() -> None:
    parameter("w", (2,), trainable=False)
    toys.relu(default_main_program().global_block().var("w"))
    pruned = prune(default_main_program(), ["toy_relu_0.tmp_0"])
    assert [p.trainable for p in pruned.all_parameters()] == [False]


def test_unknown_targets_are_named() -> None:
    forward()
    with pytest.raises(NotFound, match=r"no variable 'fc_0.tmp_7' to keep. Did you mean 'fc_0.tmp_"):
        prune(default_main_program(), ["fc_0.tmp_7"])
