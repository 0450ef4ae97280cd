"""Names of `paddle.fluid.io`."""

from workbench.fluid.tables import IO, first_names

__getattr__, __dir__ = first_names("workbench.fluid.io", IO)
