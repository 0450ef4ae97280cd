"""Applying ops in static mode: what is recorded, and what a user reads who got it wrong."""

from __future__ import annotations

import numpy as np
import pytest

from tests.framework import toys
from tests.framework.models import data, parameter
from workbench.errors import DtypeError, InvalidArgument, InvalidType, NotFound, ShapeError
from workbench.framework.op.declare import op
from workbench.framework.program.guard import default_main_program, program_guard, static_recorder
from workbench.framework.program.program import Program
from workbench.framework.values.spec import Spec


def test_one_op_is_recorded_with_everything() -> None:
    x, w = data("x", (-1, 4)), parameter("w", (2, 4))
    out = toys.mul(x, w, transpose=True)
    (operator,) = default_main_program().global_block().ops
    assert operator.type == "toy_mul"
    assert operator.inputs == {"X": ["x"], "Y": ["w"]} and operator.outputs == {"Out": [out.name]}
    assert operator.attrs == {"transpose": True, "op_role": 0}
    assert operator.site is not None and operator.site.file == __file__
    assert (out.shape, out.dtype.name, out.stop_gradient) == ((-1, 2), "float32", False)


def test_absent_inputs_and_outputs_have_no_slot() -> None:
    toys.dropout(data("x", (-1, 4)), is_test=True)
    (operator,) = default_main_program().global_block().ops
    assert list(operator.inputs) == ["X"] and list(operator.outputs) == ["Out"]


def test_list_slots() -> None:
    parts = toys.split(data("x", (4, 4)), num=3)
    joined = toys.concat(parts)
    first, second = default_main_program().global_block().ops
    assert first.outputs == {"Out": [p.name for p in parts]} and len(parts) == 3
    assert second.inputs == {"X": [p.name for p in parts]}
    assert joined.shape == (4, 4)


def test_outputs_that_are_no_floats_stop_gradients() -> None:
    kept, mask = toys.dropout(data("x", (2,)))
    assert not kept.stop_gradient and mask.stop_gradient


def test_a_wrong_shape_names_op_variables_both_sides_and_line() -> None:
    x, w = data("x", (-1, 4)), parameter("w", (3, 4))
    with pytest.raises(InvalidArgument) as caught:
        toys.mul(x, w)
    text = str(caught.value)
    assert isinstance(caught.value, ValueError)
    for part in (
        "op 'toy_mul': inner dimensions must be equal",
        "expected: 4",
        "got:      3",
        "input X: x float32[?, 4]",
        "input Y: w float32[3, 4]",
        f"at {__file__}, line ",
    ):
        assert part in text
    assert default_main_program().global_block().ops == []
    assert list(default_main_program().global_block().vars) == ["x", "w"]


def test_a_wrong_dtype_is_a_type_error_too() -> None:
    with pytest.raises(InvalidType, match=r"(?s)op 'toy_add': .*expected: float32.*got:      int64") as caught:
        toys.add(data("x", (2,)), data("y", (2,), "int64"))
    assert isinstance(caught.value, TypeError) and isinstance(caught.value, ValueError)


def test_lists_are_spelled_out() -> None:
    @op("toy_never", "X* -> Out", infer=_refuse)
    def never(xp, xs):  # type: ignore[no-untyped-def]
        return xs[0]

    from workbench.framework.op.record import OPS

    try:
        with pytest.raises(InvalidType, match=r"input X: a float32\[2\]; b float32\[3\]"):
            never([data("a", (2,)), data("b", (3,))])
    finally:
        del OPS["toy_never"]


def _refuse(xs: list[Spec]) -> Spec:
    raise DtypeError("never", "this", "that")


@pytest.mark.parametrize("value", [3, 2.5, np.zeros((2, 2)), "x", [1]])
def test_what_is_no_variable_is_refused(value: object) -> None:
    with pytest.raises(InvalidType, match="input Y takes a Variable in static mode, got"):
        toys.add(data("x", (2,)), value)
    assert default_main_program().global_block().ops == []


def test_a_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(InvalidType) as caught:
        toys.add(data("x", (2,)), np.zeros((100, 100)))
    assert len(str(caught.value).splitlines()[0]) < 200


def test_wrong_calls() -> None:
    x = data("x", (2,))
    with pytest.raises(NotFound, match=r"'toy_mul' has no attribute 'transpos'. Did you mean 'transpose'"):
        toys.mul(x, x, transpos=True)
    with pytest.raises(TypeError, match="'toy_relu' takes 1 inputs, got 2"):
        toys.relu(x, x)
    with pytest.raises(TypeError, match="'toy_add' needs its input Y"):
        toys.add(x)


def test_the_recorder_is_a_recorder() -> None:
    assert static_recorder.name == "static"


def test_shape_error_text() -> None:
    assert str(ShapeError("what", 1, 2)) == "what\n  expected: 1\n  got:      2"


def test_variables_of_another_program_are_refused() -> None:
    with program_guard(Program(), Program()):
        default_main_program().name = "other"
        theirs = data("z", (2,))
    with pytest.raises(InvalidArgument, match=r"(?s)input Y is 'z' of other, but the op is built in .*line "):
        toys.add(data("x", (2,)), theirs)
    assert default_main_program().global_block().ops == []
