"""The workloads in JAX, the whole step compiled by `jit`, all threads on one device."""

import functools
import math
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
from measure import WIDTHS, batch, main

RNG = np.random.RandomState(0)


def dense(x, layer):
    return x @ layer["w"] + layer["b"]


def dense_layer(before, after):
    return {"w": jnp.asarray(RNG.randn(before, after) / math.sqrt(before), jnp.float32), "b": jnp.zeros(after)}


def dense_layers(widths):
    return [dense_layer(before, after) for before, after in pairwise(widths)]


def perceptron(layers, x):
    for layer in layers[:-1]:
        x = jax.nn.relu(dense(x, layer))
    return dense(x, layers[-1])


def filters(count, channels):
    return {"w": jnp.asarray(RNG.randn(count, channels, 5, 5) * 0.1, jnp.float32), "b": jnp.zeros((count, 1, 1))}


def convolved(x, layer, padding):
    x = jax.lax.conv_general_dilated(x, layer["w"], (1, 1), padding) + layer["b"]
    window = (1, 1, 2, 2)
    return jax.lax.reduce_window(jax.nn.relu(x), -jnp.inf, jax.lax.max, window, window, "VALID")


def lenet(p, x):
    x = convolved(convolved(x, p["first"], "SAME"), p["second"], "VALID")
    return perceptron(p["dense"], x.reshape(len(x), -1))


def normalised(x, p):
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * p["scale"] + p["shift"]


def attention(x, p):
    many, length, width = x.shape

    def heads(layer):
        return dense(x, layer).reshape(many, length, 4, width // 4).transpose(0, 2, 1, 3)

    scores = heads(p["query"]) @ heads(p["key"]).transpose(0, 1, 3, 2) / math.sqrt(width // 4)
    found = jax.nn.softmax(scores) @ heads(p["value"])
    return dense(found.transpose(0, 2, 1, 3).reshape(x.shape), p["out"])


def encoder(p, x):
    for layer in p["layers"]:
        x = normalised(x + attention(x, layer), layer["norms"][0])
        hidden = jax.nn.gelu(dense(x, layer["up"]), approximate=False)
        x = normalised(x + dense(hidden, layer["down"]), layer["norms"][1])
    return dense(x.mean(1), p["last"])


def encoder_layer():
    made = {name: dense_layer(128, 128) for name in ("query", "key", "value", "out")}
    norms = [{"scale": jnp.ones(128), "shift": jnp.zeros(128)} for _ in range(2)]
    return {**made, "up": dense_layer(128, 512), "down": dense_layer(512, 128), "norms": norms}


def model(name):
    """Parameters, and the function from them and images to logits."""
    if name == "lenet":
        return {"first": filters(6, 1), "second": filters(16, 6), "dense": dense_layers([400, 120, 84, 10])}, lenet
    if name == "encoder":
        return {"layers": [encoder_layer() for _ in range(2)], "last": dense_layer(128, 10)}, encoder
    return dense_layers(WIDTHS[name]), perceptron


def updated(name, p, g, state, t):
    """Parameters and state after an update; `t` counts from 1."""
    tree = functools.partial(jax.tree_util.tree_map)
    if name in ("tiny", "deep"):
        return tree(lambda p, g: p - 0.01 * g, p, g), state
    if name == "lenet":
        velocity = tree(lambda v, g: 0.9 * v + g, state, g)
        return tree(lambda p, v: p - 0.01 * v, p, velocity), velocity
    first = tree(lambda m, g: 0.9 * m + 0.1 * g, state[0], g)
    second = tree(lambda v, g: 0.999 * v + 0.001 * g * g, state[1], g)
    rate = 1e-3 * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    return tree(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-8), p, first, second), (first, second)


def training(name, devices):
    p, network = model(name)
    zeros = jax.tree_util.tree_map(jnp.zeros_like, p)
    state = {"mlp": (zeros, zeros), "encoder": (zeros, zeros), "lenet": zeros}.get(name, ())

    def loss_of(p, x, y):
        return -jnp.take_along_axis(jax.nn.log_softmax(network(p, x)), y, 1).mean()

    @functools.partial(jax.jit, donate_argnums=0)
    def apply(held, t, x, y):
        p, state = held
        loss, g = jax.value_and_grad(loss_of)(p, x, y)
        return loss, updated(name, p, g, state, t)

    held, count = jax.tree_util.tree_map(jnp.array, (p, state)), 0
    x, y = batch(name)

    def step():
        nonlocal held, count
        count += 1
        loss, held = apply(held, jnp.float32(count), x, y)
        return float(loss)

    return step


if __name__ == "__main__":
    main(training)
