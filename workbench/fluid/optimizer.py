"""Names of `paddle.fluid.optimizer`."""

from workbench.fluid.tables import OPTIMIZER, first_names

__getattr__, __dir__ = first_names("workbench.fluid.optimizer", OPTIMIZER)
