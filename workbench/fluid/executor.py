"""Names of `paddle.fluid.executor`."""

from workbench.fluid.tables import EXECUTOR, first_names

__getattr__, __dir__ = first_names("workbench.fluid.executor", EXECUTOR)
