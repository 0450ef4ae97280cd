"""`static.data`: rule P-15."""

import numpy as np
import pytest

from tests.builders.building import program
from workbench.builders.data import data
from workbench.errors import AlreadyExists, InvalidType, PreconditionNotMet, Unimplemented
from workbench.framework.op.evaluate import Evaluator
from workbench.framework.op.recorder import recording
from workbench.framework.program.guard import static_recorder


def test_p15_unknown_dimensions():
    with program():
        x = data("x", [None, -1, -7, 3])
        assert x.shape == (-1, -1, -1, 3)
        assert (x.name, x.dtype, x.stop_gradient, x.is_data, x.need_check_feed) == (
            "x",
            "float32",
            True,
            True,
            True,
        )
        assert not x.persistable


def test_p15_twice_is_the_existing_variable():
    with program() as (main, _):
        assert data("X", [None, 1]) is data("X", [None, 1], "float32")
        assert list(main.global_block().vars) == ["X"]


@pytest.mark.parametrize(("shape", "dtype"), [([None, 2], "float32"), ([None, 1], "int64"), ([1], "float32")])
def test_p15_twice_but_different(shape, dtype):
    with program():
        data("X", [None, 1])
        with pytest.raises(AlreadyExists, match=r"'X'.*float32\[\?, 1\]"):
            data("X", shape, dtype)


def test_a_name_of_another_kind_is_refused():
    with program() as (main, _):
        main.global_block().create_var("taken", (1,))
        with pytest.raises(AlreadyExists, match="taken"):
            data("taken", [1])


def test_integers_of_numpy_are_dimensions():
    with program():
        assert data("x", (np.int64(4), 2), np.float64).spec == data("x", [4, 2], "float64").spec


def test_dtypes_of_all_kinds():
    with program():
        assert [data(d, [1], d).dtype for d in ("bool", "uint8", "bfloat16")] == ["bool", "uint8", "bfloat16"]


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("x", [1.5]), InvalidType, "1.5"),
        (("x", [True]), InvalidType, "True"),
        (("x", "13"), InvalidType, "'13'"),
        (("x", 3), InvalidType, "3"),
        (("", [1]), InvalidType, "name"),
        ((None, [1]), InvalidType, "None"),
        (("x", [1], "float31"), InvalidType, "float32"),
        (("x", [1], "int64", 1), Unimplemented, "lod_level=1"),
    ],
)
def test_bad_declarations(arguments, error, message):
    with program() as (main, _), pytest.raises(error, match=message):
        data(*arguments)
    assert not main.global_block().vars


def test_in_dynamic_mode_it_says_what_to_call():
    with (
        recording(Evaluator(np)),
        pytest.raises(PreconditionNotMet, match=r"static\.data .*enable_static\(\)"),
    ):
        data("x", [1])
    with recording(static_recorder), program():
        data("x", [1])
