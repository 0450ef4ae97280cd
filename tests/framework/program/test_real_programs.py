"""What users build, with layers, control flow, backward and updates, through every function of the framework."""

from __future__ import annotations

import pytest

import workbench as wb
from workbench.framework import names
from workbench.framework.program.guard import default_startup_program, program_guard
from workbench.framework.program.program import Program
from workbench.framework.program.reading.check import problems
from workbench.framework.program.reading.prune import prune
from workbench.framework.program.roles import OPTIMIZE
from workbench.framework.text.parser import parse_program
from workbench.framework.text.serialize import program_from_json, program_to_json


def network() -> tuple[wb.static.Variable, wb.static.Variable]:
    x = wb.static.data("x", [None, 4])
    h = wb.nn.functional.dropout(wb.static.nn.fc(x, 4, activation="relu"), 0.1)
    y = wb.static.nn.cond(wb.mean(h) > 0, lambda: h * 2, lambda: wb.tanh(h))
    count = wb.full([1], 0, "int64")
    _, z = wb.static.nn.while_loop(lambda i, z: i < 3, lambda i, z: [i + 1, wb.tanh(z) + h], [count, y])
    return z, wb.mean(z)


def built(train: bool) -> tuple[Program, Program, str, str]:
    with names.guard(), program_guard(Program(), Program()):
        out, loss = network()
        program = loss.block.program
        if train:
            decay = wb.regularizer.L2Decay(1e-4)
            wb.optimizer.Adam(wb.optimizer.lr.StepDecay(0.1, 3), weight_decay=decay).minimize(loss)
        return program, default_startup_program(), out.name, loss.name


@pytest.fixture(params=[False, True], ids=["forward", "trained"])
def programs(request: pytest.FixtureRequest) -> list[Program]:
    main, startup, out, _ = built(request.param)
    return [main, startup, main.clone(), main.clone(for_test=True), prune(main, [out], ["x"])]


def test_all_are_sound(programs: list[Program]) -> None:
    assert [problems(program) for program in programs] == [[]] * 5


def test_all_come_back_from_text_and_json(programs: list[Program]) -> None:
    for program in programs:
        text, json = str(program), program_to_json(program)
        for read in (parse_program(text), parse_program(program.to_string(with_details=True)), program_from_json(json)):
            assert str(read) == text and program_to_json(read) == json
            assert problems(read) == []


def test_p22_before_or_after_minimize_the_test_clone_is_the_same() -> None:
    before, after = (str(built(train)[0].clone(for_test=True)) for train in (False, True))
    assert after.replace(" role=Loss", "") == before


def test_pruned_programs_hold_no_more_than_they_need() -> None:
    main, _, out, loss = built(True)
    pruned = prune(main, [out], ["x"])
    assert all(not op.role for op in pruned.all_ops()) and len(pruned.blocks) == 5
    updates = [op for op in main.global_block().ops if op.role & OPTIMIZE]
    kept = prune(main, [loss], ["x"], keep_ops=updates)
    assert len(list(kept.all_ops())) == len(list(main.all_ops())) and kept.lr_schedulers == main.lr_schedulers
    assert prune(main, ["x"], ["x"]).global_block().ops == []
