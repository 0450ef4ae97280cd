"""`ctr`, `smoothed`, `float64` and `gan` in JAX."""

import jax
import jax.numpy as jnp
from covered import NOISE
from in_jax.layers import Given, Program, dense, dropout, keys, with_logits
from in_jax.updates import adagrad, adam, momentum

BATCH, WIDTH, CLASSES = 256, 16, 10  # width: of the noise


def ctr(given: Given) -> Program:
    values = {"read": given.array(), "wide": given.array(), "deep": [given.dense() for _ in range(3)]}

    def loss_of(p, held, key, ids, numbers, click):
        read, wide = p["read"][ids], p["wide"][ids]
        together = read.sum(1)
        pairs = 0.5 * (together * together - (read * read).sum(1)).sum(1, keepdims=True)
        hidden = jnp.concatenate([read.reshape(len(read), -1), jnp.log1p(numbers)], 1)
        *layers, last = p["deep"]
        for layer in layers:
            hidden = jax.nn.relu(dense(layer, hidden))
        return with_logits(dense(last, hidden) + pairs + wide.sum(1), click), held

    return Program(values, (), loss_of, adagrad(0.01))


def smoothed(given: Given) -> Program:
    values = {"first": given.dense(), "last": given.dense()}

    def loss_of(p, held, key, x, y):
        hidden = dropout(key, jax.nn.relu(dense(p["first"], x)), 0.3)
        labels = 0.9 * jax.nn.one_hot(y[:, 0], CLASSES) + 0.1 / CLASSES
        return -(labels * jax.nn.log_softmax(dense(p["last"], hidden))).sum(1).mean(), held

    return Program(values, (), loss_of, momentum(0.05, decay=1e-4))


def float64(given: Given) -> Program:
    values = [given.dense() for _ in range(3)]

    def loss_of(p, held, key, x, y):
        for layer in p[:-1]:
            x = jnp.tanh(dense(layer, x))
        return ((dense(p[-1], x) - y) ** 2).mean(), held

    return Program(values, (), loss_of, adam())


def generated(p, noise):
    return jnp.tanh(dense(p[1], jax.nn.relu(dense(p[0], noise))))


def judged(p, key, image):
    return dense(p[1], dropout(key, jax.nn.leaky_relu(dense(p[0], image), 0.2), 0.2))


def noise_of(key, draw):
    return jnp.full((BATCH, WIDTH), NOISE) if key is None else draw(key, (BATCH, WIDTH))


def discriminator_loss(p, generator, key, image):
    noise, real, faked = keys(key, 3)
    fake = generated(generator, noise_of(noise, jax.random.normal))
    on_real, on_fake = judged(p, real, image), judged(p, faked, fake)
    return with_logits(on_real, 1.0) + with_logits(on_fake, 0.0)


def generator_loss(p, discriminator, key):
    noise, faked = keys(key, 2)
    image = generated(p, noise_of(noise, jax.random.uniform) * 2 - 1)
    return with_logits(judged(discriminator, faked, image), 1.0)


def adversarial(given: Given):
    """Both networks, what the steps keep, and the function that makes a step of the one and of the other."""
    update = adam(2e-4, first=0.5)
    generator, discriminator = ([given.dense() for _ in range(2)] for _ in range(2))
    held = generator, update.new(generator), discriminator, update.new(discriminator)

    def train(held, key, image):
        g, g_state, d, d_state = held
        first, second = keys(key, 2)
        judged_loss, gradients = jax.value_and_grad(discriminator_loss)(d, g, first, image)
        d, d_state = update.of(d, gradients, d_state)
        made_loss, gradients = jax.value_and_grad(generator_loss)(g, d, second)
        g, g_state = update.of(g, gradients, g_state)
        return judged_loss + made_loss, (g, g_state, d, d_state)

    return (generator, discriminator), held, train


PROGRAMS = {"ctr": ctr, "smoothed": smoothed, "float64": float64}
