"""Parameters seen in another way, and their gradients (Paddle 2.x's `paddle.nn.utils`)."""

from workbench.facade import NN_UTILS, lazy

__getattr__, __dir__ = lazy("workbench.nn.utils", NN_UTILS)
