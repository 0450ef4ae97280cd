"""The programs of `workbench bench --coverage` in JAX, the whole step compiled by `jit` with its state donated."""

import jax
import jax.numpy as jnp
import numpy as np
from covered import main
from in_jax import attention, convolutional, dense, recurrent
from in_jax.layers import Given

PROGRAMS = {**attention.PROGRAMS, **convolutional.PROGRAMS, **dense.PROGRAMS, **recurrent.PROGRAMS}
RANDOM = {"causal", "cross", "bfloat16", "smoothed", "gan"}


def program(name, given):
    """What is trained, what the steps keep, and the function from that, a key and a batch to its loss and the next."""
    if name == "gan":
        return dense.adversarial(given)
    values, held, loss_of, update = PROGRAMS[name](given)

    def train(kept, key, *feed):
        values, held, state = kept
        (loss, held), gradients = jax.value_and_grad(loss_of, has_aux=True)(values, held, key, *feed)
        values, state = update.of(values, gradients, state)
        return loss, (values, held, state)

    return values, (values, held, update.new(values)), train


def training(name, start, options):
    jax.config.update("jax_enable_x64", any(array.dtype == np.float64 for array in start.feed))
    values, kept, train = program(name, Given(start.values))
    kept = jax.tree.map(jnp.array, kept), jax.random.key(7) if start.drawn and name in RANDOM else None

    def whole(kept, *feed):
        kept, key = kept
        now, key = (None, None) if key is None else jax.random.split(key)
        loss, kept = train(kept, now, *feed)
        return loss, (kept, key)

    apply = jax.jit(whole, donate_argnums=0)

    def step():
        nonlocal kept
        loss, kept = apply(kept, *start.feed)
        return float(loss)

    return step, sum(array.size for array in jax.tree.leaves(values))


if __name__ == "__main__":
    main(training, jax.__version__)
