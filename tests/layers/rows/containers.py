"""Layers that hold layers; those without a `forward` are called through what they hold."""

import numpy as np

import workbench as wb
from tests.layers.row import Row

X = np.random.default_rng(9).standard_normal((5, 4))

nn = wb.nn


class Half(nn.Layer):
    def forward(self, x):
        return x / 2.0


def two(v, x, first="0.", second="1."):
    return (x @ v[f"{first}weight"] + v[f"{first}bias"]) @ v[f"{second}weight"] + v[f"{second}bias"]


ROWS = {
    "Layer": Row(Half, [X], lambda v, x: x / 2),
    "Sequential": Row(lambda: nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)), [X], two),
    "LayerList": Row(
        lambda: nn.LayerList([nn.Linear(4, 3), nn.Linear(3, 2)]),
        [X],
        two,
        call=lambda layers, x: layers[1](layers[0](x)),
    ),
    "LayerDict": Row(
        lambda: nn.LayerDict({"a": nn.Linear(4, 3), "b": nn.Linear(3, 2)}),
        [X],
        lambda v, x: two(v, x, "a.", "b."),
        call=lambda layers, x: layers["b"](layers["a"](x)),
    ),
    "ParameterList": Row(
        lambda: nn.ParameterList([wb.create_parameter([4], "float32") for _ in range(2)]),
        [X],
        lambda v, x: x * v["0"] + v["1"],
        call=lambda parameters, x: x * parameters[0] + parameters[1],
    ),
}
