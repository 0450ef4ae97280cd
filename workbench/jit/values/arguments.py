"""What a function is called with: its tensors, and all the rest, by which recordings are told apart."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any

import numpy as np

from workbench.dygraph.tensor.tensor import Tensor
from workbench.jit.values.watches import distinct

_PLAIN = (int, float, complex, str, bytes, bool, type(None))


class Arguments:
    """The arguments of a call.

    Attributes:
        args, kwargs: as they were given, arrays as tensors.
        tensors: in order, with those in lists, tuples and dicts; each with a name made of its place.
        key: equal for calls that can use one recording.
        names: one per tensor.
    """

    __slots__ = ("args", "key", "kwargs", "names", "tensors")

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any], names: tuple[str, ...] = ()) -> None:
        self.tensors: list[Tensor] = []
        self.names: list[str] = []
        parts: list[Hashable] = []
        labels = [*names[: len(args)], *(f"arg_{i}" for i in range(len(names), len(args)))]
        self.args = tuple(self._taken(label, value, parts) for label, value in zip(labels, args, strict=True))
        self.kwargs = {name: self._taken(name, value, parts) for name, value in sorted(kwargs.items())}
        self.key = (tuple(sorted(kwargs)), *parts)

    def _taken(self, label: str, value: Any, parts: list[Hashable]) -> Any:
        if isinstance(value, np.ndarray):
            value = Tensor(value)
        if isinstance(value, Tensor):
            self.tensors.append(value)
            self.names.append(label)
            parts.append((value.kind, value.stop_gradient))
            return value
        if isinstance(value, list | tuple):
            parts.append((type(value), len(value)))
            taken = [self._taken(f"{label}_{i}", part, parts) for i, part in enumerate(value)]
            return type(value)(*taken) if hasattr(value, "_fields") else type(value)(taken)
        if isinstance(value, dict):
            parts.append((dict, tuple(value)))
            return {key: self._taken(f"{label}_{key}", part, parts) for key, part in value.items()}
        parts.append((type(value), distinct(value)) if isinstance(value, _PLAIN) else (object, id(value)))
        return value

    def others(self, names: tuple[str, ...]) -> dict[str, Any]:
        """The arguments that are no tensors, by the names of parameters."""
        known = {**dict(zip(names, self.args, strict=False)), **self.kwargs}
        return {name: value for name, value in known.items() if not isinstance(value, Tensor)}

    @property
    def is_plain(self) -> bool:
        """Whether they are tensors by position, nothing else."""
        return not self.kwargs and all(isinstance(value, Tensor) for value in self.args)

    def replaced(self, tensors: Iterable[Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments with other tensors in the places of theirs."""
        others = iter(tensors)

        def instead(value: Any) -> Any:
            return next(others) if isinstance(value, Tensor) else value

        return tuple(mapped(value, instead) for value in self.args), {
            name: mapped(value, instead) for name, value in self.kwargs.items()
        }


def mapped(value: Any, function: Callable[[Any], Any]) -> Any:
    """`function` of every leaf of nested lists, tuples and dicts."""
    if isinstance(value, list):
        return [mapped(part, function) for part in value]
    if isinstance(value, tuple):
        parts = [mapped(part, function) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if isinstance(value, dict):
        return {key: mapped(part, function) for key, part in value.items()}
    return function(value)


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
