"""Names of `….parameter_server.distribute_transpiler`."""

from workbench.fluid.tables import SERVER_FLEET, first_names

__getattr__, __dir__ = first_names(
    "workbench.fluid.incubate.fleet.parameter_server.distribute_transpiler", SERVER_FLEET, ["distributed_strategy"]
)
