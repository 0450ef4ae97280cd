"""Names of `paddle.fluid.incubate.fleet.parameter_server`."""

from workbench.fluid.tables import first_names

__getattr__, __dir__ = first_names("workbench.fluid.incubate.fleet.parameter_server", {}, ["distribute_transpiler"])
