"""Names of `paddle.fluid.communicator`."""

from workbench.fluid.tables import COMMUNICATOR, first_names

__getattr__, __dir__ = first_names("workbench.fluid.communicator", COMMUNICATOR)
