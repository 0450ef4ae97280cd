"""Arithmetic, powers, rounding, logarithms, comparisons and the choice between tensors.

References go another way than the ops: Python's `math` and `operator` element by element, or SciPy.
"""

import math
import operator
from functools import reduce

import numpy as np
import scipy.special

from tests.ops.case import Case

R = np.random.default_rng(17)
A = R.normal(size=(3, 4))
B = R.normal(size=(3, 4))
POSITIVE = R.uniform(0.3, 3.0, size=(3, 4))
FAR = R.uniform(0.5, 2.0, size=(3, 4)) * np.where(R.random((3, 4)) < 0.5, -1, 1)  # away from 0
INSIDE = R.uniform(-0.9, 0.9, size=(3, 4))
INTS = np.array([[-7, -3, 0], [2, 5, 9]])
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.5])


def each(function):
    """A reference that calls a Python function for one element of every input at a time."""

    def ref(*arrays, **attrs):
        whole = np.broadcast_arrays(*arrays)
        flat = [function(*(v.item() for v in values), **attrs) for values in zip(*(w.flat for w in whole), strict=True)]
        return np.array(flat).reshape(whole[0].shape) if flat else np.zeros(whole[0].shape)

    return ref


BROADCASTS = {
    "same": (A, B),
    "row": (A, B[0]),
    "column": (A, B[:, :1]),
    "one": (A, B[:1, :1]),
    "left": (B[0], A),
    "outer": (A[:, :1], B[:1]),
    "scalar": (A, np.array(0.7)),
    "both": (A[:, None, :], B[None, :, :1]),
}


def broadcasting(type, function, **fields):
    return [
        Case(
            type,
            list(pair),
            ref=each(function),
            id=name,
            size0=[[B[0], A[:0]]] if name == "left" else True,
            **fields,
        )
        for name, pair in BROADCASTS.items()
    ]


def binary(type, function, x, y, **fields):
    return Case(type, [x, y], ref=each(function), **fields)


def unary(type, function, x=A, **fields):
    return Case(type, [x], ref=each(function), **fields)


def round_half_away(x):
    return math.copysign(math.floor(abs(x) + 0.5), x)


BINARY = [
    *broadcasting("elementwise_add", operator.add),
    *broadcasting("elementwise_sub", operator.sub),
    *broadcasting("elementwise_mul", operator.mul),
    binary("elementwise_add", operator.add, INTS, INTS[0], id="integers"),
    binary("elementwise_add", operator.add, A, B, id="bfloat16", dtypes=("bfloat16",)),
    binary("elementwise_mul", operator.mul, INTS, INTS[:1], id="integers"),
    binary("elementwise_div", operator.truediv, A, FAR),
    binary("elementwise_div", operator.truediv, A, FAR[0], id="row"),
    binary("elementwise_div", operator.truediv, A[:, :1], FAR, id="column"),
    # Python's % takes the sign of the divisor, as Paddle's does
    binary("elementwise_mod", operator.mod, A * 3, FAR, tol={"float16": (2e-2, 2e-2)}),
    binary("elementwise_mod", operator.mod, INTS, np.array([4, -3, 5]), id="integers"),
    binary("elementwise_floordiv", operator.floordiv, INTS, np.array([4, -3, 5])),
    binary("elementwise_floordiv", operator.floordiv, A * 5, FAR, id="floats", dtypes=("float32", "float64")),
    binary("elementwise_max", max, A, B),
    binary("elementwise_max", max, A, B[0], id="row"),
    binary("elementwise_min", min, A, B),
    binary("elementwise_min", min, A[:, :1], B, id="column"),
    binary("elementwise_max", max, INTS, INTS[::-1], id="integers"),
    binary("elementwise_pow", math.pow, POSITIVE, B),
    binary("elementwise_pow", math.pow, POSITIVE, B[0], id="row"),
    binary("elementwise_pow", math.pow, np.abs(INTS), np.array([2, 3, 0]), id="integers"),
    Case(
        "elementwise_pow",
        [np.array([0.0, 0.0, 2.0]), np.array([2.0, 3.0, 3.0])],
        ref=each(math.pow),
        id="zero base",
    ),
]


