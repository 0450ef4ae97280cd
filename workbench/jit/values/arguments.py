"""What a function is called with: its tensors, and all the rest, by which recordings are told apart."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from workbench.dygraph.tensor.tensor import Tensor
from workbench.jit.values.keys import attributes_key, is_by_value, key_of

_LONG = 40  # characters of a value beyond which a message does not show it


class Arguments:
    """The arguments of a call.

    Attributes:
        args, kwargs: as they were given, arrays as tensors.
        tensors: in order, with those in lists, tuples and dicts; each with a name made of its place.
        key: equal for calls that can use one recording.
        structure: of the key what is not about tensors.
        names: one per tensor.
    """

    __slots__ = ("_labels", "_parts", "args", "key", "kwargs", "names", "structure", "tensors")

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any], names: tuple[str, ...] = ()) -> None:
        self.tensors: list[Tensor] = []
        self.names: list[str] = []
        self._parts: list[tuple[str, Hashable, Any]] = []
        self._labels = [*names[: len(args)], *(f"arg_{i}" for i in range(len(names), len(args)))]
        self.args = tuple(self._taken(label, value) for label, value in zip(self._labels, args, strict=True))
        self.kwargs = {name: self._taken(name, value) for name, value in sorted(kwargs.items())}
        self.structure: tuple[Any, ...] = (
            tuple(sorted(kwargs)),
            tuple(key for _, key, _ in self._parts),
            self._first_places(),
        )
        self.key: Hashable = (self.structure, tuple((t.kind, t.stop_gradient) for t in self.tensors))

    def _taken(self, label: str, value: Any) -> Any:
        if isinstance(value, np.ndarray):
            value = Tensor(value)
        if isinstance(value, Tensor):
            self.tensors.append(value)
            self.names.append(label)
            self._parts.append((label, Tensor, value))
            return value
        if isinstance(value, list | tuple | dict):
            names: Sequence[Any] = [*value] if isinstance(value, dict) else range(len(value))
            self._parts.append((label, (type(value), tuple(map(key_of, names)), attributes_key(value)), value))
            return rebuilt(value, [self._taken(f"{label}_{name}", value[name]) for name in names])
        self._parts.append((label, key_of(value), value))
        return value

    def _first_places(self) -> tuple[int, ...] | None:
        """For each tensor, which is the first that is the same; None if all are different ones."""
        first: dict[int, int] = {}
        places = tuple(first.setdefault(id(tensor), number) for number, tensor in enumerate(self.tensors))
        return None if len(first) == len(places) else places

    def others(self) -> dict[str, Any]:
        """The arguments that are no tensors, by the names of parameters."""
        known = {**dict(zip(self._labels, self.args, strict=True)), **self.kwargs}
        return {name: value for name, value in known.items() if not isinstance(value, Tensor)}

    def described(self) -> dict[str, str]:
        """Every argument in a few words, by what it is called."""
        texts = {label: _text(key, value) for label, key, value in self._parts}
        for name, place in zip(self.names, self.structure[2] or range(len(self.names)), strict=True):
            if self.names[place] != name:
                texts[name] = f"the tensor {self.names[place]}"
        return texts

    def is_number(self, label: str) -> bool:
        """Whether an argument is a number of Python or NumPy."""
        return any(name == label and isinstance(value, int | float | np.number) for name, _, value in self._parts)

    @property
    def is_plain(self) -> bool:
        """Whether they are tensors by position, nothing else."""
        return not self.kwargs and all(isinstance(value, Tensor) for value in self.args)

    def replaced(self, tensors: Sequence[Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with other tensors in the places of theirs; one that is there twice has one in its place."""
        others = iter(tensors if self.structure[2] is None else [tensors[place] for place in self.structure[2]])

        def instead(value: Any) -> Any:
            return next(others) if isinstance(value, Tensor) else value

        return tuple(mapped(value, instead) for value in self.args), {
            name: mapped(value, instead) for name, value in self.kwargs.items()
        }


def _text(key: Hashable, value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor ({value.kind.spec})"
    text = repr(value) if is_by_value(key) else ""
    return text if 0 < len(text) <= _LONG else f"an object of type {type(value).__name__}"


def rebuilt(like: Any, parts: Iterable[Any]) -> Any:
    """A list, tuple or dict of the same type and attributes, with other entries in the places of its own."""
    parts = list(parts)
    if hasattr(like, "_fields"):
        return type(like)(*parts)
    if isinstance(like, tuple):
        other: Any = tuple.__new__(type(like), parts)
        if hasattr(other, "__dict__"):
            vars(other).update(vars(like))
        return other
    copied: Any = copy.copy(like)
    for place, part in zip([*copied] if isinstance(copied, dict) else range(len(copied)), parts, strict=True):
        copied[place] = part
    return copied


def mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """`function` of every leaf of nested lists, tuples and dicts."""
    if isinstance(value, list | tuple):
        return rebuilt(value, [mapped(part, function) for part in value])
    if isinstance(value, dict):
        return rebuilt(value, [mapped(part, function) for part in value.values()])
    return function(value)


def entries(container: Any) -> list[Any]:
    """What is in a list, dict or set; keys before values."""
    return [*container, *container.values()] if isinstance(container, dict) else [*container]


def containers(value: Any) -> Iterator[tuple[Any, list[Any]]]:
    """The lists, tuples and dicts in nested ones, each with what is in it now."""
    if isinstance(value, list | tuple | dict):
        yield value, entries(value)
        for part in value.values() if isinstance(value, dict) else value:
            yield from containers(part)


def leaves(value: Any) -> Iterator[Any]:
    """The leaves of nested lists, tuples and dicts."""
    if isinstance(value, list | tuple):
        for part in value:
            yield from leaves(part)
    elif isinstance(value, dict):
        for part in value.values():
            yield from leaves(part)
    else:
        yield value
