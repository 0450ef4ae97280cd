"""Names of `paddle.fluid.incubate.fleet`."""

from workbench.fluid.tables import first_names

__getattr__, __dir__ = first_names(
    "workbench.fluid.incubate.fleet", {}, ["base", "collective", "dist_transpiler", "parameter_server"]
)
