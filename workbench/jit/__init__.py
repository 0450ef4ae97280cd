"""Functions and steps of dynamic mode as programs (Paddle 2.x's `paddle.jit`, and `capture`)."""

from workbench.errors import suggesting
from workbench.jit.capture import CapturedStep, capture
from workbench.jit.saving import load, save
from workbench.jit.static_function import (
    StaticFunction,
    enable_to_static,
    ignore_module,
    not_to_static,
    set_code_level,
    set_verbosity,
    to_static,
)
from workbench.jit.translated_layer import TranslatedLayer
from workbench.jit.values.captured_tensor import NeedsValue

__all__ = [
    "CapturedStep",
    "NeedsValue",
    "StaticFunction",
    "TranslatedLayer",
    "capture",
    "enable_to_static",
    "ignore_module",
    "load",
    "not_to_static",
    "save",
    "set_code_level",
    "set_verbosity",
    "to_static",
]

__getattr__ = suggesting(__name__, __all__)
