"""`paddle.base`, the old door: its names are those of `paddle` and `static`."""

import numpy as np
import pytest

import workbench as paddle
from workbench import base
from workbench.base.dygraph.base import to_variable
from workbench.errors import InvalidType
from workbench.framework.program.guard import static_mode


def test_the_names_are_the_same_objects() -> None:
    assert base.Program is paddle.static.Program and base.CPUPlace is paddle.CPUPlace
    assert base.disable_dygraph is paddle.enable_static and base.in_dygraph_mode is paddle.in_dynamic_mode


def test_a_guard_computes_at_once_within_static_mode() -> None:
    with static_mode():
        assert not paddle.is_grad_enabled()
        with base.dygraph.guard():
            assert paddle.in_dynamic_mode() and paddle.is_grad_enabled()
            assert float(paddle.ones([]) + 1) == 2.0
        assert not paddle.in_dynamic_mode()


def test_to_variable_keeps_numpy_s_dtype() -> None:
    x = to_variable(np.ones(2), name="mine")
    assert (x.name, x.dtype) == ("mine", "float64")
    assert to_variable(x) is x and to_variable([1.0]).dtype == "float64"
    with pytest.raises(InvalidType, match="int 3"):
        to_variable(3)
