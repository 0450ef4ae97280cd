"""Names of `paddle.fluid.transpiler.distribute_transpiler`."""

from workbench.fluid.tables import DISTRIBUTE_TRANSPILER, first_names

__getattr__, __dir__ = first_names("workbench.fluid.transpiler.distribute_transpiler", DISTRIBUTE_TRANSPILER)
