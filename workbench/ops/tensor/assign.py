"""Copies: given values as a tensor, a tensor's values once more, with and without its history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.errors import InvalidType
from workbench.framework.op.declare import op
from workbench.framework.op.infix import Infix, tensor_method
from workbench.framework.values.dtype import DType, as_dtype, float64
from workbench.framework.values.memory import MemoryFor
from workbench.framework.values.views import RESHAPED
from workbench.ops.pointwise import Tensor
from workbench.ops.tensor.creation import infer_new

OFFERED = {"workbench": "assign"}


@op(
    "assign_value",
    "-> Out",
    attrs={"values": None, "shape": (), "dtype": "float32"},
    infer=infer_new,
)
def ASSIGN_VALUE(xp: Any, values: Any, shape: Sequence[int], dtype: str) -> Any:
    """The NumPy array held in the attribute `values`."""
    return xp.array(values, as_dtype(dtype).numpy).reshape(tuple(shape))


def constant_of(values: np.ndarray, dtype: DType) -> Tensor:
    """A tensor that holds the values of an array in a dtype; of float64 it is float64, which `assign` makes float32."""
    kept = values.astype(np.float64 if dtype is float64 else np.float32)
    return ASSIGN_VALUE(values=kept, shape=kept.shape, dtype=dtype.name)


@op(
    "assign",
    "X -> Out",
    infer=lambda x: x,
    grad=lambda g, out, x: g,
    saved="",
    shape_only="X",
    aliases={"Out": "X"},
    grad_view=RESHAPED,
)
def ASSIGN(xp: Any, x: Any) -> Any:
    """A copy of X."""
    return xp.array(x)


@op("detach", "X -> Out", like_x="Out", infer=lambda x: x)
def DETACH(xp: Any, x: Any) -> Any:
    """A copy of X through which no gradient flows."""
    return xp.array(x)


@tensor_method("detach")
def detach(x: Any) -> Tensor:
    """The value of `x` without its history: no gradient flows through it."""
    return DETACH(x)


@tensor_method("clone")
def assign(x: Any, output: Tensor | None = None, name: str | None = None) -> Tensor:
    """A copy of a tensor, or a tensor with the values of an array, list or number.

    Args:
        x: a tensor (gradients flow through the copy), or values: float64 arrays and Python floats become
            float32, as in Paddle.
        output: an existing Variable or Tensor to write into instead of a new one.

    Returns:
        the copy (`output` if it was given).

    Raises:
        InvalidType: values that are no numbers. InvalidArgument: `output` has another shape or dtype.

    Example:
        >>> print(wb.assign(np.array([1.0, 2.0], np.float32)).numpy())
        [1. 2.]
    """
    if isinstance(x, Infix):
        return _assigned(ASSIGN, (x,), {}, output, name)
    values = _as_values(x)
    attrs = {"values": values, "shape": values.shape, "dtype": as_dtype(values.dtype).name}
    return _assigned(ASSIGN_VALUE, (), attrs, output, name)


def _assigned(record: Any, inputs: tuple[Any, ...], attrs: dict[str, Any], output: Any, name: str | None) -> Any:
    if output is None:
        return record(*inputs, name=name, **attrs)
    return output.overwrite(record, inputs, attrs)


def _as_values(x: Any) -> np.ndarray:
    with MemoryFor("a copy of", x):
        try:
            values = np.array(x)
            as_dtype(values.dtype)
        except ValueError as error:  # ragged lists; InvalidType is a ValueError too
            raise InvalidType(f"assign takes a tensor or numbers, got {type(x).__name__}: {error}") from None
        return values.astype(np.float32) if values.dtype == np.float64 else values
