"""Names of `paddle.fluid.unique_name`."""

from workbench.fluid.tables import UNIQUE_NAME, first_names

__getattr__, __dir__ = first_names("workbench.fluid.unique_name", UNIQUE_NAME)
