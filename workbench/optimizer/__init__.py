"""Optimizers and learning rate schedules (Paddle 2.x's `paddle.optimizer`)."""

from workbench.facade import OPTIMIZER, lazy

__getattr__, __dir__ = lazy(__name__, OPTIMIZER, ["lr"])
