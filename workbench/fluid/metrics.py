"""Metrics of Paddle 1.x (`paddle.fluid.metrics`)."""

from workbench.fluid.tables import METRICS, first_names

__getattr__, __dir__ = first_names("workbench.fluid.metrics", METRICS)
