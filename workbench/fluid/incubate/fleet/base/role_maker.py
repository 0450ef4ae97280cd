"""Names of `paddle.fluid.incubate.fleet.base.role_maker`."""

from workbench.fluid.tables import ROLE_MAKER, first_names

__getattr__, __dir__ = first_names("workbench.fluid.incubate.fleet.base.role_maker", ROLE_MAKER)
