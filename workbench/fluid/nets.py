"""Layers put together, as Paddle 1.x has them (`paddle.fluid.nets`)."""

from workbench.fluid.tables import NETS, first_names

__getattr__, __dir__ = first_names("workbench.fluid.nets", NETS)
