"""Nested lists, tuples and dicts of values, flattened and put together again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from workbench.errors import InvalidArgument


def flatten(value: Any) -> list[Any]:
    """The leaves, in order (dicts by sorted key)."""
    if isinstance(value, list | tuple):
        return [leaf for part in value for leaf in flatten(part)]
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in flatten(value[key])]
    return [value]


def pack(like: Any, leaves: list[Any]) -> Any:
    """`leaves` in the structure of `like`."""
    return _packed(like, iter(leaves))


def _packed(part: Any, rest: Iterator[Any]) -> Any:
    if isinstance(part, list | tuple):
        return type(part)(_packed(p, rest) for p in part)
    if isinstance(part, dict):
        return {key: _packed(part[key], rest) for key in sorted(part)}
    return next(rest)


def same_structure(what: str, first: Any, second: Any) -> None:
    """Raise InvalidArgument unless both nest in the same way."""
    shapes = _outline(first), _outline(second)
    if shapes[0] != shapes[1]:
        raise InvalidArgument(f"{what} must have one structure\n  expected: {shapes[0]}\n  got:      {shapes[1]}")


def _outline(value: Any) -> str:
    if isinstance(value, list | tuple):
        inside = ", ".join(map(_outline, value))
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_outline(value[k])}" for k in sorted(value)) + "}"
    return "None" if value is None else "tensor"
