"""Options that have an effect in Paddle and none here: who uses one is told, and gets what they get without it."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest

import workbench as wb
from workbench import static
from workbench.framework.notice import Notice
from workbench.framework.program.guard import program_guard
from workbench.framework.program.program import Program


def cond(**options: Any) -> Any:
    x = static.data("x", [1])
    return static.nn.cond(x > 0, lambda: x * 2, lambda: x * -1, **options)


def while_loop(**options: Any) -> Any:
    return static.nn.while_loop(lambda i: i < 3, lambda i: [i + 1], [wb.zeros([1], "int64")], **options)


def batch_norm(**options: Any) -> Any:
    return static.nn.batch_norm(static.data("image", [None, 3, 4, 4]), **options)


def conv2d(**options: Any) -> Any:
    return static.nn.conv2d(static.data("image", [None, 3, 4, 4]), 2, 3, **options)


def create_global_var(**options: Any) -> Any:
    return static.create_global_var([1], 0.0, "float32", **options)


def built(layer: Callable[..., Any], **options: Any) -> str:
    """The program that a layer makes, as text."""
    main = Program()
    wb.enable_static()
    try:
        with program_guard(main, Program()), wb.utils.unique_name.guard():
            layer(**options)
    finally:
        wb.disable_static()
    return str(main)


CASES = [
    (cond, "return_names", ["y"]),
    (while_loop, "is_test", True),
    (batch_norm, "in_place", True),
    (batch_norm, "do_model_average_for_mean_and_var", False),
]


@pytest.mark.parametrize(("layer", "option", "value"), CASES)
def test_who_uses_one_is_told_once_at_their_line(layer: Callable[..., Any], option: str, value: Any) -> None:
    with pytest.warns(Notice, match=f"{layer.__name__}: {option} has no effect here") as told:
        program = built(layer, **{option: value})
    assert len(told) == 1 and told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", Notice)
        assert built(layer) == program


@pytest.mark.parametrize(
    ("layer", "option", "value"), [(conv2d, "use_cudnn", False), (create_global_var, "force_cpu", True)]
)
def test_what_has_none_on_a_cpu_in_paddle_either_is_not_told(
    layer: Callable[..., Any], option: str, value: Any
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", Notice)
        assert built(layer, **{option: value}) == built(layer)
