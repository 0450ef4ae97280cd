"""Cases of normalisation by summaries of all data so far; the reference goes channel by channel."""

from typing import Any

import numpy as np

from tests.ops.case import Case

RNG = np.random.default_rng(31)


def draw(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def reference(
    x: np.ndarray, size: Any, total: Any, squares: Any, scale: Any = None, bias: Any = None,
    data_layout: str = "NCHW", slot_dim: int = -1, enable_scale_and_shift: bool = False,
) -> tuple[Any, ...]:  # fmt: skip
    axis = 1 if data_layout == "NCHW" else x.ndim - 1
    y = np.moveaxis(np.array(x), axis, 0)
    means, scales = np.empty(len(size)), np.empty(len(size))
    for c in range(len(size)):
        means[c] = total[c] / size[c]
        scales[c] = (size[c] / squares[c]) ** 0.5
        y[c] = (y[c] - means[c]) * scales[c]
        if enable_scale_and_shift:
            y[c] = y[c] * scale[c] + bias[c]
    y = np.moveaxis(y, 0, axis)
    for row, slot in np.ndindex(len(x), x.shape[1] // slot_dim) if slot_dim > 0 else ():
        if abs(x[row, slot * slot_dim]) <= 1e-7:
            y[row, slot * slot_dim : (slot + 1) * slot_dim] = 0
    return y, means, scales


def summaries(channels: int) -> list[np.ndarray]:
    return [np.abs(draw(channels)) + 3, draw(channels), np.abs(draw(channels)) + 2]


SLOTS = draw(4, 6)
SLOTS[[0, 2], [0, 3]] = 0
SHIFTED = {"enable_scale_and_shift": True}
COMMON: dict[str, Any] = {"ref": reference, "outputs_grad": ("Y",)}
CASES = [
    Case("data_norm", [draw(5, 3), *summaries(3)], grad=("X",), id="rows", **COMMON),
    Case("data_norm", [draw(2, 3, 4), *summaries(3)], grad=("X",), id="channels first", **COMMON),
    Case(
        "data_norm", [draw(2, 4, 3), *summaries(3)], {"data_layout": "NHWC"}, grad=("X",), id="channels last", **COMMON
    ),
    Case(
        "data_norm",
        [draw(5, 3), *summaries(3), draw(3), draw(3)],
        SHIFTED,
        grad=("X", "scale_w", "bias"),
        id="shifted",
        **COMMON,
    ),
    Case(
        "data_norm",
        [SLOTS, *summaries(6), draw(6), draw(6)],
        {**SHIFTED, "slot_dim": 3},
        grad=("scale_w", "bias"),
        known={"X": (1,)},
        id="slots",
        **COMMON,
    ),
]