def no_gradient(type, function, x=FAR * 3, **fields):
    """Functions whose derivative is 0 wherever it exists."""
    return unary(type, function, x, **fields)


UNARY = [
    unary("exp", math.exp),
    unary("log", math.log, POSITIVE),
    unary("log2", math.log2, POSITIVE),
    unary("log10", math.log10, POSITIVE),
    unary("log1p", math.log1p, POSITIVE),
    unary("log1p", math.log1p, np.array([1e-12, -1e-9, 1e-5]), id="near 0", dtypes=("float64",)),
    unary("sqrt", math.sqrt, POSITIVE),
    unary("rsqrt", lambda x: math.pow(x, -0.5), POSITIVE),
    unary("square", lambda x: x * x),
    unary("square", lambda x: x * x, INTS, id="integers"),
    unary("reciprocal", lambda x: 1 / x, FAR),
    unary("sin", math.sin),
    unary("tan", math.tan, POSITIVE / 3),
    unary("asin", math.asin, INSIDE),
    unary("acos", math.acos, INSIDE),
    unary("atan", math.atan),
    unary("sinh", math.sinh),
    unary("cosh", math.cosh),
    unary("expm1", math.expm1),
    unary("trunc", math.trunc, FAR * 3.3),
    unary("cos", math.cos),
    Case("erf", [np.linspace(-4, 4, 33)], ref=scipy.special.erf),
    unary("abs", abs, FAR),
    unary("abs", abs, INTS, id="integers"),
    no_gradient("sign", lambda x: math.copysign(1, x)),
    unary("sign", lambda x: (x > 0) - (x < 0), INTS, id="integers"),
    no_gradient("floor", math.floor),
    no_gradient("ceil", math.ceil),
    no_gradient("round", round_half_away),
    unary("round", round_half_away, np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, -0.2]), id="halves", grad=False),
    # adding a half and rounding down would give 1
    Case(
        "round",
        [np.array([0.49999999999999994])],
        ref=lambda x: np.zeros(1),
        id="below a half",
        grad=False,
        dtypes=("float64",),
    ),
    unary("isnan_v2", math.isnan, SPECIAL),
    unary("isinf_v2", math.isinf, SPECIAL),
    unary("isfinite_v2", math.isfinite, SPECIAL),
    unary("isnan_v2", math.isnan, INTS, id="integers"),
]


def python_scale(x, scale=1.0, bias=0.0, bias_after_scale=True):
    return x * scale + bias if bias_after_scale else (x + bias) * scale


def python_clip(x, min=None, max=None):
    low = -math.inf if min is None else min
    high = math.inf if max is None else max
    return sorted((low, x, high))[1]


