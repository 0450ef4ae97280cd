"""What numbers a dtype has: `finfo` and `iinfo`."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.values.dtype import as_dtype


class _Limits:
    """Named numbers of a dtype; shown in a row."""

    _shown: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"paddle.{type(self).__name__}({', '.join(f'{name}={getattr(self, name)}' for name in self._shown)})"


class iinfo(_Limits):
    """The limits of an integer dtype: `min`, `max`, `bits`, `dtype`.

    Raises:
        InvalidType: no integer dtype.

    Example:
        >>> wb.iinfo(wb.uint8).max
        255
    """

    _shown = ("min", "max", "bits", "dtype")

    def __init__(self, dtype: Any) -> None:
        kind = as_dtype(dtype)
        if not kind.is_integer:
            raise InvalidType(f"iinfo takes an integer dtype, got {kind}")
        limits = np.iinfo(kind.numpy)
        self.min, self.max, self.bits, self.dtype = int(limits.min), int(limits.max), int(limits.bits), kind.name


class finfo(_Limits):
    """The limits of a floating dtype: `min`, `max`, `eps`, `resolution`, `smallest_normal`, `tiny`, `bits`, `dtype`.

    Raises:
        InvalidType: no floating dtype.

    Example:
        >>> wb.finfo("float32").eps
        1.1920928955078125e-07
    """

    _shown = ("min", "max", "eps", "resolution", "smallest_normal", "tiny", "bits", "dtype")

    def __init__(self, dtype: Any) -> None:
        import ml_dtypes  # NumPy's own finfo does not know bfloat16

        kind = as_dtype(dtype)
        if not kind.is_float:
            raise InvalidType(f"finfo takes a floating dtype, got {kind}")
        limits = ml_dtypes.finfo(kind.numpy)
        self.min, self.max, self.eps = float(limits.min), float(limits.max), float(limits.eps)
        self.smallest_normal = self.tiny = float(limits.tiny)
        self.resolution = float(f"1e-{limits.precision}")
        self.bits, self.dtype = int(limits.bits), kind.name


def require_holds(what: str, dtype: Any, number: Any) -> None:
    """Whether a tensor of this dtype can be filled with a number.

    Raises:
        InvalidArgument: NaN or a number that is too large or too small for the integers there are.
    """
    kind = as_dtype(dtype)
    try:
        with np.errstate(all="ignore"):  # a float that is too large is infinite
            kind.numpy.type(number)
    except (OverflowError, ValueError):
        limits = f"{iinfo(kind).min} to {iinfo(kind).max}" if kind.is_integer else f"what {kind.name} holds"
        raise InvalidArgument(
            f"{what} fills a tensor of dtype {kind.name} with one number\n  expected: {limits}\n  got:      {number!r}"
        ) from None
