"""Neural networks: layers, functions, initializers, gradient clipping (Paddle 2.x's `paddle.nn`)."""

from workbench.facade import NN, lazy

__getattr__, __dir__ = lazy("workbench.nn", NN, ["functional", "initializer", "loss", "utils"])
