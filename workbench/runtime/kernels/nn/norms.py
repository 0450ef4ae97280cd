"""Layer normalisation of rows, and batch normalisation of planes: channels whose numbers lie together.

Mean and variance take two passes; sums are float32 over chunks and double precision over those.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.runtime.kernels.intrinsics import INT, REAL, floats, function, square_root
from workbench.runtime.kernels.math.sums import CHUNK, add, fill, total, total_of
from workbench.runtime.kernels.registry import kernel
from workbench.runtime.kernels.sweeps import ADDED, sweep, sweep_planes
from workbench.runtime.kernels.vectors import Vectors

F = np.float32
NEAR = 2048  # floats that stay in the first cache: so many take each step together
LEVEL = 64  # rows summed in float32 for the gradients of scale and bias


def _normal(v: Vectors, x: Any, mean: Any, inverse: Any) -> Any:
    return v.multiply(v.subtract(x, mean), inverse)


def _square(v: Vectors, x: Any) -> Any:
    return v.multiply(x, x)


spread = total_of(sweep(lambda v, x, mean: _square(v, v.subtract(x, mean)), ADDED, together=4))


# Layers

rescale = sweep(lambda v, x, scale, bias, mean, inverse: v.fma(_normal(v, x, mean, inverse), scale, bias))


@kernel(INT, INT, INT, INT, INT, INT, INT, INT, REAL)
def layer_norm(x, scale, bias, y, mean, variance, rows, width, epsilon):
    """y[i] = (x[i] - mean[i]) / sqrt(variance[i] + epsilon) scale + bias."""
    means, variances = floats(mean), floats(variance)
    step = max(1, NEAR // width)
    for begin in range(0, rows, step):
        end = min(begin + step, rows)
        for i in range(begin, end):
            means[i] = total(x + 4 * i * width, (), width) / width
        for i in range(begin, end):
            variances[i] = spread(x + 4 * i * width, (means[i],), width) / width
        for i in range(begin, end):
            o, inverse = 4 * i * width, F(1) / square_root(variances[i] + epsilon)
            rescale((y + o,), (x + o, scale, bias), (means[i], inverse), width)
    return 0


def _sums(v: Vectors, x: Any, g: Any, scale: Any, scales: Any, biases: Any, mean: Any, inverse: Any) -> Any:
    normal, inner = _normal(v, x, mean, inverse), v.multiply(g, scale)
    return v.fma(g, normal, scales), v.add(biases, g), v.multiply(inner, normal), inner


def _gradient(v: Vectors, x: Any, g: Any, scale: Any, mean: Any, inverse: Any, along: Any, level: Any) -> Any:
    normal = _normal(v, x, mean, inverse)
    return v.multiply(v.subtract(v.subtract(v.multiply(g, scale), level), v.multiply(normal, along)), inverse)


gather_sums = sweep(_sums, ADDED, ADDED, together=2)
layer_gradient = sweep(_gradient)


@function
def row_gradient(x, g, scale, g_x, scales, biases, width, mean, inverse):
    """One row of layer_norm_grad; adds to `scales` and `biases`."""
    along, level = 0.0, 0.0
    for start in range(0, width, CHUNK):
        at, n = 4 * start, min(CHUNK, width - start)
        held = scales + at, biases + at
        sums = gather_sums(held, (x + at, g + at, scale + at, held[0], held[1]), (mean, inverse), n)
        along += sums[0]
        level += sums[1]
    layer_gradient((g_x,), (x, g, scale), (mean, inverse, F(along / width), F(level / width)), width)


@kernel(INT, INT, INT, INT, INT, INT, INT, INT, INT, INT, INT, REAL)
def layer_norm_grad(x, g, scale, mean, variance, g_x, g_scale, g_bias, partial, rows, width, epsilon):
    """Gradients of x, scale and bias; `partial`: memory for two rows."""
    means, variances = floats(mean), floats(variance)
    scales, biases = partial, partial + 4 * width
    fill((g_scale,), (), (F(0),), width)
    fill((g_bias,), (), (F(0),), width)
    for begin in range(0, rows, LEVEL):
        fill((partial,), (), (F(0),), 2 * width)
        for i in range(begin, min(begin + LEVEL, rows)):
            o, inverse = 4 * i * width, F(1) / square_root(variances[i] + epsilon)
            row_gradient(x + o, g + o, scale, g_x + o, scales, biases, width, means[i], inverse)
        add((g_scale,), (g_scale, scales), (), width)
        add((g_bias,), (g_bias, biases), (), width)
    return 0


# Planes: arrays [batch, channels, width]

shift = sweep(lambda v, x, mean, slope, bias: v.fma(v.subtract(x, mean), slope, bias))
plane_gradient = sweep(
    lambda v, x, g, mean, inverse, along, level, slope: v.multiply(
        v.subtract(v.subtract(g, level), v.multiply(_normal(v, x, mean, inverse), along)), slope
    )
)


def channel_total_of(part: Any) -> Any:
    """A sum over a channel of [batch, channels, width], see `total_of`.

    Args:
        part: a `sweep_planes` that adds something up.
    """

    @function
    def total(ins, numbers, batch, channels, width):
        so_far, step, stride = 0.0, max(1, CHUNK // width), 4 * channels * width
        for n in range(0, batch, step):
            for start in range(0, width, CHUNK):
                first, count = n * stride + 4 * start, min(CHUNK, width - start)
                so_far += part((), ins, numbers, first, min(step, batch - n), stride, count)
        return so_far

    return total


plane_sum = channel_total_of(sweep_planes(lambda v, x: x, ADDED))
plane_spread = channel_total_of(sweep_planes(lambda v, x, mean: _square(v, v.subtract(x, mean)), ADDED))
plane_along = channel_total_of(
    sweep_planes(lambda v, x, g, mean, inverse: v.multiply(g, _normal(v, x, mean, inverse)), ADDED)
)


@kernel(INT, INT, INT, INT, INT, INT, INT)
def plane_moments(x, mean, variance, batch, channels, width, count):
    """Mean and biased variance of the first `count` channels."""
    means, variances, size = floats(mean), floats(variance), batch * width
    for c in range(count):
        at = x + 4 * c * width
        means[c] = plane_sum((at,), (), batch, channels, width) / size
        variances[c] = plane_spread((at,), (means[c],), batch, channels, width) / size
    return 0


@kernel(INT, INT, INT, INT, INT, INT, INT, INT)
def plane_shift(x, mean, slope, bias, y, batch, channels, width):
    """y[:, c] = (x[:, c] - mean[c]) slope[c] + bias[c]."""
    means, slopes, biases = floats(mean), floats(slope), floats(bias)
    for n in range(batch):
        for c in range(channels):
            o = 4 * (n * channels + c) * width
            shift((y + o,), (x + o,), (means[c], slopes[c], biases[c]), width)
    return 0


@kernel(INT, INT, INT, INT, INT, INT, INT, INT, INT, INT)
def plane_sums(x, g, mean, inverse, g_scale, g_bias, batch, channels, width, count):
    """g_scale[c] = sum of g (x - mean[c]) inverse[c]; g_bias[c] = sum of g; of the first `count` channels."""
    means, inverses, scales, biases = floats(mean), floats(inverse), floats(g_scale), floats(g_bias)
    for c in range(count):
        o = 4 * c * width
        biases[c] = plane_sum((g + o,), (), batch, channels, width)
        scales[c] = plane_along((x + o, g + o), (means[c], inverses[c]), batch, channels, width)
    return 0


@kernel(INT, INT, INT, INT, INT, INT, INT, INT, INT, INT, INT)
def plane_gradients(x, g, mean, inverse, along, level, slope, g_x, batch, channels, width):
    """g_x[:, c] = (g - level[c] - normal along[c]) slope[c], normal = (x - mean[c]) inverse[c]."""
    means, inverses, slopes = floats(mean), floats(inverse), floats(slope)
    alongs, levels = floats(along), floats(level)
    for n in range(batch):
        for c in range(channels):
            o, numbers = 4 * (n * channels + c) * width, (means[c], inverses[c], alongs[c], levels[c], slopes[c])
            plane_gradient((g_x + o,), (x + o, g + o), numbers, width)
    return 0
