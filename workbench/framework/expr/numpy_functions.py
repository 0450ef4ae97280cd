"""What an element-wise body calls on NumPy arrays: NumPy, and the listed functions it lacks."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from workbench.framework.expr.erf import erf
from workbench.framework.expr.step_calls import choose
from workbench.framework.values.dtype import as_dtype


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
