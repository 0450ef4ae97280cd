"""Batch and layer normalisation; references with Python loops over channels and rows."""

from typing import Any

import numpy as np

from tests.ops.case import Case

rng = np.random.default_rng(23)
IMAGE = rng.standard_normal((4, 3, 2, 5)) * 2 + 1
ROWS = rng.standard_normal((6, 3)) * 2 + 1
SCALE, BIAS = rng.random(3) + 0.5, rng.standard_normal(3)
MEAN, VARIANCE = rng.standard_normal(3), rng.random(3) + 0.5
CHANNELS = [SCALE, BIAS, MEAN, VARIANCE]


def batch_norm(
    x: np.ndarray, scale: Any, bias: Any, mean: np.ndarray, variance: np.ndarray,
    momentum: float = 0.9, epsilon: float = 1e-5, is_test: bool = False, data_layout: str = "NCHW",
    use_global_stats: bool = False, trainable_statistics: bool = False,
) -> tuple[np.ndarray, ...]:  # fmt: skip
    """Channel after channel; sums by Python's own, which add from left to right."""
    axis = 1 if data_layout == "NCHW" else x.ndim - 1
    lines = np.moveaxis(x, axis, 0)
    y = np.empty(x.shape)
    moved, used = np.empty((2, len(lines))), np.empty((2, len(lines)))
    for c, line in enumerate(lines):
        values = line.reshape(-1).tolist()
        own_mean = sum(values) / len(values) if values else 0.0
        own_variance = sum((v - own_mean) ** 2 for v in values) / len(values) if values else 0.0
        moved[:, c] = [
            momentum * mean[c] + (1 - momentum) * own_mean,
            momentum * variance[c] + (1 - momentum) * own_variance,
        ]  # fmt: skip
        if use_global_stats or (is_test and not trainable_statistics):
            own_mean, own_variance = mean[c], variance[c]
            moved[:, c] = mean[c], variance[c]
        inverse = (own_variance + epsilon) ** -0.5
        used[:, c] = own_mean, inverse
        line_out = (line - own_mean) * inverse * (1 if scale is None else scale[c]) + (0 if bias is None else bias[c])
        np.moveaxis(y, axis, 0)[c] = line_out
    return y, moved[0], moved[1], used[0], used[1]


def layer_norm(
    x: np.ndarray, scale: Any = None, bias: Any = None, epsilon: float = 1e-5, begin_norm_axis: int = 1
) -> tuple[np.ndarray, ...]:
    """Row after row."""
    blocks = x.reshape(int(np.prod(x.shape[:begin_norm_axis])), -1) if x.size else x.reshape(0, 1)
    ys, means, variances = [], [], []
    for block in blocks:
        values = block.tolist()
        mean = sum(values) / len(values)
        variance = sum((v - mean) ** 2 for v in values) / len(values)
        line = (block - mean) / (variance + epsilon) ** 0.5
        line = line if scale is None else line * scale.reshape(-1)
        ys.append(line if bias is None else line + bias.reshape(-1))
        means.append(mean)
        variances.append(variance)
    return np.array(ys).reshape(x.shape), np.array(means), np.array(variances)


TOL = {"float32": (1e-4, 1e-5), "float16": (1e-2, 1e-2), "bfloat16": (5e-2, 5e-2)}
ALL = ("float32", "float64", "float16", "bfloat16")


def batch(id: str, inputs: list[Any], size0: bool = False, **attrs: Any) -> Case:
    return Case(
        "batch_norm", inputs, attrs, batch_norm, outputs_grad=("Y",), dtypes=ALL, tol=TOL, size0=size0, id=id,
    )  # fmt: skip


def layer(id: str, inputs: list[Any], known: Any = None, **attrs: Any) -> Case:
    return Case(
        "layer_norm",
        inputs,
        attrs,
        layer_norm,
        outputs_grad=("Y",),
        dtypes=ALL,
        tol=TOL,
        known=known or {},
        id=id,
    )


DEEP = rng.standard_normal((3, 4, 2, 5)) * 3 - 1
W, B = rng.random(10) + 0.5, rng.standard_normal(10)
NHWC = np.ascontiguousarray(np.moveaxis(IMAGE, 1, -1))

CASES = [
    batch("images", [IMAGE, *CHANNELS]),
    batch("rows", [ROWS, *CHANNELS]),
    batch("sequences", [IMAGE[:, :, 0], *CHANNELS], momentum=0.5, epsilon=1e-3),
    batch("channels last", [NHWC, *CHANNELS], data_layout="NHWC"),
    batch("rows, channels last", [ROWS, *CHANNELS], data_layout="NHWC"),
    batch("test", [IMAGE, *CHANNELS], size0=True, is_test=True),
    batch("global statistics", [NHWC, *CHANNELS], size0=True, data_layout="NHWC", use_global_stats=True),
    batch("own statistics in a test", [IMAGE, *CHANNELS], is_test=True, trainable_statistics=True),
    batch("no scale", [IMAGE, None, BIAS, MEAN, VARIANCE]),
    batch("no bias", [IMAGE, SCALE, None, MEAN, VARIANCE]),
    batch("neither, test", [IMAGE, None, None, MEAN, VARIANCE], size0=True, is_test=True),
    layer("rows", [ROWS, SCALE, BIAS]),
    layer("two dimensions", [DEEP, W, B], {"X": (2, 3)}, begin_norm_axis=2),
    layer(
        "weights shaped as the block",
        [DEEP, W.reshape(2, 5), B.reshape(2, 5)],
        {"X": (2, 3)},
        begin_norm_axis=2,
    ),
    layer("all of a sample", [DEEP], begin_norm_axis=1, epsilon=1e-2),
    layer("no scale", [DEEP, None, B], {"X": (2, 3), "Bias": True}, begin_norm_axis=2),
    layer("no bias", [ROWS, SCALE]),
    Case(
        "layer_norm",
        [ROWS, rng.random(18)],
        {"begin_norm_axis": 0},
        layer_norm,
        outputs_grad=("Y",),
        dtypes=ALL,
        tol=TOL,
        known={"X": True},
        size0=False,
        id="everything",
    ),
]
