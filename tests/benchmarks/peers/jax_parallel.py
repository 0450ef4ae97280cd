"""The workloads in JAX, compiled by `jit` for a batch that is split over devices and parameters that are on all.

XLA_FLAGS must have made the host into so many devices.
"""

import jax
from jax.sharding import NamedSharding, PartitionSpec
from jax_jit import program, stepping
from measure import batch, main


def training(name, devices):
    assert jax.device_count() == devices
    mesh = jax.make_mesh((devices,), ("device",))
    whole, split = NamedSharding(mesh, PartitionSpec()), NamedSharding(mesh, PartitionSpec("device"))
    held, train = program(name)
    apply = jax.jit(train, in_shardings=(whole, split, split), out_shardings=whole, donate_argnums=0)
    return stepping(apply, jax.device_put(held, whole, may_alias=False), *batch(name))


if __name__ == "__main__":
    main(training, jax.__version__)
