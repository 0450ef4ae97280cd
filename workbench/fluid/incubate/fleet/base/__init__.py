"""Names of `paddle.fluid.incubate.fleet.base`."""

from workbench.fluid.tables import first_names

__getattr__, __dir__ = first_names("workbench.fluid.incubate.fleet.base", {}, ["fleet_base", "role_maker"])
