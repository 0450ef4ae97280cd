"""The value of a tensor in Python: as numbers, arrays and text."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from workbench.dygraph.kinds import Kind
from workbench.dygraph.tensor.text import values_text
from workbench.dygraph.witness import witness
from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.values.number import copied
from workbench.framework.values.rows import Rows


class PythonValue:
    """What Python sees of a tensor's value.

    Attributes:
        array: the value. kind: its shape and dtype. stop_gradient: no gradient flows through it.
        has_value: False of what only stands for a value, as long as something is recorded.
    """

    __slots__ = ()

    array: Any
    kind: Kind
    stop_gradient: bool
    has_value = True

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.kind.shape)

    def dim(self) -> int:
        """Number of dimensions."""
        return len(self.kind.shape)

    ndimension = dim

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.kind.shape)

    def numpy(self) -> np.ndarray:
        """A copy as a NumPy array."""
        return copied(self.as_read())

    def as_fed(self) -> np.ndarray:
        """The value as it is, not a copy: for a step that only reads it."""
        array: np.ndarray = self.array
        return array if type(array) is np.ndarray else self._dense()

    def as_read(self) -> Any:
        """The array of the value, not a copy, for Python to look at: whoever records is told."""
        seen = witness.get()
        if seen is not None:
            seen.saw_read(self)
        return self.as_fed()

    def _dense(self) -> Any:
        return self.array.to_dense(np) if isinstance(self.array, Rows) else self.array

    def item(self, *index: int) -> Any:
        """The only element, or the one at an index, as a Python number.

        Raises:
            InvalidArgument: there are several, or none there.
        """
        if not index and self.size != 1:
            raise InvalidArgument(f"item() of a tensor of shape {list(self.kind.shape)} needs the index of an element")
        try:
            return self.as_read().item(*index)
        except (IndexError, ValueError) as error:
            raise InvalidArgument(f"item{index} of a tensor of shape {list(self.kind.shape)}: {error}") from None

    def tolist(self) -> Any:
        """The value as nested lists of Python numbers."""
        return self.as_read().tolist()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.as_read(), dtype=dtype)

    def _only(self, what: str) -> Any:
        if self.size != 1:
            raise InvalidType(f"a tensor of shape {list(self.kind.shape)} has no single {what}")
        return self.as_read().item()

    def __float__(self) -> float:
        return float(self._only("number"))

    def __int__(self) -> int:
        return int(self._only("number"))

    def __index__(self) -> int:
        if not self.kind.dtype.is_integer:
            raise InvalidType(f"an index is an integer, not a tensor of {self.kind.dtype}")
        return int(self._only("number"))

    def __complex__(self) -> complex:
        return complex(self._only("number"))

    def __bool__(self) -> bool:
        return bool(self._only("truth value"))

    def __format__(self, how: str) -> str:
        return format(self.item(), how) if how and self.size == 1 else format(str(self), how)

    def __iter__(self) -> Any:
        whole: Any = self
        return (whole[i] for i in range(len(whole)))

    def __len__(self) -> int:
        if not self.kind.shape:
            raise TypeError("a tensor without dimensions has no length")
        return self.kind.shape[0]

    def __contains__(self, value: Any) -> bool:
        sought = value.as_read() if isinstance(value, PythonValue) else value
        return bool((self.as_read() == sought).any())

    def __repr__(self) -> str:
        shape, dtype = list(self.kind.shape), self.kind.dtype
        head = f"Tensor(shape={shape}, dtype={dtype}, place=Place(cpu), stop_gradient={self.stop_gradient},"
        return f"{head}\n       {values_text(self.as_read())})"
