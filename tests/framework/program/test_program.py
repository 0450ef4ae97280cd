"""Programs, blocks, variables and operators (rules P-10, P-11, P-15, P-16)."""

from __future__ import annotations

import copy

import pytest

from tests.framework import toys
from tests.framework.models import data, forward, nested, parameter, trained
from workbench.errors import AlreadyExists, InvalidArgument, InvalidType, NotFound, Unimplemented
from workbench.framework.program.guard import (
    default_main_program,
    default_startup_program,
    in_static_mode,
    program_guard,
)
from workbench.framework.program.program import Program
from workbench.framework.program.roles import BACKWARD, LOSS, OpRole, role_text
from workbench.framework.program.variable import Parameter


def test_p10_program_guard_switches_both_or_main_only() -> None:
    main, startup = default_main_program(), default_startup_program()
    a, b = Program(), Program()
    with program_guard(a, b):
        assert default_main_program() is a and default_startup_program() is b
        with program_guard(b):
            assert default_main_program() is b and default_startup_program() is b
    assert default_main_program() is main and default_startup_program() is startup


def test_p10_program_guard_restores_after_an_error() -> None:
    main = default_main_program()
    with pytest.raises(ZeroDivisionError), program_guard(Program(), Program()):
        _ = 1 / 0
    assert default_main_program() is main


@pytest.mark.parametrize("wrong", ["main", None, 3])
def test_program_guard_takes_programs(wrong: object) -> None:
    main = default_main_program()
    with pytest.raises(InvalidType, match="program_guard takes a Program"), program_guard(wrong):  # type: ignore[arg-type]
        pass
    with pytest.raises(InvalidType, match="startup_program"), program_guard(Program(), "x"):  # type: ignore[arg-type]
        pass
    assert default_main_program() is main


def test_p10_ops_go_to_the_current_block() -> None:
    program = default_main_program()
    x = data("x", (2,))
    inner = program.create_block()
    toys.relu(x)
    program.rollback()
    toys.relu(x)
    assert [len(b.ops) for b in program.blocks] == [1, 1]
    with program.block_guard(inner):
        toys.relu(x)
    assert [len(b.ops) for b in program.blocks] == [1, 2]
    assert program.current_block() is program.global_block()


def test_p11_parameters() -> None:
    frozen = parameter("w", (2,), trainable=False)
    assert frozen.persistable and frozen.stop_gradient and frozen.is_parameter
    free = parameter("v", (2,), stop_gradient=None)
    assert free.trainable and not free.stop_gradient and free.optimize_attr == {"learning_rate": 1.0}
    assert [p.name for p in default_main_program().all_parameters()] == ["w", "v"]


@pytest.mark.parametrize("shape", [(None, 2), (-3, 2), [-1, 2]])
def test_p15_unknown_dimensions_become_minus_one(shape: object) -> None:
    assert default_main_program().global_block().create_var("x", shape).shape == (-1, 2)  # type: ignore[arg-type]


@pytest.mark.parametrize("shape", ["ab", 3, [1.5], [[1]]])
def test_what_is_no_shape_is_refused(shape: object) -> None:
    with pytest.raises(InvalidType, match=r"'x': a (shape|dimension)"):
        default_main_program().global_block().create_var("x", shape)  # type: ignore[arg-type]
    assert not default_main_program().global_block().has_var("x")


def test_a_parameter_has_no_unknown_dimension() -> None:
    with pytest.raises(InvalidArgument, match="every dimension"):
        parameter("w", (-1, 2))


def test_p16_roles_combine() -> None:
    assert [int(r) for r in (OpRole.Forward, OpRole.Backward, OpRole.Optimize, OpRole.RPC, OpRole.Dist)] == [
        0,
        1,
        2,
        4,
        8,
    ]
    assert [int(r) for r in (OpRole.LRSched, OpRole.Loss, OpRole.NotSpecified)] == [0x10, 0x100, 0x1000]
    assert role_text(BACKWARD | LOSS) == "Backward|Loss" and role_text(0) == "Forward"


def test_p16_role_guard_marks_what_is_appended() -> None:
    program = default_main_program()
    x, w = data("x", (2,)), parameter("w", (2,))
    with program.role_guard(BACKWARD, [w, "w@GRAD"]):
        toys.relu(x)
    toys.relu(x)
    first, second = program.global_block().ops
    assert first.role == BACKWARD and first.attrs["op_role_var"] == ["w", "w@GRAD"]
    assert first.role_vars == [("w", "w@GRAD")]
    assert second.role == 0 and second.role_vars == [] and not second.has_attr("op_role_var")


def test_every_change_moves_the_version() -> None:
    program = default_main_program()
    seen = [program.version]

    def changed() -> bool:
        seen.append(program.version)
        return seen[-1] > seen[-2]

    x = data("x", (2,))
    assert changed()
    y = toys.relu(x)
    assert changed()
    op = y.op
    assert op is not None
    op.set_attr("op_role", 1)
    assert changed()
    op.rename_input("x", "x")
    assert changed()
    program.random_seed = 3
    assert changed()
    program.global_block().remove_op(0)
    assert changed()


