"""Names of `paddle.fluid.incubate.fleet.dist_transpiler`."""

from workbench.fluid.tables import DIST_TRANSPILER, first_names

__getattr__, __dir__ = first_names("workbench.fluid.incubate.fleet.dist_transpiler", DIST_TRANSPILER)
