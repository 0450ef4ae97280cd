"""Names of `paddle.fluid.regularizer`."""

from workbench.fluid.tables import REGULARIZER, first_names

__getattr__, __dir__ = first_names("workbench.fluid.regularizer", REGULARIZER)
