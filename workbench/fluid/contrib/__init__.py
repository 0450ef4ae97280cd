"""Names of `paddle.fluid.contrib`."""

from workbench.fluid.tables import first_names

__getattr__, __dir__ = first_names("workbench.fluid.contrib", {}, ["mixed_precision"])
