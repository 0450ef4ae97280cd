"""Names of `paddle.fluid.incubate.fleet.base.fleet_base`."""

from workbench.fluid.tables import FLEET_BASE, first_names

__getattr__, __dir__ = first_names("workbench.fluid.incubate.fleet.base.fleet_base", FLEET_BASE)
