"""Names of Paddle 1.x (`paddle.fluid`), for programs written for it."""

from workbench.fluid.tables import FLUID, MODULES, first_names

__getattr__, __dir__ = first_names("workbench.fluid", FLUID, MODULES)
