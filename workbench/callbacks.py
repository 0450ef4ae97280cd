"""What `Model` calls while it works (Paddle 2.x's `paddle.callbacks`)."""

from workbench.facade import CALLBACKS, lazy

__getattr__, __dir__ = lazy("workbench.callbacks", CALLBACKS)
