"""Element types of tensors, under Paddle's names."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np

from workbench.errors import InvalidType, did_you_mean


class DType:
    """An element type. Compares equal to its name and to the NumPy dtype it stands for.

    Args:
        name: Paddle's name, e.g. `"float32"`.
        kind: `"float"`, `"int"`, `"uint"` or `"bool"`.
        itemsize: bytes per element.
    """

    __slots__ = ("__dict__", "itemsize", "kind", "name")

    def __init__(self, name: str, kind: str, itemsize: int) -> None:
        self.name, self.kind, self.itemsize = name, kind, itemsize

    @cached_property
    def numpy(self) -> np.dtype[Any]:
        """The NumPy dtype (bfloat16 comes from ml_dtypes, imported at first use)."""
        if self.name == "bfloat16":
            import ml_dtypes

            return np.dtype(ml_dtypes.bfloat16)
        return np.dtype(self.name)

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """True for signed and unsigned integers, False for bool."""
        return self.kind in ("int", "uint")

    def __repr__(self) -> str:
        return f"paddle.{self.name}"

    __str__ = __repr__

    def __format__(self, how: str) -> str:
        return format(self.name, how)  # messages and the text of programs say the plain name

    def __hash__(self) -> int:
        return hash(self.name)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if isinstance(other, DType):
            return False
        if isinstance(other, str):
            return other in (self.name, f"paddle.{self.name}")
        if isinstance(other, np.dtype | type):
            try:
                return np.dtype(other) == self.numpy
            except TypeError:
                return False
        return NotImplemented

    def __reduce__(self) -> tuple[Any, ...]:
        return (as_dtype, (self.name,))  # copies and pickles stay the one interned object


float16 = DType("float16", "float", 2)
bfloat16 = DType("bfloat16", "float", 2)
float32 = DType("float32", "float", 4)
float64 = DType("float64", "float", 8)
int8 = DType("int8", "int", 1)
int16 = DType("int16", "int", 2)
int32 = DType("int32", "int", 4)
int64 = DType("int64", "int", 8)
uint8 = DType("uint8", "uint", 1)
bool_ = DType("bool", "bool", 1)

ALL = (float16, bfloat16, float32, float64, int8, int16, int32, int64, uint8, bool_)
HALVES = "eE"  # NumPy's letter for float16 and that of ml_dtypes for bfloat16, as in `array.dtype.char in HALVES`
_BY_NAME: dict[str, DType] = {d.name: d for d in ALL}
_ALIASES = {"float": "float32", "double": "float64", "half": "float16", "int": "int64", "long": "int64"}
_BY_NUMPY: dict[Any, DType] = {np.dtype(d.name): d for d in ALL if d is not bfloat16}


def as_dtype(value: Any) -> DType:
    """Turn a DType, name, NumPy dtype or scalar type into a DType.

    Raises:
        InvalidType: the value names no supported element type.
    """
    if type(value) is DType:
        return value
    if isinstance(value, str):
        dtype = _BY_NAME.get(_ALIASES.get(value, value).removeprefix("paddle."))
    else:
        dtype = _from_numpy(value)
    if dtype is None:
        hint = did_you_mean(value, _BY_NAME) if isinstance(value, str) else ""
        if isinstance(value, int):
            hint = " A shape is one list, as in zeros([2, 3])."
        raise InvalidType(f"{value!r} is not a dtype; the dtypes are {', '.join(_BY_NAME)}.{hint}")
    return dtype


def _from_numpy(value: Any) -> DType | None:
    if value is None:
        return None  # NumPy would take it for float64
    try:
        dtype = np.dtype(value)
    except TypeError:
        return None
    known = _BY_NUMPY.get(dtype)
    if known is None and dtype.name == "bfloat16":
        return bfloat16
    return known


def has_halves(dtypes: Iterable[Any]) -> bool:
    """Whether a NumPy dtype among these is float16 or bfloat16; None stands for what is absent."""
    return any(dtype is not None and dtype.char in HALVES for dtype in dtypes)


def promote(a: DType, b: DType) -> DType:
    """The dtype both operands of an infix operator are brought to: the wider one, floats before integers.

    Of float16 and bfloat16 neither holds the other one: both are brought to float32.
    """
    if a is b:
        return a
    if {a, b} == {float16, bfloat16}:
        return float32
    if a.is_float != b.is_float:
        return a if a.is_float else b
    return as_dtype(np.result_type(a.numpy, b.numpy))


def wide_dtype(dtype: DType) -> DType:
    """The dtype that numbers of a dtype are computed in: float32 for float16 and bfloat16."""
    return float32 if dtype.is_float and dtype.itemsize == 2 else dtype
