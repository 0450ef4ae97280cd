"""Names of `paddle.fluid.transpiler`."""

from workbench.fluid.tables import TRANSPILER, first_names

__getattr__, __dir__ = first_names(
    "workbench.fluid.transpiler", TRANSPILER, ["collective", "distribute_transpiler", "ps_dispatcher"]
)
