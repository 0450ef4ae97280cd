"""Activations."""

import math

import numpy as np

import workbench as wb
from tests.layers.row import Row

rng = np.random.default_rng(1)
X = rng.standard_normal((3, 4)) * 3
IMAGE = rng.standard_normal((2, 4, 3, 2))
SELU = 1.0507009873554805, 1.6732632423543772

erf = np.vectorize(math.erf)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def elu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * (np.exp(np.minimum(x, 0)) - 1))


def of(formula, make, x=X, **more):
    return Row(make, [x], lambda values, x: formula(x), **more)


nn = wb.nn
ROWS = {
    "CELU": of(lambda x: np.maximum(x, 0) + np.minimum(0, 0.5 * (np.exp(x / 0.5) - 1)), lambda: nn.CELU(0.5)),
    "ELU": of(lambda x: elu(x, 0.7), lambda: nn.ELU(0.7)),
    "GELU": of(lambda x: x * 0.5 * (1 + erf(x / math.sqrt(2))), lambda: nn.GELU()),
    "GELU/tanh": of(
        lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), lambda: nn.GELU(True)
    ),
    "GLU": of(lambda x: x[:, :2] * sigmoid(x[:, 2:]), lambda: nn.GLU()),
    "GLU/axis": of(lambda x: x[:, :2] * sigmoid(x[:, 2:]), lambda: nn.GLU(1), IMAGE),
    "Hardshrink": of(lambda x: np.where(np.abs(x) > 1.5, x, 0), lambda: nn.Hardshrink(1.5)),
    "Hardsigmoid": of(lambda x: np.clip(x / 6 + 0.5, 0, 1), lambda: nn.Hardsigmoid(), tolerance={"atol": 1e-6}),
    "Hardswish": of(lambda x: x * np.clip(x + 3, 0, 6) / 6, lambda: nn.Hardswish()),
    "Hardtanh": of(lambda x: np.clip(x, -2, 1.5), lambda: nn.Hardtanh(-2, 1.5)),
    "LeakyReLU": of(lambda x: np.where(x > 0, x, 0.2 * x), lambda: nn.LeakyReLU(0.2)),
    "LogSigmoid": of(lambda x: np.log(sigmoid(x)), lambda: nn.LogSigmoid()),
    "LogSoftmax": of(lambda x: np.log(softmax(x, 1)), lambda: nn.LogSoftmax(1), IMAGE),
    "Maxout": of(lambda x: np.stack([x[:, 0:2].max(1), x[:, 2:4].max(1)], 1), lambda: nn.Maxout(2), IMAGE),
    "Mish": of(lambda x: x * np.tanh(np.log1p(np.exp(x))), lambda: nn.Mish()),
    "RReLU": of(lambda x: np.where(x < 0, x * 0.3, x), lambda: nn.RReLU(0.1, 0.5), training=False),
    "ReLU": of(lambda x: np.maximum(x, 0), lambda: nn.ReLU()),
    "ReLU6": of(lambda x: np.clip(x, 0, 6), lambda: nn.ReLU6()),
    "SELU": of(lambda x: SELU[0] * elu(x, SELU[1]), lambda: nn.SELU()),
    "Sigmoid": of(sigmoid, lambda: nn.Sigmoid()),
    "Silu": of(lambda x: x * sigmoid(x), lambda: nn.Silu()),
    "Softmax": of(lambda x: softmax(x, 0), lambda: nn.Softmax(0)),
    "Softmax2D": of(lambda x: softmax(x, 1), lambda: nn.Softmax2D(), IMAGE),
    "Softplus": of(lambda x: np.log1p(np.exp(2 * x)) / 2, lambda: nn.Softplus(2)),
    "Softshrink": of(lambda x: np.sign(x) * np.maximum(np.abs(x) - 1.5, 0), lambda: nn.Softshrink(1.5)),
    "Softsign": of(lambda x: x / (1 + np.abs(x)), lambda: nn.Softsign()),
    "Swish": of(lambda x: x * sigmoid(x), lambda: nn.Swish()),
    "Tanh": of(np.tanh, lambda: nn.Tanh()),
    "Tanhshrink": of(lambda x: x - np.tanh(x), lambda: nn.Tanhshrink()),
    "ThresholdedReLU": of(lambda x: np.where(x > 0.5, x, 0), lambda: nn.ThresholdedReLU(0.5)),
    "PReLU": Row(lambda: nn.PReLU(4), [IMAGE], lambda v, x: np.where(x > 0, x, x * v["_weight"].reshape(1, 4, 1, 1))),
    "PReLU/one": Row(lambda: nn.PReLU(), [X], lambda v, x: np.where(x > 0, x, x * v["_weight"])),
    "PReLU/channels last": Row(
        lambda: nn.PReLU(2, data_format="NHWC"), [IMAGE], lambda v, x: np.where(x > 0, x, x * v["_weight"])
    ),
}
