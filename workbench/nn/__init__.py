"""Neural networks: functions, initializers, gradient clipping (Paddle 2.x's `paddle.nn`)."""

from workbench.facade import lazy

NN = {"workbench.optimizer.clip": "ClipGradByGlobalNorm ClipGradByNorm ClipGradByValue"}

__getattr__, __dir__, __all__ = lazy("workbench.nn", NN, ["functional", "initializer"])
