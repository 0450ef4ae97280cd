"""Optimizers in JAX: a new state, and what values and state become by gradients."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np


class Update(NamedTuple):
    """An optimizer: `new(values)` makes its state; `of(values, gradients, state)` gives the next values and state."""

    new: Any
    of: Any


def zeros(values):
    return jax.tree.map(np.zeros_like, values)


def adam(rate=1e-3, first=0.9, decay=0.0):
    """Adam; with a decay, AdamW."""

    def new(values):
        return zeros(values), zeros(values), np.float32(0)

    def of(values, g, state):
        m, v, t = state
        m = jax.tree.map(lambda m, g: first * m + (1 - first) * g, m, g)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
        t = t + 1
        now = rate * jnp.sqrt(1 - 0.999**t) / (1 - first**t)
        kept = 1 - rate * decay
        values = jax.tree.map(lambda p, m, v: kept * p - (now * m / (jnp.sqrt(v) + 1e-8)).astype(p.dtype), values, m, v)
        return values, (m, v, t)

    return Update(new, of)


def clipped(update, largest):
    """By the norm of all gradients together."""

    def of(values, g, state):
        norm = jnp.sqrt(sum(jnp.vdot(part, part) for part in jax.tree.leaves(g)))
        scale = jnp.minimum(1.0, largest / norm)
        return update.of(values, jax.tree.map(lambda part: part * scale, g), state)

    return Update(update.new, of)


def momentum(rate, decay=0.0):
    def of(values, g, velocity):
        velocity = jax.tree.map(lambda v, g, p: 0.9 * v + g + decay * p, velocity, g, values)
        return jax.tree.map(lambda p, v: p - rate * v, values, velocity), velocity

    return Update(zeros, of)


def adagrad(rate):
    def of(values, g, squares):
        squares = jax.tree.map(lambda s, g: s + g * g, squares, g)
        return jax.tree.map(lambda p, g, s: p - rate * g / (jnp.sqrt(s) + 1e-6), values, g, squares), squares

    return Update(zeros, of)
