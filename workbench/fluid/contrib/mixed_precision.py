"""Names of `paddle.fluid.contrib.mixed_precision`."""

from workbench.fluid.tables import MIXED_PRECISION, first_names

__getattr__, __dir__ = first_names("workbench.fluid.contrib.mixed_precision", MIXED_PRECISION)
