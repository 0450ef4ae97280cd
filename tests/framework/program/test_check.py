"""The checker reports every kind of mistake, and nothing about sound programs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.framework import toys
from tests.framework.models import data, everything, nested, parameter, trained
from workbench.errors import InvalidArgument
from workbench.framework.op.record import OPS, Op
from workbench.framework.program.block import Block
from workbench.framework.program.guard import default_main_program
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.reading.check import check_program, problems
from workbench.framework.program.variable import Variable


@pytest.mark.parametrize("make", [trained, nested, everything, Program])
def test_sound_programs_pass(make: Callable[[], object]) -> None:
    make()
    assert problems(default_main_program()) == []
    check_program(default_main_program())


def op_of(program: Program, type: str) -> Operator:
    return next(op for op in program.all_ops() if op.type == type)


def unknown_op(p: Program) -> None:
    op_of(p, "toy_add").type = "toy_ad"


def unknown_slot(p: Program) -> None:
    op_of(p, "toy_mul").inputs["Z"] = ["x"]


def unknown_output(p: Program) -> None:
    op_of(p, "toy_mul").outputs["Z"] = ["x"]


def missing_slot(p: Program) -> None:
    del op_of(p, "toy_mul").inputs["Y"]


def two_for_one(p: Program) -> None:
    op_of(p, "toy_mul").inputs["Y"] *= 2


def none_for_one(p: Program) -> None:
    op_of(p, "toy_mul").inputs["Y"] = []


def empty_input(p: Program) -> None:
    op_of(p, "toy_mul").inputs["Y"] = ["@EMPTY@"]


def no_list(p: Program) -> None:
    op_of(p, "toy_mul").inputs["Y"] = "fc_0.w_0"  # type: ignore[assignment]


def undeclared_input(p: Program) -> None:
    op_of(p, "toy_mul").inputs["Y"] = ["fc_0.w_1"]


def undeclared_output(p: Program) -> None:
    op_of(p, "toy_mul").outputs["Out"] = ["nowhere"]


def twice_in_a_list(p: Program) -> None:
    x = p.global_block().var("x")
    toys.split(x)
    op_of(p, "toy_split").outputs["Out"] = ["toy_split_0.tmp_0"] * 2


def read_before_write(p: Program) -> None:
    ops = p.global_block().ops
    ops.insert(0, ops.pop(next(i for i, op in enumerate(ops) if op.type == "toy_mean")))


def never_written(p: Program) -> None:
    p.global_block().create_var("ghost", (-1, 2))
    op_of(p, "toy_relu").inputs["X"] = ["ghost"]


def declared_shape(p: Program) -> None:
    p.global_block().var("fc_0.tmp_0").shape = (-1, 3)


def declared_rank(p: Program) -> None:
    p.global_block().var("toy_relu_0.tmp_0").shape = (-1,)


def declared_dtype(p: Program) -> None:
    p.global_block().var("toy_relu_0.tmp_0").dtype = p.global_block().var("@LR_DECAY_COUNTER@").dtype


def declared_kind(p: Program) -> None:
    p.global_block().var("mean_0.tmp_0").kind = "rows"


def too_few_outputs(p: Program) -> None:
    toys.split(p.global_block().var("x"), num=3)
    op_of(p, "toy_split").outputs["Out"].pop()


def refused_by_the_rule(p: Program) -> None:
    p.global_block().var("fc_0.w_0").shape = (5, 2)


def missing_attribute(p: Program) -> None:
    del op_of(p, "toy_mul").attrs["transpose"]


def wrong_attribute(p: Program) -> None:
    op_of(p, "toy_dropout").attrs["p"] = "half"


def float_for_int(p: Program) -> None:
    op_of(p, "toy_dropout").attrs["seed"] = 1.5


def int_for_bool(p: Program) -> None:
    op_of(p, "toy_dropout").attrs["is_test"] = 1


def unknown_attribute(p: Program) -> None:
    op_of(p, "toy_mul").attrs["transposed"] = True


def missing_role(p: Program) -> None:
    del op_of(p, "toy_mul").attrs["op_role"]


def wrong_role(p: Program) -> None:
    op_of(p, "toy_mul").attrs["op_role"] = "Forward"


def odd_role_vars(p: Program) -> None:
    op_of(p, "toy_sgd").attrs["op_role_var"] = ["fc_0.w_0"]


def unknown_role_vars(p: Program) -> None:
    op_of(p, "toy_sgd").attrs["op_role_var"] = ["fc_0.w_0", "gone@GRAD"]


def wrong_block_number(p: Program) -> None:
    p.create_block().idx = 7


def wrong_parent(p: Program) -> None:
    p.create_block().parent_idx = 1


def root_with_a_parent(p: Program) -> None:
    p.global_block().parent_idx = 0


def no_blocks(p: Program) -> None:
    p.blocks = []


def stray_block(p: Program) -> None:
    p.blocks.append(Block(Program(), 1, 0))


def stray_operator(p: Program) -> None:
    p.global_block().ops.append(op_of(trained_elsewhere(), "toy_mul"))


def foreign_block(p: Program) -> None:
    _run(p, Block(Program(), 1, 0))


def block_beside(p: Program) -> None:
    first = p.create_block()
    p.rollback()
    second = p.create_block()
    p.rollback()
    with p.block_guard(first):
        _run(p, second)


def persistable_inside(p: Program) -> None:
    p.create_block().create_var("state", (1,), persistable=True)


def hidden_name(p: Program) -> None:
    p.create_block().create_var("x", (1,))


def hidden_parameter(p: Program) -> None:
    p.create_block().create_var("fc_0.w_0", (1,))


def wrong_key(p: Program) -> None:
    p.global_block().vars["alias"] = p.global_block().var("x")


def wrong_dimension(p: Program) -> None:
    p.global_block().var("fc_0.b_0").shape = (-2,)


def given_but_undeclared(p: Program) -> None:
    p.create_block().inputs = ["gone"]


def _run(p: Program, block: Block) -> None:
    attrs = {"block": block, "outs": (), "block_saved": (), "op_role": 0}
    p.current_block().add_operator("toy_run", {}, {"Out": []}, attrs, None)


def trained_elsewhere() -> Program:
    from tests.framework.models import built

    return built(trained)


BROKEN: list[tuple[Callable[[Program], None], str]] = [
    (unknown_op, "op 'toy_ad' in block 0 .*: there is no such op. Did you mean 'toy_add'"),
    (unknown_slot, "op 'toy_mul' .*: there is no input 'Z'; there is 'X', 'Y'"),
    (unknown_output, "op 'toy_mul' .*: there is no output 'Z'"),
    (missing_slot, "op 'toy_mul' .*: the input Y is missing"),
    (two_for_one, "op 'toy_mul' .*: the input Y takes one variable, got 2"),
    (none_for_one, "op 'toy_mul' .*: the input Y takes one variable, got 0"),
    (empty_input, "op 'toy_mul' .*: the input Y is empty"),
    (no_list, "op 'toy_mul' .*: the input Y is not a list of names but 'fc_0.w_0'"),
    (undeclared_input, "op 'toy_mul' .*: the input Y names 'fc_0.w_1', which is not declared. Did you mean 'fc_0.w_0'"),
    (undeclared_output, "op 'toy_mul' .*: the output Out names 'nowhere', which is not declared"),
    (twice_in_a_list, "op 'toy_split' .*: the output Out names one variable twice"),
    (read_before_write, "op 'toy_mean' .*: reads 'toy_relu_0.tmp_0' before anything writes it"),
    (never_written, "op 'toy_relu' .*: reads 'ghost' before anything writes it"),
    (declared_shape, r"op 'toy_mul' .* 'fc_0.tmp_0', declared as float32\[\?, 3\], but the op makes float32\[\?, 2\]"),
    (declared_rank, r"op 'toy_relu' .* declared as float32\[\?\]"),
    (declared_dtype, r"op 'toy_relu' .* declared as int64"),
    (declared_kind, r"op 'toy_mean' .* declared as rows float32\[1\]"),
    (too_few_outputs, "op 'toy_split' .*: the output Out has 3 values, got 2 names"),
    (refused_by_the_rule, "op 'toy_mul' .*: .*inner dimensions must be equal; expected: 4; got:      5"),
    (missing_attribute, "op 'toy_mul' .*: the attribute 'transpose' is missing"),
    (wrong_attribute, "op 'toy_dropout' .*: the attribute 'p' is of type float, got str 'half'"),
    (float_for_int, "op 'toy_dropout' .*: the attribute 'seed' is of type int, got float 1.5"),
    (int_for_bool, "op 'toy_dropout' .*: the attribute 'is_test' is of type bool, got int 1"),
    (unknown_attribute, "op 'toy_mul' .*: there is no attribute 'transposed'. Did you mean 'transpose'"),
    (missing_role, "op 'toy_mul' .*: the attribute 'op_role' is missing"),
    (wrong_role, "op 'toy_mul' .*: op_role is an int >= 0, got 'Forward'"),
    (odd_role_vars, "op 'toy_sgd' .*: op_role_var lists pairs"),
    (unknown_role_vars, "op 'toy_sgd' .*: op_role_var names 'gone@GRAD', which is not declared"),
    (wrong_block_number, "block 1 has the number 7"),
    (wrong_parent, "block 1 has the parent 1"),
    (root_with_a_parent, "block 0 has the parent 0"),
    (no_blocks, "there is no block"),
    (stray_block, "block 1 belongs to another program"),
    (stray_operator, "op 'toy_mul' stands in block 0 but belongs to another one"),
    (foreign_block, "op 'toy_run' .*: the attribute 'block' holds a block of another program"),
    (block_beside, "op 'toy_run' .*: the attribute 'block' holds block 2, which is not inside block 1"),
    (persistable_inside, "variable 'state' of block 1 is persistable"),
    (hidden_name, "variable 'x' of block 1 hides Variable.x: .* so that the block cannot read it"),
    (hidden_parameter, "variable 'fc_0.w_0' of block 1 hides Parameter"),
    (wrong_key, "variable 'alias' of block 0 is 'x' of block 0"),
    (wrong_dimension, "variable 'fc_0.b_0' of block 0 has the dimension -2"),
    (given_but_undeclared, "block 1 is given a value for 'gone', which it does not declare"),
]


@pytest.mark.parametrize(("breaks", "message"), BROKEN, ids=[f.__name__ for f, _ in BROKEN])
def test_every_mistake_is_reported(breaks: Callable[[Program], None], message: str) -> None:
    program = trained()
    breaks(program)
    mistakes = problems(program)
    assert len(mistakes) >= 1
    with pytest.raises(InvalidArgument, match=f"(?s)- {message}"):
        check_program(program)


def test_all_mistakes_are_listed_at_once() -> None:
    program = trained()
    for breaks in (missing_attribute, wrong_role, unknown_role_vars, wrong_dimension):
        breaks(program)
    with pytest.raises(InvalidArgument, match="has 4 problems:") as caught:
        check_program(program)
    assert len(str(caught.value).splitlines()) == 5


def test_the_users_line_is_named() -> None:
    program = trained()
    missing_attribute(program)
    assert "models.py, line" in problems(program)[0]


def test_a_rule_that_raises_anything_is_a_problem_not_a_crash() -> None:
    program = trained()

    def rule(x: object) -> object:
        raise ZeroDivisionError("oh")

    record = OPS["toy_relu"]
    try:
        OPS["toy_relu"] = Op("toy_relu", record.inputs, record.outputs, record.forward, rule)
        op_of(program, "toy_relu")._record = None
        assert [p for p in problems(program) if "shape rule fails with ZeroDivisionError: oh" in p]
    finally:
        OPS["toy_relu"] = record


def test_ints_do_for_floats_and_lists_for_tuples() -> None:
    x = data("x", (2,))
    toys.dropout(x, p=1)
    toys.constant(shape=[2], value=1)
    toys.dropout(x, p=np.float32(0.5))
    assert problems(default_main_program()) == []


# Order across blocks


def test_a_block_sees_what_was_written_before_its_operator() -> None:
    program, outer, _ = nested()
    assert problems(program) == []
    ops = program.global_block().ops
    ops.reverse()  # now the operator runs before what its block captures is written
    assert any("reads 'toy_relu_0.tmp_0' before anything writes it" in p for p in problems(program))
    assert outer.idx == 1


def test_a_block_reads_its_own_variables_only_after_writing_unless_given() -> None:
    program, _, inner = nested()
    inner.inputs = []
    assert any("reads 'given' before anything writes it" in p for p in problems(program))


def test_a_block_may_use_the_name_of_a_temporary_again() -> None:
    """Gradient blocks do: what they read and write under it is theirs."""
    program, _, inner = nested()
    inner.create_var("toy_relu_0.tmp_0", (-1, 4))
    assert any("block 2" in p and "reads 'toy_relu_0.tmp_0' before anything writes it" in p for p in problems(program))
    inner.insert_op(0, "toy_relu", inputs={"X": "given"}, outputs={"Out": "toy_relu_0.tmp_0"})
    assert problems(program) == []


def test_fed_and_persistable_variables_have_values() -> None:
    toys.relu(data("x", (2,)))
    toys.relu(parameter("w", (2,)))
    assert problems(default_main_program()) == []


def test_what_a_block_writes_outside_counts() -> None:
    program = default_main_program()
    x = data("x", (2,))
    block = program.global_block()
    block.create_var("y", (2,))
    inner = program.create_block()
    inner.append_op("toy_relu", inputs={"X": x}, outputs={"Out": "y"})
    program.rollback()
    _run(program, inner)
    toys.relu(block.var("y"))
    assert problems(program) == []


def test_blocks_run_by_many_operators_are_walked_once() -> None:
    program = default_main_program()
    chain = [program.create_block() for _ in range(30)]
    for _ in chain:
        program.rollback()
    for outer, inner in zip([program.global_block(), *chain], chain):
        with program.block_guard(outer):
            _run(program, inner)
            _run(program, inner)  # 2^30 ways through
    assert problems(program) == []


def test_one_report_per_variable() -> None:
    block = default_main_program().global_block()
    ghost = block.add_var(Variable(block, "ghost", (2,), data("x", (2,)).dtype))
    for _ in range(5):
        toys.relu(ghost)
    assert len(problems(default_main_program())) == 1
