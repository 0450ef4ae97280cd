"""Tensor: a value computed at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.errors import InvalidType, Unimplemented
from workbench.framework.op.infix import Infix
from workbench.framework.op.record import Op
from workbench.framework.values.dtype import DType, as_dtype, float32, int64
from workbench.framework.values.place import CPUPlace, Place
from workbench.framework.values.spec import require_place_for, spec_of

_NO_TAPE = (
    "dynamic mode computes but does not record yet, so there is nothing to go backward through; "
    "call enable_static() and build a Program (static.append_backward, optimizer.minimize)"
)


class Tensor(Infix):
    """An array with workbench's ops. There is no tape yet: gradients need static mode.

    Attributes:
        array: the value.
        stop_gradient: kept for compatibility; nothing is recorded.

    Example:
        >>> x = wb.Tensor(np.ones((2, 3), np.float32))
        >>> (x + 1).sum().numpy()
        array([12.], dtype=float32)
    """

    __slots__ = ("array", "stop_gradient")

    def __init__(self, array: Any, stop_gradient: bool = True) -> None:
        self.array, self.stop_gradient = array, stop_gradient

    @property
    def shape(self) -> tuple[int, ...]:  # type: ignore[override]
        """Dimensions."""
        return tuple(self.array.shape)

    @property
    def dtype(self) -> DType:  # type: ignore[override]
        """Element type."""
        return as_dtype(self.array.dtype)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(self.array.size)

    @property
    def place(self) -> Place:
        """Where the value is."""
        return CPUPlace()

    def numpy(self) -> np.ndarray:
        """A copy as a NumPy array."""
        return np.array(self.array)

    def overwrite(self, op: Op, inputs: tuple[Any, ...], attrs: dict[str, Any]) -> Tensor:
        """Compute a one-output op and make the result this tensor's value.

        Raises:
            InvalidArgument: the result has another shape or dtype.
        """
        made = op(*inputs, **attrs)
        require_place_for(spec_of(made), "the tensor given as output", spec_of(self))
        self.array = made.array
        return self

    def item(self) -> Any:
        """The only element as a Python number."""
        return self.array.item()

    def tolist(self) -> Any:
        """The value as nested lists of Python numbers."""
        return self.array.tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.array, dtype=dtype)

    def __float__(self) -> float:
        return float(self.array.item())

    def __int__(self) -> int:
        return int(self.array.item())

    def __bool__(self) -> bool:
        return bool(self.array.item() if self.array.size == 1 else self._ambiguous())

    def _ambiguous(self) -> bool:
        raise InvalidType(f"a tensor of shape {list(self.shape)} has no single truth value")

    def __iter__(self) -> Any:
        return (self[i] for i in range(len(self)))

    def backward(self, *args: Any, **kwargs: Any) -> None:
        """Not available: raises and says what to do instead."""
        raise Unimplemented(_NO_TAPE)

    @property
    def grad(self) -> None:
        """Not available: raises and says what to do instead."""
        raise AttributeError(_NO_TAPE)

    def __repr__(self) -> str:
        body = np.array2string(np.asarray(self.array), separator=", ", prefix=" " * 7)
        return f"Tensor({list(self.shape)}, {self.dtype},\n       {body})"


def to_tensor(data: Any, dtype: Any = None, place: Place | None = None, stop_gradient: bool = True) -> Tensor:
    """A tensor with a copy of `data`.

    Args:
        data: number, nested lists, array or Tensor. Python floats become float32, Python ints int64.
        dtype: element type; taken from the data if None.
        place: `CPUPlace()` only.

    Raises:
        InvalidType: no supported dtype.

    Example:
        >>> wb.to_tensor([[1, 2], [3, 4]], dtype="float32").shape
        (2, 2)
    """
    import workbench.ops  # noqa: F401 (a tensor's methods and operators; loaded with the first tensor)

    if place is not None and not isinstance(place, CPUPlace):
        raise Unimplemented(f"dynamic mode runs on the CPU so far, not on {place!r}")
    array = np.array(data.array if isinstance(data, Tensor) else data)
    if dtype is None and not hasattr(data, "dtype"):
        kinds = {"f": float32, "i": int64, "u": int64}
        found = kinds.get(array.dtype.kind)
        array = array.astype(found.numpy) if found is not None else array
    target = as_dtype(array.dtype if dtype is None else dtype)
    return Tensor(array.astype(target.numpy, copy=False), stop_gradient)
