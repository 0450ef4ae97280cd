"""Nested Python data as JSON plus arrays, and back: what `save`, scheduler states and loader states share.

JSON has no word for some values; they become objects with one key that begins with `$`:

    array, NumPy scalar   {"$tensor": "name"}, {"$scalar": "name"}   (the value is among the tensors)
    tensor                {"$dynamic": "name"}
    tuple                 {"$tuple": [...]}
    nan, inf              {"$float": "nan"}
    other dicts           {"$items": [[key, value], ...]}   (a key that is an int, or begins with `$`)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.dygraph.tensor.tensor import Tensor
from workbench.errors import InvalidArgument, InvalidType

MAX_DEPTH = 100


def flatten(value: Any, what: str = "object") -> tuple[Any, dict[str, np.ndarray]]:
    """The structure of `value` in JSON types, and its arrays by name.

    An array in nested dicts is named by its keys, joined by `/`; a name that is taken gets a number.

    Args:
        value: None, bool, int, float, str, arrays, tensors, and dicts, lists and tuples of those; anything with
            `__array__` counts as an array.
        what: begins the place named in messages.

    Raises:
        InvalidType: a value of another kind, naming its place. InvalidArgument: nested too deeply.
    """
    flattening = _Flattening()
    return flattening.visit(value, what, "", 0), flattening.tensors


class _Flattening:
    def __init__(self) -> None:
        self.tensors: dict[str, np.ndarray] = {}

    def visit(self, value: Any, where: str, name: str, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise InvalidArgument(f"{where} is nested more than {MAX_DEPTH} deep, or contains itself")
        if isinstance(value, dict):
            return self._dict(value, where, name, depth)
        if isinstance(value, (list, tuple)):
            items = [self.visit(v, f"{where}[{i}]", _joined(name, i), depth + 1) for i, v in enumerate(value)]
            return items if isinstance(value, list) else {"$tuple": items}
        if isinstance(value, np.generic):
            return {"$scalar": self._tensor(np.asarray(value), name)}
        if isinstance(value, Tensor):
            return {"$dynamic": self._tensor(np.asarray(value), name)}
        if hasattr(value, "__array__"):
            return {"$tensor": self._tensor(np.asarray(value), name)}
        return _leaf(value, where)

    def _dict(self, value: dict[Any, Any], where: str, name: str, depth: int) -> Any:
        pairs = []
        for key, item in value.items():
            if isinstance(key, bool) or not isinstance(key, (str, int)):
                raise InvalidType(f"{where} has the key {key!r}: saved dicts have strings or integers as keys")
            pairs.append([key, self.visit(item, f"{where}[{key!r}]", _joined(name, key), depth + 1)])
        if all(isinstance(key, str) and not key.startswith("$") for key, _ in pairs):
            return dict(pairs)
        return {"$items": pairs}

    def _tensor(self, array: np.ndarray, name: str) -> str:
        base = unique = name if name not in ("", "__metadata__") else "value"
        number = 1
        while unique in self.tensors:
            unique = f"{base}#{number}"
            number += 1
        self.tensors[unique] = array
        return unique


def _joined(name: str, key: object) -> str:
    return f"{name}/{key}" if name else str(key)


def _leaf(value: Any, where: str) -> Any:
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return value if math.isfinite(value) else {"$float": repr(value)}
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    raise InvalidType(
        f"{where} is a {kind}, which cannot be saved: files hold arrays, numbers, strings, None, and dicts, "
        "lists and tuples of those, never code; save an object's state_dict()"
    )


def unflatten(structure: Any, tensors: dict[str, np.ndarray], wrap: Callable[[np.ndarray], Any] = Tensor) -> Any:
    """What `flatten` was given; arrays are those of `tensors` themselves.

    Args:
        wrap: makes a tensor of an array.

    Raises:
        InvalidArgument: the structure is malformed, or names a tensor that is not there.
    """
    try:
        return _Unflattening(tensors, wrap).value(structure)
    except RecursionError:
        raise InvalidArgument("a saved object is nested too deeply") from None


class _Unflattening:
    def __init__(self, tensors: dict[str, np.ndarray], wrap: Callable[[np.ndarray], Any]) -> None:
        self._tensors, self._wrap = tensors, wrap

    def value(self, structure: Any) -> Any:
        if isinstance(structure, list):
            return [self.value(item) for item in structure]
        if not isinstance(structure, dict):
            return structure
        if len(structure) == 1:
            (key, inner), *_ = structure.items()
            if key.startswith("$"):
                return self._special(key, inner)
        return {key: self.value(item) for key, item in structure.items()}

    def _special(self, key: str, inner: Any) -> Any:
        try:
            if key == "$tensor":
                return self._tensors[inner]
            if key == "$dynamic":
                return self._wrap(self._tensors[inner])
            if key == "$scalar":
                return self._tensors[inner][()]
            if key == "$tuple":
                return tuple(self.value(item) for item in inner)
            if key == "$items":
                return {name: self.value(item) for name, item in inner}
            if key == "$float" and inner in ("nan", "inf", "-inf"):
                return float(inner)
        except (KeyError, TypeError, ValueError, IndexError) as exc:
            raise InvalidArgument(f"malformed {key} in a saved object: {exc!r}") from exc
        raise InvalidArgument(f"unknown {key} {inner!r} in a saved object")
