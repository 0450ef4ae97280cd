"""Which half precisions there are on a device."""

from __future__ import annotations

from typing import Any


def is_float16_supported(device: Any = None) -> bool:
    """Whether `amp` computes in float16 there: not on a CPU.

    Args:
        device: accepted for Paddle's sake; programs run on the CPU so far.

    Example:
        >>> wb.amp.is_float16_supported()
        False
    """
    return False


def is_bfloat16_supported(device: Any = None) -> bool:
    """Whether `amp` computes in bfloat16 there.

    Args:
        device: accepted for Paddle's sake; programs run on the CPU so far.

    Example:
        >>> wb.amp.is_bfloat16_supported()
        True
    """
    return True
