"""Layers and control flow of static programs (Paddle 2.x's `paddle.static.nn`)."""

from workbench.facade import STATIC_NN, lazy

__getattr__, __dir__ = lazy("workbench.static.nn", STATIC_NN)
