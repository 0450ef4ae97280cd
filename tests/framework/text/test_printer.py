"""Programs as text."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

from tests.framework import toys
from tests.framework.models import data, everything, nested, parameter, trained
from tests.framework.programs import ToyDecay
from workbench.framework.program.guard import default_main_program
from workbench.framework.program.operator import Operator
from workbench.framework.text.lexicon import name_text, quote, unquote, value_text
from workbench.framework.text.printer import block_text, operator_text, variable_text


def test_a_small_program() -> None:
    default_main_program().name, default_main_program().random_seed = "small", 7
    x, w = data("x", (-1, 4)), parameter("fc_0.w_0", (4, 2), regularizer=ToyDecay(0.5), trainable=False)
    hidden = toys.mul(x, w, name="fc_0")
    kept, _mask = toys.dropout(hidden, p=0.1)
    joined = toys.concat(toys.split(kept), axis=-1)
    toys.show(joined, text="done")
    assert (
        str(default_main_program())
        == inspect.cleandoc(
            """
        program "small" seed=7 streams=1
        block 0 {
          var %x: float32[?, 4] stop_gradient data check_feed
          parameter %fc_0.w_0: float32[4, 2] stop_gradient trainable=False regularizer=ToyDecay(coeff=0.5, plan=None)
          %fc_0.tmp_0: float32[?, 2] = toy_mul(X=%x, Y=%fc_0.w_0)
          Out=%toy_dropout_0.tmp_0: float32[?, 2], Mask=%toy_dropout_0.tmp_1: uint8[?, 2] = toy_dropout(X=%fc_0.tmp_0) {p=0.1, stream=1}
          Out=[%toy_split_0.tmp_0: float32[?, 2], %toy_split_0.tmp_1: float32[?, 2]] = toy_split(X=%toy_dropout_0.tmp_0)
          %toy_concat_0.tmp_0: float32[?, 2] = toy_concat(X=[%toy_split_0.tmp_0, %toy_split_0.tmp_1]) {axis=-1}
          toy_print(X=%toy_concat_0.tmp_0) {text="done"}
        }
        """  # noqa: E501
        )
        + "\n"
    )


def test_details_add_defaults_roles_and_places() -> None:
    toys.mul(data("x", (-1, 4)), parameter("w", (4, 2)))
    program = default_main_program()
    (op,) = program.global_block().ops
    assert op.site is not None
    place = f"  # {__file__}, line {op.site.line}"
    line = "%toy_mul_0.tmp_0: float32[?, 2] = toy_mul(X=%x, Y=%w) {transpose=False} role=Forward" + place
    assert line in program.to_string(with_details=True)
    assert repr(op) == operator_text(op) == "%toy_mul_0.tmp_0: float32[?, 2] = toy_mul(X=%x, Y=%w)"
    text = variable_text(program.global_block().var("w"), with_details=True)
    assert text.startswith("parameter %w: float32[4, 2] persistable=True trainable=True need_clip=True")


def test_roles_and_pairs() -> None:
    trained()
    text = str(default_main_program())
    assert "value=1.0} role=Backward|Loss\n" in text
    assert " role=Optimize role_var=[%fc_0.w_0, %fc_0.w_0@GRAD]\n" in text
    assert "lr_scheduler %learning_rate_0 = <Schedule>\n" in text


def test_blocks_are_inside_each_other() -> None:
    _, outer, _ = nested()
    text = str(default_main_program())
    assert "  block 1 {\n" in text and "    block 2 inputs=[%given] {\n      var %given: float32[?, 4]\n" in text
    assert "{block=block 1, outs=" in text
    assert block_text(outer) == outer.to_string()
    assert block_text(outer).startswith("block 1 {\n  %toy_relu_1.tmp_0: float32[?, 4] = toy_relu")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (True, "True"),
        (-3, "-3"),
        (10**30, "1" + "0" * 30),
        (0.1, "0.1"),
        (1e-5, "1e-05"),
        (1e300, "1e+300"),
        (-0.0, "-0.0"),
        (float("inf"), "inf"),
        (float("-inf"), "-inf"),
        (float("nan"), "nan"),
        ("a", '"a"'),
        ('"\\\n\t\x00é\u202e', '"\\"\\\\\\n\\t\\u0000é\\u202e"'),
        ([], "[]"),
        ((1,), "(1,)"),
        ((), "()"),
        ([1, (2.0, None)], "[1, (2.0, None)]"),
        ({"a b": 1}, '{"a b": 1}'),
        (np.float32(0.5), "0.5"),
        (np.int64(3), "3"),
        (np.True_, "True"),
        (np.array([1, 2], np.int32), "array(int32[2], [1, 2])"),
        (np.array(1.5), "array(float64[], [1.5])"),
        (np.zeros((0, 2), np.float16), "array(float16[0, 2], [])"),
        (np.arange(17, dtype=np.uint8), 'array(uint8[17], "AAECAwQFBgcICQoLDA0ODxA=")'),
        (np.array([1, 2], ">i4"), "array(int32[2], [1, 2])"),
        (np.array([1j]), "<array of complex128>"),
        (print, "<builtin_function_or_method>"),
    ],
)
def test_values(value: object, text: str) -> None:
    assert value_text(value) == text


@pytest.mark.parametrize("name", ["x", "fc_0.w_0@GRAD", "a/b", "größe", "3", "-x", "$a+b"])
def test_plain_names_are_bare(name: str) -> None:
    assert name_text(name) == "%" + name


@pytest.mark.parametrize("name", ["", "a b", "a:b", "a=b", "%", "#", "a,b", "(", '"', "x\n"])
def test_other_names_are_quoted(name: str) -> None:
    assert name_text(name) == "%" + quote(name) and unquote(quote(name)) == name


def test_what_is_wrong_prints_all_the_same() -> None:
    block = default_main_program().global_block()
    attrs = {"f": print, "n": [object()]}
    op = Operator(block, "no such op", {"A": ["gone", "@EMPTY@"]}, {"B": [], "C": ["gone"]}, attrs, None)
    block.ops.append(op)
    text = """B=[], C=%gone = "no such op"(A=[%gone, %@EMPTY@]) {f=<builtin_function_or_method>, n=[<object>]}"""
    assert operator_text(op) == text and text in str(default_main_program())


def test_a_variable_in_one_line() -> None:
    x = data("x", (-1, 4))
    assert x.to_string() == repr(x) == "Variable(x: float32[?, 4] data stop_gradient)"
    assert x.site is not None and x.to_string(with_details=True).endswith(f"at {x.site}")


def test_all_of_it_prints() -> None:
    assert '%"odd \\"name\\"\\n#%": int64[2, ?]' in str(everything())
