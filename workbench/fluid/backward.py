"""Names of `paddle.fluid.backward`."""

from workbench.fluid.tables import BACKWARD, first_names

__getattr__, __dir__ = first_names("workbench.fluid.backward", BACKWARD)
