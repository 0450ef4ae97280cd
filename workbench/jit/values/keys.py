"""Keys: what stands for a value where recordings are told apart: what it is, or which object it is.

A value of one of Python's immutable types is its content: two that are equal to the bit are the same. Every other
object is only itself; its key keeps it alive, so that no later object gets its place in memory and passes for it.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Callable, Hashable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import partial
from types import EllipsisType, MethodType, NoneType
from typing import Any
from uuid import UUID

import numpy as np


class Itself:
    """The key of an object that is equal to nothing but itself."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return type(other) is Itself and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def key_of(value: Any) -> Hashable:
    """What is equal for two values that a recorded function cannot tell apart.

    A subclass may hold more than its base compares, so only the very types count.
    """
    kind = type(value)
    if kind in _EQUAL:
        return kind, value
    content = _CONTENTS.get(kind)
    if content is not None:
        return kind, content(value)
    if isinstance(value, np.generic) and not value.dtype.hasobject:
        return kind, value.dtype, value.tobytes()
    if _is_frozen(value):
        names = [field.name for field in dataclasses.fields(value)]
        return kind, _keys([getattr(value, name) for name in names]), attributes_key(value)
    return Itself(value)


def attributes_key(value: Any) -> Hashable:
    """What the attributes of an instance are; None if it has none of its own."""
    own = getattr(value, "__dict__", None)
    return tuple((name, key_of(part)) for name, part in own.items()) if own else None


def is_by_value(key: Hashable) -> bool:
    """Whether a key says what a value is, with nothing in it that is only itself."""
    return all(map(is_by_value, key)) if isinstance(key, tuple) else not isinstance(key, Itself)


def _keys(values: Any) -> tuple[Hashable, ...]:
    return tuple(map(key_of, values))


def _moment_key(value: date | time) -> Hashable:
    """Moments of two time zones are equal, and print otherwise."""
    return value.isoformat(), getattr(value, "fold", 0), key_of(getattr(value, "tzinfo", None))


def _partial_key(value: partial[Any]) -> Hashable:
    named = tuple((name, key_of(part)) for name, part in value.keywords.items())
    return key_of(value.func), _keys(value.args), named, attributes_key(value)


def _is_frozen(value: Any) -> bool:
    params = getattr(type(value), "__dataclass_params__", None)
    return params is not None and params.frozen and "__dataclass_params__" in vars(type(value))


_EQUAL = frozenset({int, bool, str, bytes, NoneType, EllipsisType, range, Fraction, timedelta, UUID})
_CONTENTS: dict[type, Callable[[Any], Hashable]] = {
    float: partial(struct.pack, "d"),  # 0.0 is not -0.0, and nan is nan
    complex: lambda value: struct.pack("dd", value.real, value.imag),
    Decimal: Decimal.as_tuple,  # 1.0 is not 1.00
    tuple: _keys,
    frozenset: _keys,  # in the order in which code goes through it
    slice: lambda value: _keys((value.start, value.stop, value.step)),
    date: _moment_key,
    datetime: _moment_key,
    time: _moment_key,
    partial: _partial_key,
    MethodType: lambda value: (Itself(value.__func__), Itself(value.__self__)),
}
