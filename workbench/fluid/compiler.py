"""Names of `paddle.fluid.compiler`."""

from workbench.fluid.tables import COMPILER, first_names

__getattr__, __dir__ = first_names("workbench.fluid.compiler", COMPILER)
