"""Checking the Python arguments of public functions: axes, sizes and other integers for attributes."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

from workbench.errors import InvalidType, ShapeError, Unimplemented
from workbench.framework.op.infix import Infix
from workbench.framework.values.spec import normalize_axis


def has_value(x: Infix) -> bool:
    """Whether a tensor's value is known now: that of dynamic mode is, a Program's has none while it is built."""
    return hasattr(type(x), "__index__")


def as_number(what: str, value: Any) -> float:
    """`value` as a float: a number, its text, or a tensor of dynamic mode with one element.

    Raises:
        InvalidType: anything else.
    """
    if isinstance(value, Infix) and has_value(value):
        value = value.item()  # type: ignore[attr-defined]
    try:
        return float(value)
    except (TypeError, ValueError):
        raise InvalidType(f"{what} takes a number, got {value!r}") from None


def one_int(what: str, value: Any) -> int:
    """`value` as an int.

    Raises:
        InvalidType: it is a tensor of a Program, whose shapes and axes are fixed when it is built, or no integer.
        Unimplemented: it is a tensor of a function that is being recorded, which has no value yet.
    """
    if isinstance(value, Infix) and not has_value(value):
        raise InvalidType(f"{what} takes an int, got a tensor; shapes and axes are fixed when a program is built")
    try:
        return operator.index(value)
    except Unimplemented as error:
        error.add_note(f"{what} takes an int; where the sizes of x are known, x.shape has them as ints")
        raise
    except TypeError:
        raise InvalidType(f"{what} takes an int, got {type(value).__name__} {value!r}") from None


def int_list(what: str, value: Any) -> list[int]:
    """An int or a sequence of ints as a list of ints.

    Raises:
        InvalidType: anything else, tensors of a Program included.
    """
    if isinstance(value, Infix) and has_value(value):
        value = value.tolist()  # type: ignore[attr-defined]
    if isinstance(value, (Infix, str)) or not isinstance(value, Iterable):
        return [one_int(what, value)]
    return [one_int(what, v) for v in value]


def pair(what: str, value: Any) -> list[int]:
    """`[height, width]` from one int or two.

    Raises:
        InvalidType, ShapeError: other than one or two ints.
    """
    values = int_list(what, value)
    if len(values) == 1:
        return values * 2
    if len(values) != 2:
        raise ShapeError(f"{what} takes an int or two", "1 or 2 ints", values)
    return values


def distinct_axes(axes: Iterable[int], rank: int, what: str = "axis") -> list[int]:
    """Axes counted from the front, in the given order.

    Raises:
        ShapeError: one lies outside the rank or comes twice.
    """
    normalized = [normalize_axis(a, rank, what) for a in axes]
    if len(set(normalized)) != len(normalized):
        raise ShapeError(f"{what} names a dimension twice", "distinct axes", normalized)
    return normalized
