"""Layers, losses and learning rates of Paddle 1.x (`paddle.fluid.layers`)."""

from workbench.fluid.tables import LAYERS, first_names

__getattr__, __dir__ = first_names("workbench.fluid.layers", LAYERS)
