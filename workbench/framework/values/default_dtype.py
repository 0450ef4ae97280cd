"""The dtype of floating numbers for which nobody says another."""

from __future__ import annotations

from typing import Any

from workbench.errors import InvalidType
from workbench.framework.values.dtype import DType, as_dtype, bfloat16, float16, float32, float64

_ALLOWED = (float16, bfloat16, float32, float64)
chosen = {"dtype": float32}  # in force


def default_dtype() -> DType:
    """The dtype itself; `get_default_dtype` gives its name."""
    return chosen["dtype"]


def get_default_dtype() -> str:
    """The name of the dtype of floating numbers for which nobody says another, "float32" at first.

    Example:
        >>> wb.get_default_dtype()
        'float32'
    """
    return chosen["dtype"].name


def set_default_dtype(d: Any) -> None:
    """Choose the dtype of floating numbers for which nobody says another: of new tensors and of layers' parameters.

    Raises:
        InvalidType: other than float16, bfloat16, float32 and float64.

    Example:
        >>> wb.set_default_dtype("float64")
        >>> str(wb.zeros([1]).dtype), str(wb.nn.Linear(2, 3).weight.dtype)
        ('paddle.float64', 'paddle.float64')
        >>> wb.set_default_dtype("float32")
    """
    dtype = as_dtype(d)
    if dtype not in _ALLOWED:
        raise InvalidType(f"the default dtype is {', '.join(a.name for a in _ALLOWED[:-1])} or float64, got {dtype}")
    chosen["dtype"] = dtype
