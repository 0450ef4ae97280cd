"""What an element-wise body calls on NumPy arrays: NumPy, and the listed functions it lacks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from workbench.framework.expr.erf import erf
from workbench.framework.values.dtype import as_dtype

_LONG_CHOICE = 1 << 12
_BITS = {1: np.dtype("int8"), 2: np.dtype("int16"), 4: np.dtype("int32"), 8: np.dtype("int64")}


def choose(mask: Any, x: Any, y: Any) -> Any:
    """`np.where`, by arithmetic on the bits where that takes a fraction of the time.

    NumPy branches on every element, which costs 5 ns each where the mask is irregular. Wrapping integers do not branch,
    and `y + (x - y) * mask` is exact with them.
    """
    if not isinstance(mask, np.ndarray) or mask.size < _LONG_CHOICE or mask.dtype.kind != "b":
        return np.where(mask, x, y)
    x, y = np.asarray(x), np.asarray(y)
    is_plain = x.dtype == y.dtype and all(a.shape in (mask.shape, ()) and a.flags.c_contiguous for a in (x, y))
    if not (is_plain and mask.flags.c_contiguous and x.dtype.kind in "fiu" and x.dtype.itemsize in _BITS):
        return np.where(mask, x, y)
    bits = _BITS[x.dtype.itemsize]
    first, second = x.view(bits), y.view(bits)
    part = np.multiply(np.subtract(first, second), mask)
    return np.add(second, part, out=part).view(x.dtype)


def _cast(x: Any, dtype: str) -> Any:
    return x.astype(as_dtype(dtype).numpy)


def _where(condition: Any, x: Any, y: Any) -> Any:
    """NumPy's `where`, in which a Python number does not widen bfloat16."""
    if type(x) in (int, float, bool):  # np.float64, what a ufunc makes of no dimensions, is a float as well
        x = y.dtype.type(x)
    elif type(y) in (int, float, bool):
        y = x.dtype.type(y)
    return choose(condition, x, y)


class _NumpyFunctions(SimpleNamespace):
    """NumPy, plus the listed functions it lacks."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(np, name)
        setattr(self, name, value)  # the next look-up is a plain attribute
        return value


numpy_xp: Any = _NumpyFunctions(erf=erf, cast=_cast, where=_where)
