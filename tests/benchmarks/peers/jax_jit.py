"""The workloads in JAX, the whole step compiled by `jit` with its state donated, all threads on one device."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from measure import batch, main, weights


def dense(x, layer):
    return x @ layer["w"] + layer["b"]


def perceptron(layers, x):
    for layer in layers[:-1]:
        x = jax.nn.relu(dense(x, layer))
    return dense(x, layers[-1])


def convolved(x, layer, padding):
    x = jax.lax.conv_general_dilated(x, layer["w"], (1, 1), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))
    x, window = x + layer["b"], (1, 2, 2, 1)
    return jax.lax.reduce_window(jax.nn.relu(x), -jnp.inf, jax.lax.max, window, window, "VALID")


def lenet(p, x):
    x = x.transpose(0, 2, 3, 1)  # channels last, as usual in JAX
    x = convolved(convolved(x, p["first"], "SAME"), p["second"], "VALID")
    return perceptron(p["dense"], x.transpose(0, 3, 1, 2).reshape(len(x), -1))


def normalised(x, p):
    x = x - x.mean(-1, keepdims=True)
    return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * p["scale"] + p["shift"]


def attention(x, p):
    many, length, width = x.shape

    def heads(layer):
        return dense(x, layer).reshape(many, length, 4, width // 4).transpose(0, 2, 1, 3)

    scores = heads(p["query"]) @ heads(p["key"]).transpose(0, 1, 3, 2) / math.sqrt(width // 4)
    attended = jax.nn.softmax(scores) @ heads(p["value"])
    return dense(attended.transpose(0, 2, 1, 3).reshape(x.shape), p["out"])


def encoder(p, x):
    for layer in p["layers"]:
        x = normalised(x + attention(x, layer), layer["norms"][0])
        hidden = jax.nn.gelu(dense(x, layer["up"]), approximate=False)
        x = normalised(x + dense(hidden, layer["down"]), layer["norms"][1])
    return dense(x.mean(1), p["last"])


def layer(value):
    """A matrix, or filters with their number as the last dimension; and the bias."""
    w = value if value.ndim == 2 else value.transpose(2, 3, 1, 0)
    return {"w": w, "b": np.zeros(w.shape[-1], np.float32)}


def encoder_layer(layers):
    norms = [{"scale": np.ones(128, np.float32), "shift": np.zeros(128, np.float32)} for _ in range(2)]
    return {**dict(zip(("query", "key", "value", "out", "up", "down"), layers, strict=True)), "norms": norms}


def model(name):
    """Parameters, and the function from them and images to logits."""
    layers = [layer(value) for value in weights(name)]
    if name == "lenet":
        return {"first": layers[0], "second": layers[1], "dense": layers[2:]}, lenet
    if name == "encoder":
        return {"layers": [encoder_layer(layers[:6]), encoder_layer(layers[6:12])], "last": layers[12]}, encoder
    return layers, perceptron


def sgd(p, g, state):
    return jax.tree.map(lambda p, g: p - 0.01 * g, p, g), state


def momentum(p, g, velocity):
    velocity = jax.tree.map(lambda v, g: 0.9 * v + g, velocity, g)
    return jax.tree.map(lambda p, v: p - 0.01 * v, p, velocity), velocity


def adam(p, g, state):
    first, second, t = state
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, g)
    second = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, second, g)
    t = t + 1
    rate = 1e-3 * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
    return jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) + 1e-8), p, first, second), (first, second, t)


def optimizer(name, p):
    """A new state, and the function from parameters, gradients and state to the next parameters and state."""
    zeros = jax.tree.map(np.zeros_like, p)
    if name in ("mlp", "encoder"):
        return (zeros, zeros, np.float32(0)), adam
    return (zeros, momentum) if name == "lenet" else ((), sgd)


def program(name):
    """Parameters and state, and the function from them and a batch to its loss and what they become."""
    p, network = model(name)
    state, updated = optimizer(name, p)

    def loss_of(p, x, y):
        return -jnp.take_along_axis(jax.nn.log_softmax(network(p, x)), y, 1).mean()

    def train(held, x, y):
        p, state = held
        loss, g = jax.value_and_grad(loss_of)(p, x, y)
        return loss, updated(p, g, state)

    return (p, state), train


def stepping(apply, held, x, y):
    """The step of a compiled program on these images and classes."""

    def step():
        nonlocal held
        loss, held = apply(held, x, y)
        return float(loss)

    return step


def training(name, devices):
    held, train = program(name)
    return stepping(jax.jit(train, donate_argnums=0), jax.tree.map(jnp.array, held), *batch(name))


if __name__ == "__main__":
    main(training, jax.__version__)
