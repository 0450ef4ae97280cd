"""Ops that stand for two or three others; references from the formulas."""

import math
from typing import Any

import numpy as np

from tests.ops.case import Case
from tests.ops.nn.cases_norm import BIAS, IMAGE, MEAN, NHWC, ROWS, SCALE, TOL, VARIANCE, batch_norm

rng = np.random.default_rng(25)
CHANNELS = [SCALE, BIAS, MEAN, VARIANCE]
OTHER, OTHER_ROWS = rng.standard_normal(IMAGE.shape), rng.standard_normal(ROWS.shape)
X, ROW, COLUMN = rng.standard_normal((4, 3)), rng.standard_normal(3), rng.standard_normal((4, 1))
ALL = ("float32", "float64", "float16")  # bfloat16: see test_fused.py

ACTS = {
    "relu": lambda x: np.where(x > 0, x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
    "gelu": lambda x: x * np.vectorize(lambda v: 0.5 * math.erfc(-v / math.sqrt(2)), otypes=[float])(x),
    "logsigmoid": lambda x: -np.log(1 + np.exp(-x)),
    "mish": lambda x: x * np.tanh(np.log(1 + np.exp(x))),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "softsign": lambda x: x / (1 + np.abs(x)),
}


def bn_act(*inputs: Any, act_type: str = "relu", **attrs: Any) -> tuple[Any, ...]:
    y, *statistics = batch_norm(*inputs, **attrs)
    return ACTS[act_type](y), *statistics


def bn_add_act(x: Any, z: Any, *channels: Any, act_type: str = "relu", **attrs: Any) -> tuple[Any, ...]:
    y, *statistics = batch_norm(x, *channels, **attrs)
    return ACTS[act_type](y + z), *statistics


def add_act(x: Any, y: Any, functor_list: Any, save_intermediate_out: bool = False) -> tuple[Any, Any]:
    total = x + y
    return ACTS[functor_list[0]](total), total if save_intermediate_out else None


def bn_case(id: str, inputs: list[Any], size0: bool = False, **attrs: Any) -> Case:
    return Case(
        "fused_batch_norm_act", inputs, attrs, bn_act, outputs_grad=("Y",), dtypes=ALL, tol=TOL, size0=size0, id=id,
    )  # fmt: skip


def bn_add_case(id: str, inputs: list[Any], size0: bool = False, **attrs: Any) -> Case:
    return Case(
        "fused_bn_add_activation", inputs, attrs, bn_add_act, outputs_grad=("Y",), dtypes=ALL, tol=TOL, size0=size0,
        id=id,
    )  # fmt: skip


def add_case(act: str, x: np.ndarray, y: np.ndarray, keep: bool, id: str = "", size0: bool = True) -> Case:
    attrs = {"functor_list": [act, "elementwise_add"], "save_intermediate_out": keep}
    return Case(
        "fused_elemwise_add_activation", [x, y], attrs, add_act, outputs_grad=("Out",), dtypes=ALL, size0=size0,
        tol={"float16": (1e-2, 5e-3)}, id=f"{act}{id}",
    )  # fmt: skip


CASES = [
    bn_case("images", [IMAGE, *CHANNELS]),
    bn_case("channels last, sigmoid", [NHWC, *CHANNELS], data_layout="NHWC", act_type="sigmoid"),
    bn_case("rows, no scale, tanh", [ROWS, None, BIAS, MEAN, VARIANCE], act_type="tanh"),
    bn_case("test, no bias", [IMAGE, SCALE, None, MEAN, VARIANCE], size0=True, is_test=True),
    bn_add_case("images", [IMAGE, OTHER, *CHANNELS]),
    bn_add_case("rows, no scale, sigmoid", [ROWS, OTHER_ROWS, None, BIAS, MEAN, VARIANCE], act_type="sigmoid"),
    bn_add_case("test", [IMAGE, OTHER, *CHANNELS], size0=True, is_test=True),
    *(add_case(act, X, ROW, True, ", kept") for act in ACTS),
    add_case("relu", X, COLUMN, False),
    add_case("tanh", ROW, X, False, size0=False),
    add_case("sigmoid", X, X[::-1], False),
]
