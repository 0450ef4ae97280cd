"""Layers in JAX as functions of their values; convolutions have channels last, as usual there."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from in_jax.updates import Update

IMAGES = ("NHWC", "HWIO", "NHWC")


class Program(NamedTuple):
    """A program with one loss.

    Attributes:
        values: of all that is trained. held: what steps keep beside it, such as running means.
        loss: of (values, held, key, *batch), the loss and what is held then; the key is None where nothing is drawn.
        update: the optimizer.
    """

    values: Any
    held: Any
    loss: Any
    update: Update


class Given:
    """Values in the order in which they are made, each a part of the next layer that is asked for."""

    def __init__(self, values):
        self.values = iter(values)

    def array(self):
        return next(self.values)

    def scaled(self):
        """Of a norm."""
        return {"scale": self.array(), "shift": self.array()}

    def dense(self, count=1):
        """Of as many products of the same input."""
        pairs = [(self.array(), self.array()) for _ in range(count)]
        return {"w": np.concatenate([w for w, _ in pairs], 1), "b": np.concatenate([b for _, b in pairs])}

    def filters(self):
        """Without a bias."""
        return self.array().transpose(2, 3, 1, 0)

    def conv(self):
        return {"w": self.filters(), "b": self.array()}


def dense(p, x):
    return x @ p["w"] + p["b"]


def conv(w, x, padding, stride=1, dilation=1):
    """Of filters [rows, columns, channels, number]."""
    return jax.lax.conv_general_dilated(
        x, w, (stride, stride), [(padding, padding)] * 2, rhs_dilation=(dilation, dilation), dimension_numbers=IMAGES
    )


def grouped_conv(w, x, groups, **options):
    """Of channels in groups; on CPUs far faster than one convolution with `feature_group_count`."""
    pairs = zip(jnp.split(w, groups, -1), jnp.split(x, groups, -1), strict=True)
    return jnp.concatenate([conv(part, channels, **options) for part, channels in pairs], -1)


def depthwise_conv(w, x, padding, stride=1):
    """Of every channel by itself, as a sum of shifted images; on CPUs several times as fast as a convolution."""
    rows, columns = (size // stride * stride for size in x.shape[1:3])
    x = jnp.pad(x, [(0, 0), (padding, padding), (padding, padding), (0, 0)])
    return sum(
        x[:, i : i + rows : stride, j : j + columns : stride] * w[i, j, 0]
        for i in range(w.shape[0])
        for j in range(w.shape[1])
    )


def max_pool(x):
    """Of 2 x 2 places; faster on CPUs than `reduce_window`, whose gradient selects and scatters."""
    many, rows, columns, channels = x.shape
    return x.reshape(many, rows // 2, 2, columns // 2, 2, channels).max((2, 4))


def standardised(x, axes):
    x = x - x.mean(axes, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(axes, keepdims=True) + 1e-5)


def layer_norm(p, x):
    return standardised(x, -1) * p["scale"] + p["shift"]


def instance_norm(p, x):
    return standardised(x, (1, 2)) * p["scale"] + p["shift"]


def group_norm(p, x, groups):
    apart = x.reshape(*x.shape[:3], groups, -1)
    return standardised(apart, (1, 2, 4)).reshape(x.shape) * p["scale"] + p["shift"]


def new_statistics(channels):
    """Running mean and variance of a batch norm."""
    return np.zeros(channels, np.float32), np.ones(channels, np.float32)


def batch_norm(p, held, x):
    """The batch normalised, and the statistics that are held then."""
    mean = x.mean((0, 1, 2))
    var = (x * x).mean((0, 1, 2)) - mean * mean
    scale = p["scale"] * jax.lax.rsqrt(var + 1e-5)
    now = jax.lax.stop_gradient((mean, var))
    held = tuple(0.9 * old + 0.1 * new for old, new in zip(held, now, strict=True))
    return x * scale + (p["shift"] - mean * scale), held


def dropout(key, x, rate):
    if key is None:
        return x
    return jnp.where(jax.random.bernoulli(key, 1 - rate, x.shape), x / (1 - rate), 0)


def keys(key, count):
    return [None] * count if key is None else jax.random.split(key, count)


def cross_entropy(scores, y):
    """Of every row, for classes [rows, 1]."""
    return -jnp.take_along_axis(jax.nn.log_softmax(scores), y, -1)


def with_logits(scores, truth):
    """The mean of binary cross entropies."""
    return (jnp.maximum(scores, 0) - scores * truth + jnp.log1p(jnp.exp(-jnp.abs(scores)))).mean()
