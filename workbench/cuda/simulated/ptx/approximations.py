"""The functions that GPUs approximate (`.approx`), wrong by as much as NVIDIA states and no more.

Each result is off by a share of the stated error that its operand's bits decide: the same operand always gives the same
result, whatever the seed, and a kernel that needs more accuracy than is promised shows it. Results that float32 holds
exactly stay exact, as they are on hardware.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

RELATIVE = {
    "div": 2.0**-22,
    "rcp": 2.0**-23,
    "sqrt": 2.0**-23,
    "rsqrt": 2.0**-22.9,
    "ex2": 2.0**-22.5,
    "tanh": 2.0**-11,
}
"""The largest relative error of each, by the PTX manual (2 ulp of a division, 1 ulp of a reciprocal)."""
ABSOLUTE = {"lg2": 2.0**-22.6, "sin": 2.0**-20.9, "cos": 2.0**-20.9}
"""The largest absolute error of the others; lg2 has it near 1, elsewhere it is relative."""


def _wobble(operand: np.ndarray) -> np.ndarray:
    """Return numbers in [-0.9, 0.9] that the bits of float32 operands decide; the rest is left to rounding."""
    bits = np.asarray(operand, np.float32).view(np.uint32)
    mixed = (bits ^ bits >> np.uint32(15)) * np.uint32(0x2C1B3C6D)
    mixed = (mixed ^ mixed >> np.uint32(12)) * np.uint32(0x297A2D39)
    return (mixed >> np.uint32(8)).astype(np.float64) * (1.8 / (1 << 24)) - 0.9


def _approximate(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def approximation(*given: Any) -> np.ndarray:
        exact = np.asarray(function(*(np.asarray(value, np.float64) for value in given)), np.float64)
        if name in RELATIVE:
            error = np.abs(exact) * (RELATIVE[name] - 2.0**-24)
        else:
            error = np.where((name == "lg2") & (np.abs(exact) > 1), np.abs(exact), 1.0) * (ABSOLUTE[name] / 2)
        wrong = exact + _wobble(given[-1]) * error
        keeps = ~np.isfinite(exact) | (exact.astype(np.float32) == exact)
        return np.where(keeps, exact, wrong).astype(np.float32)

    return approximation


APPROXIMATE: dict[str, Callable[..., Any]] = {
    "div": _approximate("div", np.divide),
    "rcp": _approximate("rcp", lambda a: 1.0 / a),
    "sqrt": _approximate("sqrt", np.sqrt),
    "rsqrt": _approximate("rsqrt", lambda a: 1.0 / np.sqrt(a)),
    "ex2": _approximate("ex2", np.exp2),
    "lg2": _approximate("lg2", np.log2),
    "sin": _approximate("sin", np.sin),
    "cos": _approximate("cos", np.cos),
    "tanh": _approximate("tanh", np.tanh),
}
"""What executes each of them on float32 values."""
