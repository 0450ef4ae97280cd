"""Stretches of arrays on their way into the slots of a window."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from workbench.runtime.native.image import Kernels
from workbench.runtime.native.library import kernels_if_compiled
from workbench.runtime.native.tape import address
from workbench.runtime.words.window import PASSED


def put(target: np.ndarray, source: np.ndarray) -> None:
    """Copy to where other processes read, past the caches if it is large, see `PASSED`.

    Args:
        target: a stretch of a slot. source: of its length.
    """
    is_plain = source.dtype == target.dtype and source.flags.c_contiguous
    kernels = kernels_if_compiled() if is_plain and target.nbytes >= PASSED else None
    if kernels is None:
        target[...] = source
    else:
        _put_bytes(kernels)(address(target), address(source), target.nbytes)


@cache
def _put_bytes(kernels: Kernels) -> Callable[[int, int, int], Any]:
    function: Callable[[int, int, int], Any] = kernels.entry("put_bytes", 3)
    return function
