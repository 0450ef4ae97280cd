"""Linear algebra (Paddle 2.x's `paddle.linalg`)."""

from workbench.facade import LINALG, lazy

__getattr__, __dir__, __all__ = lazy("workbench.linalg", LINALG)
