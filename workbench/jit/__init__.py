"""Functions and steps of dynamic mode as programs (Paddle 2.x's `paddle.jit`, and `capture`)."""

from workbench.errors import suggesting
from workbench.jit.capture import CapturedStep, capture
from workbench.jit.captured_tensor import NeedsValue
from workbench.jit.static_function import StaticFunction, enable_to_static, ignore_module, not_to_static, to_static

__all__ = [
    "CapturedStep",
    "NeedsValue",
    "StaticFunction",
    "capture",
    "enable_to_static",
    "ignore_module",
    "not_to_static",
    "to_static",
]

__getattr__ = suggesting(__name__, __all__)
