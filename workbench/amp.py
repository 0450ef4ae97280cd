"""Mixed precision (Paddle 2.x's `paddle.amp`)."""

from workbench.facade import AMP, lazy

__getattr__, __dir__ = lazy("workbench.amp", AMP)
