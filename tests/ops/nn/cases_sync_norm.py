"""Batch normalisation in two halves. References go channel by channel over the whole batch, of which X is a part."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tests.ops.case import Case
from tests.ops.nn.cases_norm import ALL, TOL, batch_norm

rng = np.random.default_rng(24)
WHOLE = rng.standard_normal((9, 3, 2, 5)) * 2 + 1
G = rng.standard_normal(WHOLE.shape)
SCALE, BIAS = rng.random(3) + 0.5, rng.standard_normal(3)
MEAN, VARIANCE = rng.standard_normal(3), rng.random(3) + 0.5
MINE = slice(2, 6)  # the rows of the device that is looked at


def channels_last(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


def lines(x: np.ndarray, layout: str = "NCHW") -> Iterator[list[float]]:
    """The values of every channel."""
    for line in np.moveaxis(x, 1 if layout == "NCHW" else -1, 0):
        yield line.reshape(-1).tolist()


def total(x: np.ndarray, layout: str = "NCHW") -> np.ndarray:
    """Valid sums with the simplest anchor there is, 0."""
    return np.array([[len(v), 0, 0, sum(v), 0, sum(e * e for e in v)] for v in lines(x, layout)]).T


def recovers(x: np.ndarray, layout: str, places: int) -> Callable[[np.ndarray], None]:
    """Whatever the anchors are: the sums tell the count, the sum and the sum of squares of x."""

    def check(sums: np.ndarray) -> None:
        want = total(x, layout)
        count, anchors, squares, first, along, second = sums
        np.testing.assert_array_equal(count, want[0])
        np.testing.assert_allclose(anchors + first, want[3], rtol=10.0**-places)
        np.testing.assert_allclose(squares + 2 * along + second, want[5], rtol=10.0**-places)

    return check


def sums_case(id: str, x: np.ndarray, dtypes: tuple[str, ...], places: int, data_layout: str = "NCHW") -> Case:
    return Case(
        "batch_norm_sums", [x], {"data_layout": data_layout}, check=recovers(x, data_layout, places), dtypes=dtypes,
        tol=TOL, id=id,
    )  # fmt: skip


def forward_case(id: str, whole: np.ndarray, scale: Any = SCALE, bias: Any = BIAS, **attrs: Any) -> Case:
    def ref(x: Any, scale: Any, bias: Any, mean: Any, variance: Any, sums: Any, **attrs: Any) -> tuple[Any, ...]:
        y, *statistics = batch_norm(whole, scale, bias, mean, variance, **attrs)
        return y[MINE], *statistics

    sums = total(whole, attrs.get("data_layout", "NCHW"))
    return Case(
        "batch_norm_with_sums", [whole[MINE], scale, bias, MEAN, VARIANCE, sums], attrs, ref, dtypes=("float64",), id=id
    )


def used(whole: np.ndarray, layout: str) -> tuple[np.ndarray, np.ndarray]:
    """Mean and inverse deviation of every channel."""
    means = np.array([sum(v) / len(v) for v in lines(whole, layout)])
    squares = [sum((e - m) ** 2 for e in v) / len(v) for v, m in zip(lines(whole, layout), means, strict=True)]
    return means, (np.array(squares) + 1e-5) ** -0.5


def back_sums(x: np.ndarray, mean: Any, inverse: Any, g: np.ndarray, data_layout: str = "NCHW") -> np.ndarray:
    sums = []
    for values, slopes, m, i in zip(lines(x, data_layout), lines(g, data_layout), mean, inverse, strict=True):
        along = sum(s * (v - m) * i for v, s in zip(values, slopes, strict=True))
        sums.append((len(values), sum(slopes), along))
    return np.array(sums).T


def back_sums_case(id: str, whole: np.ndarray, g: np.ndarray, data_layout: str = "NCHW") -> Case:
    inputs = [whole[MINE], *used(whole, data_layout), g[MINE]]
    return Case("batch_norm_grad_sums", inputs, {"data_layout": data_layout}, back_sums, dtypes=ALL, tol=TOL, id=id)


def back_case(id: str, whole: np.ndarray, g: np.ndarray, scale: Any = SCALE, bias: Any = BIAS, **attrs: Any) -> Case:
    """The gradient of x through (x - mean) / deviation as a matrix of derivatives, channel by channel."""
    layout = attrs.get("data_layout", "NCHW")
    mean, inverse = used(whole, layout)

    def ref(
        x: Any, scale: Any, bias: Any, mean: Any, inverse: Any, g_y: Any, local: Any, sums: Any, **attrs: Any
    ) -> tuple[Any, ...]:
        g_x = np.empty(whole.shape)
        axis = 1 if layout == "NCHW" else whole.ndim - 1
        for c, (values, slopes) in enumerate(zip(lines(whole, layout), lines(g, layout), strict=True)):
            normal, n = (np.array(values) - mean[c]) * inverse[c], len(values)
            derivatives = inverse[c] * (np.eye(n) - 1 / n - np.outer(normal, normal) / n)
            line = np.moveaxis(g_x, axis, 0)[c]
            line[...] = (derivatives @ slopes * (1 if scale is None else scale[c])).reshape(line.shape)
        share = back_sums(x, mean, inverse, g_y, layout)
        return g_x[MINE], None if scale is None else share[2], None if bias is None else share[1]

    local = back_sums(whole[MINE], mean, inverse, g[MINE], layout)
    inputs = [whole[MINE], scale, bias, mean, inverse, g[MINE], local, back_sums(whole, mean, inverse, g, layout)]
    return Case("batch_norm_grad_with_sums", inputs, attrs, ref, dtypes=("float64",), id=id)


ROWS, G_ROWS = WHOLE[:, :, 0, 0], G[:, :, 0, 0]
LAST, G_LAST = channels_last(WHOLE), channels_last(G)
NHWC = {"data_layout": "NHWC"}

CASES = [
    sums_case("images", WHOLE, ("float64",), 12),
    sums_case("images, single", WHOLE, ("float32",), 5),
    sums_case("images, half", WHOLE, ("float16",), 2),
    sums_case("images, bfloat16", WHOLE, ("bfloat16",), 1),
    sums_case("rows", ROWS, ("float64",), 12),
    sums_case("channels last", LAST, ("float64",), 12, "NHWC"),
    forward_case("images", WHOLE),
    forward_case("rows", ROWS, momentum=0.5, epsilon=1e-3),
    forward_case("sequences, channels last", LAST[:, 0], **NHWC),
    forward_case("no scale", WHOLE, scale=None),
    forward_case("no bias", LAST, bias=None, **NHWC),
    back_sums_case("images", WHOLE, G),
    back_sums_case("rows", ROWS, G_ROWS),
    back_sums_case("channels last", LAST, G_LAST, "NHWC"),
    back_case("images", WHOLE, G),
    back_case("rows", ROWS, G_ROWS),
    back_case("channels last", LAST, G_LAST, **NHWC),
    back_case("no scale", WHOLE, G, scale=None),
    back_case("no bias", ROWS, G_ROWS, bias=None),
]
