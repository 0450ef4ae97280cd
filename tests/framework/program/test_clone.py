"""Copies of programs: rules P-20 … P-24."""

from __future__ import annotations

import numpy as np

from tests.framework import toys
from tests.framework.models import built, data, everything, forward, nested, trained
from tests.framework.programs import ToyDecay
from workbench.framework.program.block import Block
from workbench.framework.program.guard import default_main_program
from workbench.framework.program.operator import Operator
from workbench.framework.program.program import Program
from workbench.framework.program.reading.check import problems
from workbench.framework.program.roles import BACKWARD, OPTIMIZE, OpRole
from workbench.framework.program.variable import Parameter
from workbench.framework.text.serialize import program_to_json


def types(program: Program) -> list[str]:
    return [op.type for op in program.all_ops()]


def containers(program: Program) -> set[int]:
    """The identities of everything in a program that could be changed in place."""
    ids: set[int] = {id(program), id(program.blocks), id(program.attributes), id(program.lr_schedulers)}
    for block in program.blocks:
        ids |= {id(block), id(block.vars), id(block.ops), id(block.inputs)}
        for v in block.vars.values():
            ids.add(id(v))
            if isinstance(v, Parameter):
                ids |= {id(v.optimize_attr), id(v.regularizer)} - {id(None)}
        for op in block.ops:
            ids |= {id(op), id(op.inputs), id(op.outputs), id(op.attrs)}
            ids |= {id(names) for slots in (op.inputs, op.outputs) for names in slots.values()}
            ids |= {id(v) for v in op.attrs.values() if isinstance(v, list | dict | np.ndarray | Block)}
    return ids


def test_p20_p24_a_clone_has_everything_and_shares_nothing() -> None:
    program = everything()
    program.all_parameters()[0].regularizer = ToyDecay(0.1)
    copied = program.clone()
    assert program_to_json(copied, with_sites=True) == program_to_json(program, with_sites=True)
    assert copied.to_string(with_details=True) == program.to_string(with_details=True)
    assert containers(program).isdisjoint(containers(copied))
    assert copied.uid != program.uid
    assert all(op.block.program is copied for op in copied.all_ops())
    assert all(v.block.program is copied for v in copied.list_vars())


def test_p24_changing_one_leaves_the_other() -> None:
    program = trained()
    before = program.to_string(with_details=True)
    copied = program.clone()
    for op in list(copied.all_ops()):
        op.rename_input("x", "x")
        op.inputs.clear()
        op.attrs["op_role"] = 4
        op.attrs.get("op_role_var", []).append("more")
    for v in copied.list_vars():
        v.shape = (9,)
    copied.all_parameters()[0].optimize_attr["learning_rate"] = 2.0
    assert program.to_string(with_details=True) == before


def test_a_clone_goes_on_with_the_random_streams() -> None:
    program = trained()
    copied = program.clone()
    assert [op.attrs.get("stream") for op in copied.all_ops()] == [op.attrs.get("stream") for op in program.all_ops()]
    assert copied.next_stream() == program.next_stream() == 2


def test_variables_keep_their_order() -> None:
    program = trained()
    assert list(program.clone().global_block().vars) == list(program.global_block().vars)
    assert [p.name for p in program.clone().all_parameters()] == ["fc_0.w_0", "fc_0.b_0"]


def test_blocks_in_attributes_become_those_of_the_copy() -> None:
    program, _, _ = nested()
    copied = program.clone()
    first = copied.global_block().ops[-1].attrs["block"]
    assert first is copied.blocks[1] and copied.blocks[1].ops[-1].attrs["block"] is copied.blocks[2]
    assert copied.blocks[2].inputs == ["given"] and [b.parent_idx for b in copied.blocks] == [-1, 0, 1]


def test_schedulers_belong_to_the_learning_rate_wherever_it_is() -> None:
    program = trained()
    assert program.clone().lr_schedulers == program.lr_schedulers != {}
    assert program.clone(for_test=True).lr_schedulers == {}


def test_a_clone_made_while_building_is_not_under_construction() -> None:
    program = default_main_program()
    inner = program.create_block()
    with program.role_guard(OPTIMIZE, ["a", "b"]), program.block_guard(inner):
        copied = program.clone()
    assert copied.current_block() is copied.global_block()
    assert (copied.op_role, copied.op_role_var) == (0, [])


def test_p21_training_ops_go_and_what_only_they_named() -> None:
    program = trained()
    copied = program.clone(for_test=True)
    assert types(copied) == ["toy_mul", "toy_add", "toy_dropout", "toy_relu", "toy_mean"]
    names = set(copied.global_block().vars)
    assert names.isdisjoint({"learning_rate_0", "@LR_DECAY_COUNTER@", "fc_0.w_0@GRAD", "mean_0.tmp_0@GRAD"})
    assert {"x", "fc_0.w_0", "fc_0.b_0"} <= names
    assert problems(copied) == []


def test_p21_variables_no_operator_names_go_too() -> None:
    program = trained()
    data("unused", (3,))
    assert "unused" not in program.clone(for_test=True).global_block().vars
    assert "unused" in program.clone().global_block().vars


