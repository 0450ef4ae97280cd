"""`causal`, `cross` and `bfloat16` in JAX."""

import math

import jax
import jax.numpy as jnp
import numpy as np
from in_jax.layers import Given, Program, cross_entropy, dense, dropout, keys, layer_norm
from in_jax.updates import adam, clipped

HEADS, PAD, HIDDEN = 4, 0, -1e9


def attention(parts, out, key, mask=0.0):
    """By query, key and value side by side in `parts` [batch, length, width]."""
    size = parts[0].shape[-1] // HEADS
    query, looked, value = (t.reshape(*t.shape[:2], HEADS, size) for t in parts)
    scores = jnp.einsum("bqhd,bkhd->bhqk", query, looked) / math.sqrt(size) + mask
    weights = dropout(key, jax.nn.softmax(scores), 0.1)
    read = jnp.einsum("bhqk,bkhd->bqhd", weights, value)
    return dense(out, read.reshape(parts[0].shape))


def fed_forward(p, x):
    return dense(p["down"], jax.nn.gelu(dense(p["up"], x), approximate=False))


def self_attention(p, x, key, mask=0.0):
    return attention(jnp.split(dense(p["inner"], x), 3, -1), p["out"], key, mask)


def block(given: Given):
    """Of a GPT: norms in front."""
    parts = {"first": given.scaled(), "inner": given.dense(3), "out": given.dense()}
    return {**parts, "second": given.scaled(), "up": given.dense(), "down": given.dense()}


def causal(given: Given) -> Program:
    values = {"positions": given.array(), "words": given.array(), "blocks": [block(given) for _ in range(2)]}
    values |= {"norm": given.scaled(), "last": given.dense()}

    def loss_of(p, held, key, x, y):
        later = jnp.triu(jnp.full((x.shape[1], x.shape[1]), HIDDEN), 1)
        embedded, *own = keys(key, 3)
        hidden = dropout(embedded, p["words"][x] + p["positions"], 0.1)
        for part, key in zip(p["blocks"], own, strict=True):
            hidden = hidden + self_attention(part, layer_norm(part["first"], hidden), key, later)
            hidden = hidden + fed_forward(part, layer_norm(part["second"], hidden))
        scores = dense(p["last"], layer_norm(p["norm"], hidden))
        return cross_entropy(scores, y[..., None]).mean(), held

    return Program(values, (), loss_of, clipped(adam(decay=0.01), 1.0))


def cross(given: Given) -> Program:
    values = {"source": given.array(), "target": given.array(), "query": given.dense(), "other": given.dense(2)}
    values |= {"out": given.dense(), "first": given.scaled(), "up": given.dense(), "down": given.dense()}
    values |= {"second": given.scaled(), "last": given.dense()}

    def embedded(table, ids):
        return jnp.where((ids != PAD)[..., None], table[ids], 0.0)

    def loss_of(p, held, key, source, target, y):
        read, hidden = embedded(p["source"], source), embedded(p["target"], target)
        mask = jnp.where(source == PAD, HIDDEN, 0.0)[:, None, None]
        parts = dense(p["query"], hidden), *jnp.split(dense(p["other"], read), 2, -1)
        hidden = layer_norm(p["first"], hidden + attention(parts, p["out"], key, mask))
        hidden = layer_norm(p["second"], hidden + fed_forward(p, hidden))
        graded = y != PAD
        costs = cross_entropy(dense(p["last"], hidden), y[..., None])[..., 0]
        return jnp.where(graded, costs, 0.0).sum() / graded.sum(), held

    return Program(values, (), loss_of, adam())


def bfloat16(given: Given) -> Program:
    """The values stay in float32; those of products are cast in every step."""
    values = {"inner": given.dense(3), "out": given.dense(), "first": given.scaled()}
    values |= {"up": given.dense(), "down": given.dense(), "second": given.scaled(), "last": given.dense()}

    def normalised(p, x):
        return layer_norm(p, x.astype(np.float32)).astype(jnp.bfloat16)

    def loss_of(p, held, key, x, y):
        low = {name: jax.tree.map(lambda a: a.astype(jnp.bfloat16), part) for name, part in p.items()}
        hidden = x.astype(jnp.bfloat16)
        hidden = normalised(p["first"], hidden + self_attention(low, hidden, key))
        hidden = normalised(p["second"], hidden + fed_forward(low, hidden))
        scores = dense(low["last"], hidden.mean(1))
        return cross_entropy(scores.astype(np.float32), y).mean(), held

    return Program(values, (), loss_of, adam())


PROGRAMS = {"causal": causal, "cross": cross, "bfloat16": bfloat16}