def test_names_are_looked_up_outwards() -> None:
    _, outer, inner = nested()
    assert inner.find_var("x") is inner.var_recursive("x")
    assert inner.find_var("given") is inner.var("given")
    assert outer.find_var("given") is None
    with pytest.raises(NotFound, match=r"'gven'.*Did you mean 'given'"):
        inner.var_recursive("gven")
    with pytest.raises(NotFound, match="block 2 has no variable 'x'"):
        inner.var("x")


def test_a_name_is_taken_once() -> None:
    data("x", (2,))
    with pytest.raises(AlreadyExists, match="already has a variable 'x'"):
        data("x", (2,))
    with pytest.raises(AlreadyExists, match="already has a variable 'x'"):
        parameter("x", (2,))


def test_a_variable_without_a_name_gets_one() -> None:
    block = default_main_program().global_block()
    assert [block.create_var().name for _ in range(2)] == ["_generated_var_0", "_generated_var_1"]


def test_append_op_infers_what_was_left_open() -> None:
    block = default_main_program().global_block()
    data("x", (-1, 3), "int64")
    block.create_var("y")
    op = block.append_op("toy_relu", inputs={"X": "x"}, outputs={"Out": ["y"]})
    assert block.var("y").spec == block.var("x").spec
    assert op.input("X") == ["x"] and op.output("Out") == ["y"] and op.input("Z") == []
    assert op.input_arg_names == ["x"] and op.output_arg_names == ["y"]


def test_insert_and_prepend() -> None:
    block = default_main_program().global_block()
    x = data("x", (2,))
    toys.relu(x)
    block.prepend_op("toy_print", inputs={"X": x}, attrs={"text": "first"})
    block.insert_op(1, "toy_print", inputs={"X": x}, attrs={"text": "second"})
    assert [op.attrs.get("text") for op in block.ops] == ["first", "second", None]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        ({"type": "toy_rleu", "inputs": {"X": "x"}}, NotFound, "no op 'toy_rleu'. Did you mean 'toy_relu'"),
        ({"type": "toy_relu", "inputs": {"x": "x"}}, NotFound, "no slot 'x'; its slots are 'X'"),
        ({"type": "toy_relu", "inputs": {"X": "y"}}, NotFound, "no variable 'y'"),
        ({"type": "toy_relu", "inputs": {}}, Exception, "needs its input X"),
        ({"type": "toy_relu", "inputs": {"X": 3}}, InvalidType, "takes Variables or names, got 3"),
        ({"type": "toy_relu", "inputs": {"X": "x"}, "attrs": {"a": 1}}, NotFound, "no attribute 'a'"),
        ({"type": "toy_relu", "inputs": {"X": "x"}, "outputs": {"Out": "z"}}, NotFound, "no variable 'z'"),
        ({"type": "toy_relu", "inputs": {"X": "x"}, "outputs": {"Out": "w"}}, InvalidArgument, "declared otherwise"),
        ({"type": "toy_mul", "inputs": {"X": "x", "Y": "w"}}, InvalidArgument, "inner dimensions"),
    ],
)
def test_append_op_refuses_and_changes_nothing(call: dict, error: type, message: str) -> None:
    program = default_main_program()
    data("x", (-1, 3))
    parameter("w", (4, 2))
    version = program.version
    with pytest.raises(error, match=message):
        program.global_block().append_op(**call)
    assert program.global_block().ops == [] and program.version == version


def test_variables_have_no_value() -> None:
    x = data("x", (-1, 3))
    with pytest.raises(Unimplemented, match="run the program and fetch it"):
        x.numpy()
    with pytest.raises(InvalidType, match=r"static\.nn\.cond"):
        bool(x)
    with pytest.raises(InvalidType, match="cannot be iterated"):
        iter(x)
    assert x.lod() == [] and x.lod_level == 0


def test_the_op_of_a_variable_is_its_last_writer() -> None:
    trained()
    block = default_main_program().global_block()
    w = block.var("fc_0.w_0")
    assert w.op is not None and w.op.type == "toy_sgd"
    assert block.var("x").op is None


def test_random_ops_get_streams_of_their_own() -> None:
    x = data("x", (-1, 3))
    for _ in range(3):
        toys.dropout(x)
    toys.dropout(x, stream=9)
    block = default_main_program().global_block()
    assert [op.attrs["stream"] for op in block.ops] == [1, 2, 3, 9]


def test_listing() -> None:
    forward()
    program = default_main_program()
    assert {v.name for v in program.list_vars()} == set(program.global_block().vars)
    assert {v.name for v in program.persistables()} == {"fc_0.w_0", "fc_0.b_0"}
    assert all(isinstance(p, Parameter) for p in program.all_parameters())
    assert program.num_blocks == 1 and program.block(0) is program.global_block()
    assert repr(program) == "Program(5 ops, 2 parameters, 1 blocks)"


def test_a_deep_copy_is_a_clone() -> None:
    program = trained()
    copied = copy.deepcopy(program)
    assert copied.uid != program.uid and str(copied) == str(program)


def test_the_seed_is_an_int() -> None:
    with pytest.raises(InvalidType, match="random_seed is an int"):
        default_main_program().random_seed = True


def test_static_mode_is_on_here() -> None:
    assert in_static_mode()