def test_p21_without_a_loss_gradient_everything_stays() -> None:
    program = default_main_program()
    forward()
    data("unused", (3,))
    with program.role_guard(BACKWARD):
        toys.relu(program.global_block().var("x"))
    copied = program.clone(for_test=True)
    assert types(copied) == types(program)
    assert list(copied.global_block().vars) == list(program.global_block().vars)


def test_p21_only_the_three_bits_decide() -> None:
    program = trained()
    x = program.global_block().var("x")
    for name, role in OpRole.__members__.items():
        with program.role_guard(role):
            toys.show(x, text=name)
    with program.role_guard(OpRole.Optimize | OpRole.LRSched):
        toys.show(x, text="both")
    kept = [op.attrs["text"] for op in program.clone(for_test=True).all_ops() if op.type == "toy_print"]
    assert kept == ["Forward", "RPC", "Dist", "Loss", "NotSpecified"]


def test_p21_is_test_is_set_in_all_blocks() -> None:
    program = default_main_program()
    x = data("x", (2,))
    inner = program.create_block()
    toys.dropout(x)
    program.rollback()
    toys.dropout(x)
    block = program.global_block()
    block.append_op("toy_run", outputs={"Out": []}, attrs={"block": inner})
    copied = program.clone(for_test=True)
    assert [op.attrs["is_test"] for op in copied.all_ops() if op.type == "toy_dropout"] == [True, True]
    assert [op.attrs["is_test"] for op in program.all_ops() if op.type == "toy_dropout"] == [False, False]
    assert not any("is_test" in op.attrs for op in copied.all_ops() if op.type != "toy_dropout")


def test_p21_parameters_keep_what_they_know() -> None:
    program = trained()
    w = program.all_parameters()[0]
    w.need_clip, w.optimize_attr["learning_rate"], w.regularizer = False, 0.5, ToyDecay(0.1)
    copied = program.clone(for_test=True).all_parameters()[0]
    assert isinstance(copied, Parameter) and copied.trainable and not copied.need_clip
    assert copied.optimize_attr == {"learning_rate": 0.5} and copied.regularizer.coeff == 0.1


def test_p22_before_or_after_minimize_the_forward_is_the_same() -> None:
    before = built(forward).clone(for_test=True)
    after = built(trained).clone(for_test=True)

    def described(op: Operator) -> tuple[object, ...]:
        return op.type, op.inputs, op.outputs, op.call_attrs()

    assert [described(op) for op in before.all_ops()] == [described(op) for op in after.all_ops()]
    assert list(before.global_block().vars) == list(after.global_block().vars)
    roles = [[op.role for op in p.all_ops()][-1] for p in (before, after)]
    assert roles == [0, 0x100]


def test_p22_what_was_saved_for_a_gradient_is_forgotten() -> None:
    nested()
    program = default_main_program()
    x = program.global_block().var("x")
    saved = program.global_block().var("saved_1")
    with program.role_guard(0x101):
        toys.constant(shape=(1,), value=1.0)
    with program.role_guard(BACKWARD):
        toys.show(saved)
    copied = program.clone(for_test=True)
    asked = [[op.attrs["block_saved"] for op in p.all_ops() if op.type == "toy_run"] for p in (program, copied)]
    assert asked == [[["toy_relu_1.tmp_0"], ["toy_add_0.tmp_0"]], [(), ()]]
    assert x.name in copied.global_block().vars and problems(copied) == []
    assert [op.attrs["block_saved"] for op in program.clone().all_ops() if op.type == "toy_run"] == asked[0]


def test_blocks_only_the_backward_ran_go() -> None:
    program = trained()
    inner = program.create_block()
    program.rollback()
    with program.role_guard(BACKWARD):
        program.global_block().append_op("toy_run", outputs={"Out": []}, attrs={"block": inner})
    other = program.create_block()
    program.rollback()
    program.global_block().append_op("toy_run", outputs={"Out": []}, attrs={"block": other})
    copied = program.clone(for_test=True)
    assert [b.idx for b in copied.blocks] == [0, 1]
    assert copied.global_block().ops[-1].attrs["block"] is copied.blocks[1]
    assert problems(copied) == []


def test_p23_metrics_survive() -> None:
    program = trained()
    toys.mean(program.global_block().var("toy_relu_0.tmp_0"))
    assert types(program.clone(for_test=True)).count("toy_mean") == 2


def test_the_step_counter_stays_where_something_draws() -> None:
    program = trained()
    block = program.global_block()
    block.create_var("@RNG_STEP@_0", (1,), "int64", persistable=True)
    program.rng_step = "@RNG_STEP@_0"
    assert program.clone(for_test=True).rng_step == program.clone().rng_step == "@RNG_STEP@_0"
    dropout = next(op for op in block.ops if op.type == "toy_dropout")
    dropout.attrs["op_role"] = BACKWARD
    copied = program.clone(for_test=True)
    assert copied.rng_step == "" and "@RNG_STEP@_0" not in copied.global_block().vars


def test_places_in_the_users_code_are_kept() -> None:
    program = trained()
    sites = {op.type: op.site for op in program.all_ops()}
    assert all(op.site == sites[op.type] for op in program.clone(for_test=True).all_ops() if op.type != "toy_constant")
