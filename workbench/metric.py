"""Metrics (Paddle 2.x's `paddle.metric`)."""

from workbench.facade import METRIC, lazy

__getattr__, __dir__ = lazy("workbench.metric", METRIC)