WITH_NUMBERS = [
    Case("scale", [A], {"scale": 2.5}, ref=each(python_scale)),
    Case("scale", [A], {"bias": -0.75}, ref=each(python_scale), id="bias"),
    Case("scale", [A], {"scale": -3.0, "bias": 0.5}, ref=each(python_scale), id="both"),
    Case(
        "scale",
        [A],
        {"scale": -3.0, "bias": 0.5, "bias_after_scale": False},
        ref=each(python_scale),
        id="bias first",
    ),
    Case("scale", [INTS], {"scale": -1.0, "bias": 4}, ref=each(python_scale), id="integers"),
    Case("scale", [A], {"scale": 2.5}, ref=each(python_scale), id="bfloat16", dtypes=("bfloat16",)),
    *[
        Case(
            "pow",
            [POSITIVE],
            {"factor": f},
            ref=each(lambda x, factor: math.pow(x, factor)),
            id=f"factor {f}",
            tol={"float16": (1e-2, 1e-2)},
        )
        for f in (2.0, 0.5, -1.0, 1.0, 0.0, 3.0, -1.7)
    ],
    Case("pow", [A], {"factor": 3.0}, ref=each(lambda x, factor: math.pow(x, factor)), id="negative base"),
    Case("pow", [INTS], {"factor": 3.0}, ref=each(lambda x, factor: x**3), id="integers"),
    Case("increment", [np.array([4.0])], {"step": 2.0}, ref=lambda x, step: x + 2),
    Case("increment", [np.array([4])], {"step": 1.0}, ref=lambda x, step: np.array([5]), id="integers"),
    Case("clip", [A], {"min": -0.5, "max": 0.75}, ref=each(python_clip)),
    Case("clip", [A], {"min": 0.25}, ref=each(python_clip), id="min"),
    Case("clip", [A], {"max": 0.25}, ref=each(python_clip), id="max"),
    Case("clip", [A], ref=each(python_clip), id="open"),
    Case("clip", [INTS], {"min": -2, "max": 5.0}, ref=each(python_clip), id="integers"),
    Case("cast", [A], {"dtype": "float64"}, ref=lambda x, dtype: x),
    Case(
        "cast",
        [A],
        {"dtype": "float16"},
        ref=lambda x, dtype: x,
        id="narrower",
        grad=False,
        dtypes=("float16",),
    ),
    Case("cast", [A * 3], {"dtype": "int32"}, ref=each(lambda x, dtype: int(x)), id="to integers", grad=False),
    Case("cast", [INTS], {"dtype": "bool"}, ref=each(lambda x, dtype: x != 0), id="to bool"),
    Case("cast", [INTS.astype("int64")], {"dtype": "float32"}, ref=each(lambda x, dtype: float(x)), id="to floats"),
    Case(
        "cast",
        [A],
        {"dtype": "bfloat16"},
        ref=lambda x, dtype: x,
        id="to bfloat16",
        grad=False,
        tol=dict.fromkeys(("float16", "float32", "float64"), (8e-3, 0)),
    ),
    Case("sum", [[A, B, A * B]], ref=lambda xs: reduce(operator.add, xs)),
    Case("sum", [[A]], ref=lambda xs: xs[0], id="one"),
    Case("sum", [[INTS, INTS]], ref=lambda xs: xs[0] * 2, id="integers"),
]


# Choice and comparisons

CONDITION = R.random((3, 4)) < 0.5
CHOICE = [
    Case("where", [CONDITION, A, B], ref=each(lambda c, x, y: x if c else y)),
    Case("where", [CONDITION[:, :1], A[0], B], ref=each(lambda c, x, y: x if c else y), id="broadcast"),
    Case(
        "where",
        [CONDITION, INTS[:, :1][:1], INTS[:1, 2:]],
        ref=each(lambda c, x, y: x if c else y),
        id="integers",
    ),
    # what is not chosen may be anything
    Case(
        "where",
        [np.array([True, False]), np.array([1.0, np.nan]), np.array([np.inf, 2.0])],
        ref=each(lambda c, x, y: x if c else y),
        id="special",
        grad=False,
    ),
    Case(
        "where",
        [CONDITION, A, B],
        ref=each(lambda c, x, y: x if c else y),
        id="bfloat16",
        dtypes=("bfloat16",),
    ),
]

TIED = np.where(CONDITION, A, B)
COMPARISONS = {
    "equal": operator.eq,
    "not_equal": operator.ne,
    "less_than": operator.lt,
    "less_equal": operator.le,
    "greater_than": operator.gt,
    "greater_equal": operator.ge,
}
LOGIC = {
    "logical_and": lambda x, y: bool(x and y),
    "logical_or": lambda x, y: bool(x or y),
    "logical_xor": lambda x, y: bool(x) != bool(y),
}
COMPARE = [
    case
    for type, function in COMPARISONS.items()
    for case in (
        binary(type, function, A, TIED),
        binary(type, function, A, TIED[:, :1], id="broadcast"),
        binary(type, function, INTS, np.array([2, -3, 0]), id="integers"),
        binary(type, function, SPECIAL, SPECIAL[::-1], id="special"),
    )
]
LOGICAL = [
    case
    for type, function in LOGIC.items()
    for case in (
        binary(type, function, CONDITION, CONDITION[0]),
        binary(type, function, INTS, np.array([2, 0, 0]), id="integers"),
    )
]

CASES = [
    *BINARY,
    *UNARY,
    *WITH_NUMBERS,
    *CHOICE,
    *COMPARE,
    *LOGICAL,
    unary("logical_not", operator.not_, CONDITION),
    unary("logical_not", operator.not_, INTS, id="integers"),
]
