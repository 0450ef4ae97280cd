"""Arrays of one element that also work as a number: what a fetched loss is.

Programs for Paddle print a fetched loss as `"%f" % loss`, keep `float(loss)` and read `loss[0]`, whether its shape is
`[1]`, as in Paddle 1.x, or `[]`. NumPy takes only arrays without dimensions for numbers (from 2.4 on others raise
TypeError), and only those with dimensions have a `[0]`.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import index as as_index
from typing import Any

import numpy as np

from workbench.framework.values.spec import Shape

_SINGLE = frozenset([(), (1,)])


class NumberArray(np.ndarray):
    """An array of shape `[]` or `[1]` that also works as a number, with every NumPy from 2.0 on.

    What arithmetic makes of it is such an array where its shape is `[1]`, and otherwise what NumPy makes of an array.
    It is printed like an array, and pickles and files of it hold plain arrays.

    Raises:
        TypeError: it is asked for a number and has another shape, as `loss.repeat(2)` has.

    Example:
        >>> loss = copied(np.array([0.5], np.float32))
        >>> print("%.2f" % loss, f"{loss * 2:.1f}", float(loss), loss[0], [loss])
        0.50 1.0 0.5 0.5 [array([0.5], dtype=float32)]
    """

    __slots__ = ()  # the memory of an ndarray, which compiled code fills

    def _only(self) -> Any:
        """The element, as a Python number where there is one for it."""
        if self.size != 1:
            raise TypeError(f"an array of shape {list(self.shape)} is no single number")
        return self.item()

    def __float__(self) -> float:
        return float(self._only())

    def __int__(self) -> int:
        return int(self._only())

    __trunc__ = __int__

    def __complex__(self) -> complex:
        return complex(self._only())

    def __index__(self) -> int:
        if self.dtype.kind not in "iu":
            raise TypeError(f"an index is an integer, not {self.dtype}")
        return as_index(self._only())

    def __round__(self, digits: int | None = None) -> Any:
        only = self._only()
        return round(only if isinstance(only, int | float) else float(only), digits)

    def round(self, decimals: Any = 0, out: Any = None) -> Any:
        """See `ndarray.round`, which forgets what kind of array it is given."""
        rounded = super().round(decimals, out)
        return copied(rounded) if out is None and isinstance(rounded, np.ndarray) else rounded

    def __format__(self, how: str) -> str:
        if not how or self.size != 1:
            return super().__format__(how)
        only = self.item()
        return format(only if isinstance(only, int | float | complex) else float(only), how)

    def __getitem__(self, index: Any) -> Any:
        is_integer = isinstance(index, int | np.integer) and not isinstance(index, bool)
        if is_integer and not self.ndim and index in (0, -1):
            return self[()]
        return self.view(np.ndarray)[index]

    def __array_wrap__(self, array: Any, context: Any = None, return_scalar: bool = False) -> Any:
        if array is self:  # computed in place
            return self
        if return_scalar:
            return array[()]
        return array.view(NumberArray) if array.shape == (1,) else array

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.view(np.ndarray).__reduce_ex__(protocol)

    def __repr__(self) -> str:
        return repr(self.view(np.ndarray))


def allocator(shape: Shape) -> Callable[[Shape, np.dtype], np.ndarray]:
    """What allocates results of a shape, their content undefined: those of shape `[]` and `[1]` work as numbers."""
    return NumberArray if shape in _SINGLE else np.empty


def copied(array: np.ndarray) -> np.ndarray:
    """A copy for the user, which works as a number where its shape is `[]` or `[1]`."""
    if array.shape not in _SINGLE:
        return np.array(array)
    copy = NumberArray(array.shape, array.dtype)
    copy[...] = array
    return copy
