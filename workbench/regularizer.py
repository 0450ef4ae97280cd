"""Weight decay (Paddle 2.x's `paddle.regularizer`)."""

from workbench.facade import lazy

__getattr__, __dir__ = lazy("workbench.regularizer", {"workbench.optimizer.regularizer": "L1Decay L2Decay"})
