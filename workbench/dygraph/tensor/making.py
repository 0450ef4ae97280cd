"""`to_tensor`, and what tells tensors from other things."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.dygraph.tensor.tensor import Tensor
from workbench.dygraph.witness import witness
from workbench.errors import InvalidType, Unimplemented
from workbench.framework.program.variable import Variable
from workbench.framework.values.default_dtype import default_dtype
from workbench.framework.values.dtype import as_dtype, int64
from workbench.framework.values.memory import MemoryFor
from workbench.framework.values.place import CPUPlace, Place


def to_tensor(data: Any, dtype: Any = None, place: Place | str | None = None, stop_gradient: bool = True) -> Tensor:
    """A tensor with a copy of `data`.

    Args:
        data: number, nested lists (of numbers, arrays or tensors), array or Tensor. Python floats become the
            default dtype, Python ints int64.
        dtype: element type; taken from the data if None.
        place: `CPUPlace()` or `"cpu"` only.
        stop_gradient: False if a gradient is wanted.

    Raises:
        InvalidType: no supported dtype.

    Example:
        >>> wb.to_tensor([[1, 2], [3, 4]], dtype="float32").shape
        [2, 2]
    """
    from workbench.dygraph.tensor import methods  # noqa: F401 (they need the ops; loaded with the first tensor)

    require_cpu(place)
    with MemoryFor("a copy of", data):
        array = _array(data)
        if dtype is None and not hasattr(data, "dtype"):
            kinds = {"f": default_dtype(), "i": int64, "u": int64}
            default = kinds.get(array.dtype.kind)
            array = array.astype(default.numpy) if default is not None and not _has_dtype(data) else array
        target = as_dtype(array.dtype if dtype is None else dtype)
        tensor = Tensor(np.array(array, target.numpy, copy=True), stop_gradient)
    seen = witness.get()
    if seen is not None:
        seen.saw_made(tensor)
    return tensor


def require_cpu(place: Any) -> None:
    """A place that is asked for is where dynamic mode runs.

    Raises:
        Unimplemented: it is not.
    """
    if not (place is None or isinstance(place, CPUPlace) or place == "cpu"):
        raise Unimplemented(f"dynamic mode runs on the CPU so far, not on {place!r}")


def to_variable(value: Any, name: str | None = None, zero_copy: bool | None = None, dtype: Any = None) -> Tensor:
    """A tensor of a list or array, in its NumPy dtype; a tensor as it is (Paddle's `base.dygraph.to_variable`).

    Args:
        value: lists of numbers, an array or a Tensor.
        name: of the tensor.
        zero_copy: without effect, the values are always copied.
        dtype: element type; that of the array if None.

    Raises:
        InvalidType: something else.

    Example:
        >>> wb.base.dygraph.to_variable(np.ones(2)).dtype
        paddle.float64
    """
    if isinstance(value, Tensor | Variable):
        return value  # type: ignore[return-value]
    if not isinstance(value, list | tuple | np.ndarray):
        raise InvalidType(f"to_variable takes lists, arrays and Tensors, got {type(value).__name__} {value!r}")
    tensor = to_tensor(np.asarray(value), dtype)
    if name is not None:
        tensor.name = name
    return tensor


def _array(data: Any) -> np.ndarray:
    if isinstance(data, Variable):
        raise InvalidType(f"to_tensor takes numbers, arrays or Tensors, got the Variable {data.name!r} of a Program")
    if isinstance(data, Tensor):
        return data.numpy()
    try:
        return np.array(_plain(data))
    except ValueError as error:  # ragged lists
        raise InvalidType(f"to_tensor takes numbers in lists of equal lengths: {error}") from None


def _plain(data: Any) -> Any:
    if isinstance(data, list | tuple):
        return [_plain(d) for d in data]
    return data.as_read() if isinstance(data, Tensor) else data


def _has_dtype(data: Any) -> bool:
    """Whether nested lists hold arrays or tensors, whose dtype counts."""
    return any(map(_has_dtype, data)) if isinstance(data, list | tuple) else hasattr(data, "dtype")


def is_tensor(x: Any) -> bool:
    """Whether `x` is a Tensor, or a Variable of a Program.

    Example:
        >>> wb.is_tensor(wb.ones([1])), wb.is_tensor([1])
        (True, False)
    """
    return isinstance(x, Tensor | Variable)
