"""`lstm-loop`, `lstm-unrolled`, `gru-loop` and `gru-unrolled` in JAX: by `lax.scan`, and by a loop of Python."""

from functools import partial

import jax
import jax.numpy as jnp
from in_jax.layers import Given, Program, cross_entropy, dense
from in_jax.updates import adam


def lstm_cell(p, states, x):
    h, c = states
    enters, stays, leaves, new = jnp.split(dense(p[0], jnp.concatenate([x, h], 1)), 4, 1)
    c = jax.nn.sigmoid(stays) * c + jax.nn.sigmoid(enters) * jnp.tanh(new)
    return jax.nn.sigmoid(leaves) * jnp.tanh(c), c


def gru_cell(p, states, x):
    (h,) = states
    update, reset = jnp.split(jax.nn.sigmoid(dense(p[0], jnp.concatenate([x, h], 1))), 2, 1)
    new = jnp.tanh(dense(p[1], jnp.concatenate([x, reset * h], 1)))
    return (update * h + (1 - update) * new,)


def by_loop(cell, states, x):
    return jax.lax.scan(lambda states, now: (cell(states, now), None), states, x)[0]


def unrolled(cell, states, x):
    for now in x:
        states = cell(states, now)
    return states


def classifier(given: Given, cell, products, states, passes) -> Program:
    """Sequences [length, batch, width] by their last state.

    Args:
        products: as many as the cell has. states: as many. passes: makes them all.
    """
    values = {"cell": [given.dense() for _ in range(products)], "last": given.dense()}

    def loss_of(p, held, key, x, y):
        begin = (jnp.zeros(x.shape[1:]),) * states
        h = passes(partial(cell, p["cell"]), begin, x)[0]
        return cross_entropy(dense(p["last"], h), y).mean(), held

    return Program(values, (), loss_of, adam())


PROGRAMS = {
    f"{name}-{way}": partial(classifier, cell=cell, products=products, states=states, passes=passes)
    for name, cell, products, states in (("lstm", lstm_cell, 1, 2), ("gru", gru_cell, 2, 1))
    for way, passes in (("loop", by_loop), ("unrolled", unrolled))
}
