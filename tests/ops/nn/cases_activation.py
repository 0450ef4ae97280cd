"""Activations against their defining formulas in SciPy or plain Python; no input lies on a corner."""

import math

import numpy as np
import scipy.special
import scipy.stats

from tests.ops.case import Case
from tests.ops.math.cases_math import each

X = np.random.default_rng(23).normal(size=(4, 5)) * 2
LARGE = np.array([-1e3, -90.0, -19.0, -1e-3, 1e-3, 19.0, 90.0, 1e3])
HALF = {"float16": (1e-2, 3e-3)}


def softplus(x, beta=1.0, threshold=20.0):
    return x if x * beta > threshold else math.log1p(math.exp(x * beta)) / beta


def hard_swish(x, threshold=6.0, scale=6.0, offset=3.0):
    return x * min(max(x + offset, 0), threshold) / scale


def elu(x, alpha=1.0):
    return x if x > 0 else alpha * (math.exp(x) - 1)


def selu(x, scale=1.0507009873554805, alpha=1.6732632423543772):
    return scale * elu(x, alpha)


def celu(x, alpha=1.0):
    return max(x, 0) + min(0, alpha * (math.exp(x / alpha) - 1))


def gelu(x, approximate=False):
    if approximate:
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return x * scipy.stats.norm.cdf(x)


CASES = [
    Case("sigmoid", [X], ref=scipy.special.expit, tol=HALF),
    Case("sigmoid", [LARGE], ref=scipy.special.expit, id="large", grad=False, dtypes=("float32", "float64")),
    Case("sigmoid", [X], ref=scipy.special.expit, id="bfloat16", dtypes=("bfloat16",)),
    Case("tanh", [X], ref=each(lambda x: 1 - 2 / (math.exp(2 * x) + 1)), tol=HALF),
    Case("logsigmoid", [X], ref=scipy.special.log_expit, tol=HALF),
    Case("logsigmoid", [LARGE], ref=scipy.special.log_expit, id="large"),
    Case("relu", [X], ref=each(lambda x: x if x > 0 else 0.0)),
    Case("relu", [X], ref=each(lambda x: x if x > 0 else 0.0), id="bfloat16", dtypes=("bfloat16",)),
    Case("relu6", [X * 3], ref=each(lambda x: sorted((0, x, 6))[1])),
    Case("leaky_relu", [X], ref=each(lambda x: x if x > 0 else 0.02 * x)),
    Case("leaky_relu", [X], {"alpha": 0.3}, ref=each(lambda x, alpha: x if x > 0 else alpha * x), id="alpha"),
    Case("elu", [X], ref=each(elu), tol=HALF),
    Case("elu", [X], {"alpha": 0.4}, ref=each(elu), id="alpha", tol=HALF),
    Case("elu", [LARGE], ref=lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))), id="large"),
    Case("selu", [X], ref=each(selu), tol=HALF),
    Case("celu", [X], ref=each(celu), tol=HALF),
    Case("celu", [X], {"alpha": 2.5}, ref=each(celu), id="alpha", tol=HALF),
    Case("softplus", [X], ref=each(softplus), tol=HALF),
    Case("softplus", [X * 4], {"beta": 2.0, "threshold": 5.0}, ref=each(softplus), id="beta", tol=HALF),
    Case("softplus", [LARGE], ref=lambda x: np.logaddexp(0, x), id="large", tol={"float32": (1e-5, 1e-8)}),
    Case("softsign", [X], ref=each(lambda x: x / (1 + abs(x)))),
    Case("silu", [X], ref=lambda x: x * scipy.special.expit(x), tol=HALF),
    Case("swish", [X], ref=lambda x: x * scipy.special.expit(x), tol=HALF),
    Case(
        "swish",
        [X],
        {"beta": 1.7},
        ref=lambda x, beta: x * scipy.special.expit(beta * x),
        id="beta",
        tol=HALF,
    ),
    Case("gelu", [X], ref=gelu, tol=HALF),
    Case("gelu", [X], {"approximate": True}, ref=gelu, id="tanh", tol=HALF),
    Case("mish", [X], ref=lambda x: x * np.tanh(np.logaddexp(0, x)), tol=HALF),
    Case("tanh_shrink", [X], ref=each(lambda x: x - math.tanh(x)), tol=HALF),
    Case("hard_sigmoid", [X * 2], ref=each(lambda x: min(max(x / 6 + 0.5, 0), 1))),
    Case(
        "hard_sigmoid",
        [X],
        {"slope": 0.2, "offset": 0.4},
        ref=each(lambda x, slope, offset: min(max(slope * x + offset, 0), 1)),
        id="slope",
    ),
    Case("hard_swish", [X * 2], ref=each(hard_swish), tol=HALF),
    Case(
        "hard_swish",
        [X * 2],
        {"threshold": 4.0, "scale": 5.0, "offset": 1.0},
        ref=each(hard_swish),
        id="constants",
        tol=HALF,
    ),
    Case("brelu", [X], ref=each(lambda x: sorted((-1, x, 1))[1])),
    Case(
        "brelu",
        [X],
        {"t_min": -0.5, "t_max": 2.0},
        ref=each(lambda x, t_min, t_max: sorted((t_min, x, t_max))[1]),
        id="bounds",
    ),
]
