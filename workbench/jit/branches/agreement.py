"""What becomes of a variable to which the two sides of a branch, or the passes of a loop, give values of their own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NoReturn

import numpy as np

from workbench.dygraph.tensor.tensor import Tensor
from workbench.framework.site import caller
from workbench.framework.values.default_dtype import default_dtype
from workbench.jit.values.arguments import leaves, mapped
from workbench.jit.values.captured_tensor import NeedsValue
from workbench.jit.values.watches import is_plain, is_same
from workbench.ops.tensor.creation import FILL_CONSTANT

NUMBERS = (bool, int, float, np.number, np.bool_)
UNASSIGNED = type("Unassigned", (), {"__repr__": lambda self: "nothing"})()


class Agreement:
    """The values of the two sides of a branch, and what they are behind it.

    Tensors, and numbers that differ, become results of the branch; what is the same on both sides stays what it is; a
    variable that has a value on one side alone has none behind the branch.

    Args:
        labels: what to call the values in messages.
    """

    def __init__(self, labels: Sequence[str]) -> None:
        self._labels = labels
        self._sides: list[list[Any]] = []
        self._parts: list[list[tuple[Any, Any]]] = []

    def keep(self, values: Sequence[Any]) -> list[Tensor]:
        """Note what a side gives, the true one first; the tensors in it."""
        self._sides.append(list(values))
        return [leaf for leaf in leaves(list(values)) if isinstance(leaf, Tensor)]

    def settle(self, true: Sequence[Tensor], false: Sequence[Tensor]) -> tuple[list[Any], list[Any]]:
        """The results of both sides, tensors or arrays that are to be tensors, alike.

        Args:
            true, false: what stands for the tensors of `keep`.

        Raises:
            NeedsValue: two values have nothing in common.
        """
        tensors = iter(true), iter(false)
        outputs: tuple[list[Any], list[Any]] = [], []
        for label, one, other in zip(self._labels, *self._sides, strict=True):
            pairs = self._pairs(label, one, other)
            inner = [
                [next(rest) if isinstance(part, Tensor) else part for part in leaves(value)]
                for rest, value in zip(tensors, (one, other), strict=True)
            ]
            for (first, second), here, there in zip(pairs, *inner, strict=False):
                if _is_result(first, second):
                    for of_side, value in zip(outputs, _of_one_dtype(label, here, there), strict=True):
                        of_side.append(value)
            self._parts.append(pairs)
        return outputs

    def _pairs(self, label: str, one: Any, other: Any) -> list[tuple[Any, Any]]:
        if one is UNASSIGNED or other is UNASSIGNED:
            return [(UNASSIGNED, UNASSIGNED)]
        if mapped(one, lambda _: 0) != mapped(other, lambda _: 0):
            _refuse(label, "has another structure on either side")
        return list(zip(leaves(one), leaves(other), strict=True))

    def values(self, results: Sequence[Any]) -> list[Any]:
        """Behind the branch, given its results."""
        rest = iter(results)
        variables = []
        for value, pairs in zip(self._sides[0], self._parts, strict=True):
            if pairs and pairs[0][0] is UNASSIGNED:
                variables.append(UNASSIGNED)
                continue
            behind = iter([next(rest) if _is_result(one, other) else one for one, other in pairs])
            variables.append(mapped(value, partial(_next_of, behind)))
        return variables


def _next_of(values: Iterator[Any], _: Any) -> Any:
    return next(values)


def _is_result(one: Any, other: Any) -> bool:
    """Whether it depends on the branch."""
    return not is_same(one, other)


def _of_one_dtype(label: str, one: Any, other: Any) -> tuple[Any, Any]:
    """Two values as results of one dtype and rank."""
    if not all(isinstance(value, (Tensor, *NUMBERS)) for value in (one, other)):
        _refuse(label, f"is {_text(one)} or {_text(other)}, and only tensors and numbers can depend on values")
    first, second = one, other
    if isinstance(one, Tensor):
        second = other if isinstance(other, Tensor) else _like(one, other)
    elif isinstance(other, Tensor):
        first = _like(other, one)
    else:
        dtype = _dtype_of(one, other)
        first, second = np.array(one, dtype), np.array(other, dtype)
    if np.dtype(_numpy(first)) != np.dtype(_numpy(second)) or len(first.shape) != len(second.shape):
        _refuse(label, f"is {_text(one)} or {_text(other)}; both have to have one dtype and as many dimensions")
    return first, second


def _like(tensor: Tensor, number: Any) -> Any:
    """A number as an array, of the tensor's dtype where that holds it."""
    is_float = tensor.dtype.is_float and not isinstance(number, bool | np.bool_)
    fits = is_float or np.array(number).dtype.kind == tensor.dtype.numpy.kind
    return np.array(number, tensor.dtype.numpy if fits else None)


def _dtype_of(*numbers: Any) -> Any:
    """The dtype of a tensor that is to hold one of several numbers."""
    if all(isinstance(number, bool | np.bool_) for number in numbers):
        return np.bool_
    if any(isinstance(number, float | np.floating) for number in numbers):
        return default_dtype().numpy
    return np.int64


def _numpy(value: Any) -> Any:
    return value.dtype.numpy if isinstance(value, Tensor) else value.dtype


def _text(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor ({value.kind.spec})"
    return repr(value) if is_plain(value) else f"a {type(value).__name__}"


def as_tensors(label: str, value: Any) -> Any:
    """A value that a loop changes, its numbers as tensors.

    Raises:
        NeedsValue: there is something else in it.
    """

    def tensor(leaf: Any) -> Any:
        if isinstance(leaf, Tensor):
            return leaf
        if not isinstance(leaf, NUMBERS):
            _refuse(label, f"is {_text(leaf)} before the loop, and only tensors and numbers can change in it")
        dtype = np.dtype(_dtype_of(leaf)).name
        return FILL_CONSTANT(shape=(), value=leaf if isinstance(leaf, bool) else leaf * 1, dtype=dtype)

    return mapped(value, tensor)


def require_same(label: str, before: Any, after: Any) -> None:
    """A pass of a loop leaves a variable with the structure, dtypes and ranks it had.

    Raises:
        NeedsValue: it does not.
    """
    if mapped(before, lambda _: 0) != mapped(after, lambda _: 0):
        _refuse(label, "has another structure after a pass of the loop")
    for old, new in zip(leaves(before), leaves(after), strict=True):
        is_tensor = isinstance(new, Tensor)
        if is_tensor and (old.dtype, len(old.shape)) != (new.dtype, len(new.shape)):
            _refuse(label, f"is {_text(old)} before a pass of the loop and {_text(new)} after it; begin it alike")


def _refuse(label: str, what: str) -> NoReturn:
    raise NeedsValue(f"{label} {what}, where a branch or a loop follows values of tensors\n  at {caller()}")
