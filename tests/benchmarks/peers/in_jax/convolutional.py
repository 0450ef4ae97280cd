"""`separable`, `dilated`, `norms`, `unet` and `nhwc` in JAX; images come with channels first, but for the last."""

import jax
import jax.numpy as jnp
from in_jax.layers import (
    Given,
    Program,
    batch_norm,
    conv,
    cross_entropy,
    dense,
    depthwise_conv,
    group_norm,
    grouped_conv,
    instance_norm,
    max_pool,
    new_statistics,
    with_logits,
)
from in_jax.updates import adam, momentum


def last(x):
    """Channels last."""
    return x.transpose(0, 2, 3, 1)


def graded(p, features, y):
    return cross_entropy(dense(p["last"], features.mean((1, 2))), y).mean()


def biased(p, x, padding, **options):
    return conv(p["w"], x, padding, **options) + p["b"]


def normed_conv(given: Given):
    return {"w": given.filters(), "norm": given.scaled()}


def separable(given: Given) -> Program:
    strides = (2, 1, 2)  # of the convolutions of channels by themselves
    values = {"layers": [normed_conv(given) for _ in range(7)], "last": given.dense()}
    held = [new_statistics(part["w"].shape[-1]) for part in values["layers"]]

    def features(p, held, x):
        after = []
        for i, part in enumerate(p["layers"]):
            if i % 2:
                x = depthwise_conv(part["w"], x, 1, strides[i // 2])
            else:
                x = conv(part["w"], x, 0 if i else 1)
            x, now = batch_norm(part["norm"], held[i], x)
            x = jax.nn.relu6(x) if i else jax.nn.relu(x)
            after.append(now)
        return x, after

    def loss_of(p, held, key, x, y):
        x, held = features(p, held, last(x))
        return graded(p, x, y), held

    return Program(values, held, loss_of, momentum(0.01))


def shuffled(x, groups):
    apart = x.reshape(*x.shape[:3], groups, -1)
    return apart.swapaxes(-1, -2).reshape(x.shape)


def dilated(given: Given) -> Program:
    values = {"first": given.conv(), "others": [given.conv() for _ in range(2)], "last": given.dense()}

    def loss_of(p, held, key, x, y):
        x = jax.nn.relu(biased(p["first"], last(x), 2, dilation=2))
        for dilation, part in zip((1, 2), p["others"], strict=True):
            x = grouped_conv(part["w"], x, 4, padding=dilation, dilation=dilation) + part["b"]
            x = shuffled(jax.nn.relu(x), 4)
        return graded(p, x, y), held

    return Program(values, (), loss_of, momentum(0.01))


def norms(given: Given) -> Program:
    values = {"first": given.conv(), "norm": given.scaled()}
    values |= {"others": [(given.conv(), given.scaled()) for _ in range(2)], "last": given.dense()}

    def loss_of(p, held, key, x, y):
        x = jnp.pad(last(x), [(0, 0), (1, 1), (1, 1), (0, 0)], mode="reflect")
        x = jax.nn.leaky_relu(instance_norm(p["norm"], biased(p["first"], x, 0)), 0.2)
        for layer, norm in p["others"]:
            x = x + jax.nn.silu(group_norm(norm, biased(layer, x, 1), 4))
        return graded(p, x, y), held

    return Program(values, (), loss_of, momentum(0.01))


def transposed(p, x, padding):
    """With strides of 2."""
    w = p["w"]  # of the convolution whose gradient this is
    edge = w.shape[0] - 1 - padding
    return p["b"] + jax.lax.conv_transpose(
        x, w, (2, 2), [(edge, edge)] * 2, dimension_numbers=("NHWC", "HWIO", "NHWC"), transpose_kernel=True
    )


def unet(given: Given) -> Program:
    names = ("high", "middle", "low", "to middle", "at middle", "to high", "at high", "last")
    values = {name: given.conv() for name in names}

    def loss_of(p, held, key, x, mask):
        high = jax.nn.relu(biased(p["high"], last(x), 1))
        middle = jax.nn.relu(biased(p["middle"], max_pool(high), 1))
        low = jax.nn.relu(biased(p["low"], max_pool(middle), 1))
        middle = jnp.concatenate([middle, transposed(p["to middle"], low, 0)], -1)
        middle = jax.nn.relu(biased(p["at middle"], middle, 1))
        high = jnp.concatenate([high, transposed(p["to high"], middle, 1)], -1)
        high = jax.nn.relu(biased(p["at high"], high, 1))
        return with_logits(biased(p["last"], high, 0), last(mask)), held

    return Program(values, (), loss_of, adam())


def nhwc(given: Given) -> Program:
    values = {"layers": [normed_conv(given) for _ in range(2)], "last": given.dense()}
    held = [new_statistics(part["w"].shape[-1]) for part in values["layers"]]

    def loss_of(p, held, key, x, y):
        after = []
        for part, statistics in zip(p["layers"], held, strict=True):
            x, now = batch_norm(part["norm"], statistics, conv(part["w"], x, 1))
            x = max_pool(jax.nn.relu(x))
            after.append(now)
        return graded(p, x, y), after

    return Program(values, held, loss_of, momentum(0.01))


PROGRAMS = {"separable": separable, "dilated": dilated, "norms": norms, "unet": unet, "nhwc": nhwc}
