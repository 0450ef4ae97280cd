"""Recorded functions: steps of dynamic mode as programs (Paddle 2.x's `paddle.jit`, and `capture`)."""

from workbench.errors import suggesting
from workbench.jit.capture import CapturedStep, capture
from workbench.jit.captured_tensor import NeedsValue

__all__ = ["CapturedStep", "NeedsValue", "capture"]

__getattr__ = suggesting(__name__, __all__)
