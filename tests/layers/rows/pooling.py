"""Pools: windows cut out one by one."""

import itertools
import math

import numpy as np

import workbench as wb
from tests.layers.row import Row

rng = np.random.default_rng(3)
SEQUENCE, IMAGE, VOLUME = (rng.standard_normal((2, 3, *dims)) for dims in ((7,), (6, 5), (4, 5, 3)))

nn = wb.nn


def windows(size, kernel, stride, padding):
    """(first, behind the last) of every window, in entries of the unpadded dimension."""
    count = (size + 2 * padding - kernel) // stride + 1
    return [(i * stride - padding, i * stride - padding + kernel) for i in range(count)]


def bins(size, count):
    return [(i * size // count, math.ceil((i + 1) * size / count)) for i in range(count)]


def pooled(x, cuts, function):
    """`function(values of a window, size of the whole window)` for every window; `cuts` are windows per dimension."""
    out = np.zeros((*x.shape[:2], *map(len, cuts)))
    for place in itertools.product(*(range(len(c)) for c in cuts)):
        spans = [c[i] for c, i in zip(cuts, place)]
        inside = tuple(slice(max(a, 0), b) for a, b in spans)
        values = x[(..., *inside)].reshape(*x.shape[:2], -1)
        out[(..., *place)] = function(values, math.prod(b - a for a, b in spans))
    return out


def largest(values, size):
    return values.max(-1)


def average(values, size):
    return values.mean(-1)


def average_with_padding(values, size):
    return values.sum(-1) / size


def sliding(make, x, kernel, stride, padding, function, **more):
    def ref(values, x):
        return pooled(x, [windows(d, kernel, stride, padding) for d in x.shape[2:]], function)

    return Row(make, [x], ref, **more)


def adaptive(make, x, sizes, function):
    return Row(make, [x], lambda values, x: pooled(x, [bins(d, n) for d, n in zip(x.shape[2:], sizes)], function))


def put_back(x, size):
    """The maxima of windows of two in their places, 0 elsewhere."""
    out = np.zeros((*x.shape[:2], *size))
    cuts = [windows(d, 2, 2, 0) for d in x.shape[2:]]
    for place in itertools.product(*(range(len(c)) for c in cuts)):
        inside = (..., *(slice(*c[i]) for c, i in zip(cuts, place)))
        part = x[inside]
        axes = tuple(range(2, part.ndim))
        out[inside] = np.where(part == part.max(axis=axes, keepdims=True), part, 0)
    return out


ROWS = {
    "MaxPool1D": sliding(lambda: nn.MaxPool1D(3, 2, 1), SEQUENCE, 3, 2, 1, largest),
    "MaxPool2D": sliding(lambda: nn.MaxPool2D(3, 2, 1), IMAGE, 3, 2, 1, largest),
    "MaxPool3D": sliding(lambda: nn.MaxPool3D(3, 2, 1), VOLUME, 3, 2, 1, largest),
    "AvgPool1D": sliding(lambda: nn.AvgPool1D(3, 2, 1), SEQUENCE, 3, 2, 1, average),
    "AvgPool2D": sliding(lambda: nn.AvgPool2D(3, 2, 1, exclusive=False), IMAGE, 3, 2, 1, average_with_padding),
    "AvgPool3D": sliding(lambda: nn.AvgPool3D(3, 2, 1), VOLUME, 3, 2, 1, average),
    "AvgPool3D/padding counts": sliding(
        lambda: nn.AvgPool3D(3, 2, 1, exclusive=False), VOLUME, 3, 2, 1, average_with_padding
    ),
    "AvgPool3D/divisor": sliding(
        lambda: nn.AvgPool3D(2, divisor_override=3), VOLUME, 2, 2, 0, lambda values, size: values.sum(-1) / 3
    ),
    "MaxPool3D/channels last": Row(
        lambda: nn.MaxPool3D(2, data_format="NDHWC"),
        [np.moveaxis(VOLUME, 1, -1)],
        lambda v, x: np.moveaxis(
            pooled(np.moveaxis(x, -1, 1), [windows(d, 2, 2, 0) for d in x.shape[1:4]], largest), 1, -1
        ),
    ),
    "AdaptiveAvgPool1D": adaptive(lambda: nn.AdaptiveAvgPool1D(3), SEQUENCE, (3,), average),
    "AdaptiveAvgPool2D": adaptive(lambda: nn.AdaptiveAvgPool2D([4, 2]), IMAGE, (4, 2), average),
    "AdaptiveAvgPool3D": adaptive(lambda: nn.AdaptiveAvgPool3D([3, 2, None]), VOLUME, (3, 2, 3), average),
    "AdaptiveMaxPool1D": adaptive(lambda: nn.AdaptiveMaxPool1D(3), SEQUENCE, (3,), largest),
    "AdaptiveMaxPool2D": adaptive(lambda: nn.AdaptiveMaxPool2D([4, 2]), IMAGE, (4, 2), largest),
    "AdaptiveMaxPool3D": adaptive(lambda: nn.AdaptiveMaxPool3D(2), VOLUME, (2, 2, 2), largest),
    "MaxUnPool1D": Row(
        lambda: nn.MaxUnPool1D(2, output_size=[7]),
        [SEQUENCE],
        lambda v, x: put_back(x, (7,)),
        call=lambda layer, x: layer(*nn.functional.max_pool1d(x, 2, return_mask=True)),
    ),
    "MaxUnPool3D": Row(
        lambda: nn.MaxUnPool3D(2, output_size=[4, 5, 3]),
        [VOLUME],
        lambda v, x: put_back(x, (4, 5, 3)),
        call=lambda layer, x: layer(*nn.functional.max_pool3d(x, 2, return_mask=True)),
    ),
    "MaxUnPool3D/adaptive": Row(
        lambda: nn.MaxUnPool3D(2),
        [VOLUME[:, :, :, :4, :2]],
        lambda v, x: put_back(x, (4, 4, 2)),
        call=lambda layer, x: layer(*nn.functional.adaptive_max_pool3d(x, [2, 2, 1], return_mask=True)),
    ),
    "MaxUnPool2D": Row(
        lambda: nn.MaxUnPool2D(2),
        [IMAGE[:, :, :, :4]],
        lambda v, x: put_back(x, (6, 4)),
        call=lambda layer, x: layer(*nn.functional.max_pool2d(x, 2, return_mask=True)),
    ),
}
