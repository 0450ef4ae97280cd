"""Linear algebra (Paddle 2.x's `paddle.linalg`)."""

from workbench.facade import lazy

__getattr__, __dir__ = lazy("workbench.linalg", {})
