"""Names of `….distribute_transpiler.distributed_strategy`."""

from workbench.fluid.tables import SERVER_STRATEGIES, first_names

__getattr__, __dir__ = first_names(
    "workbench.fluid.incubate.fleet.parameter_server.distribute_transpiler.distributed_strategy", SERVER_STRATEGIES
)
