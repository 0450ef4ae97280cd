"""Functions on tensors for neural networks (Paddle 2.x's `paddle.nn.functional`)."""

from workbench.facade import FUNCTIONAL, lazy

__getattr__, __dir__ = lazy("workbench.nn.functional", FUNCTIONAL)
