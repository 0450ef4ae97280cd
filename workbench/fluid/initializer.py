"""Names of `paddle.fluid.initializer`."""

from workbench.fluid.tables import INITIALIZER, first_names

__getattr__, __dir__ = first_names("workbench.fluid.initializer", INITIALIZER)
