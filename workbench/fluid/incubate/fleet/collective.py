"""Names of `paddle.fluid.incubate.fleet.collective`."""

from workbench.fluid.tables import COLLECTIVE, first_names

__getattr__, __dir__ = first_names("workbench.fluid.incubate.fleet.collective", COLLECTIVE)
