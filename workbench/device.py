"""Devices (Paddle 2.x's `paddle.device`)."""

from workbench.facade import DEVICE, lazy

__getattr__, __dir__ = lazy("workbench.device", DEVICE)
