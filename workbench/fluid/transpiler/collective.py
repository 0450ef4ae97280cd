"""Names of `paddle.fluid.transpiler.collective`."""

from workbench.fluid.tables import TRANSPILER_CLASSES, first_names

__getattr__, __dir__ = first_names("workbench.fluid.transpiler.collective", TRANSPILER_CLASSES)
