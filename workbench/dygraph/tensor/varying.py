"""Functions whose results have shapes that depend on values: distinct elements, counts by number."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.dygraph.tensor.tensor import Tensor
from workbench.dygraph.tensor.views import require_values
from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.program.variable import Variable
from workbench.framework.values.dtype import as_dtype
from workbench.framework.values.spec import normalize_axis
from workbench.ops.index.gather import GATHER
from workbench.ops.index.selected import distinct
from workbench.ops.tensor.shape import RESHAPE


def unique(
    x: Tensor,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    dtype: Any = "int64",
    name: str | None = None,
) -> Any:
    """The distinct elements of `x`, or its distinct slices along an axis, in order.

    Args:
        return_index: also where each is first. return_inverse: also which of them every element is. return_counts: also
            how often each comes.
        axis: None compares all elements.
        dtype: of the positions and counts.

    In a program how many there are is known when it runs.

    Example:
        >>> values, counts = wb.unique(wb.to_tensor([2, 3, 2]), return_counts=True)
        >>> print(values.numpy(), counts.numpy())
        [2 3] [2 1]
    """
    if isinstance(x, Variable):
        values, *further = distinct(x, axis)
        asked = zip((return_index, return_inverse, return_counts), further, strict=True)
        parts = [part.astype(dtype) for is_asked, part in asked if is_asked]
        return (values, *parts) if parts else values
    require_values("unique", x)
    first, inverse, counts = np.unique(
        x.as_read(), return_index=True, return_inverse=True, return_counts=True, axis=axis
    )[1:]
    values = _picked(x, first, axis)
    return _with(values, dtype, (return_index, first), (return_inverse, inverse.reshape(-1)), (return_counts, counts))


def unique_consecutive(
    x: Tensor,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    dtype: Any = "int64",
    name: str | None = None,
) -> Any:
    """`x` with one for every run of equal elements, or of equal slices along an axis.

    Args:
        return_inverse: also to which of the results every element went. return_counts: also the length of each run.
        axis: None takes all elements in a row.
        dtype: of the positions and counts.

    Raises:
        InvalidType: a variable of a program, where shapes cannot depend on values.

    Example:
        >>> print(wb.unique_consecutive(wb.to_tensor([1, 1, 2, 2, 1])).numpy())
        [1 2 1]
    """
    require_values("unique_consecutive", x)
    array = x.as_read()
    flat = array.reshape(-1) if axis is None else np.moveaxis(array, normalize_axis(axis, x.ndim), 0)
    rows = flat.reshape(len(flat), -1)
    is_new = np.ones(len(rows), bool)
    is_new[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    first = np.flatnonzero(is_new)
    counts = np.diff(np.append(first, len(rows)))
    return _with(_picked(x, first, axis), dtype, (return_inverse, np.cumsum(is_new) - 1), (return_counts, counts))


def _picked(x: Tensor, places: np.ndarray, axis: int | None) -> Any:
    places_of = Tensor(places.astype(np.int64))
    return GATHER(RESHAPE(x, shape=[-1]), places_of, axis=0) if axis is None else GATHER(x, places_of, axis=axis)


def _with(values: Any, dtype: Any, *further: tuple[bool, np.ndarray]) -> Any:
    kind = as_dtype(dtype).numpy
    asked = [Tensor(np.ascontiguousarray(array.astype(kind))) for is_asked, array in further if is_asked]
    return (values, *asked) if asked else values


def bincount(x: Tensor, weights: Tensor | None = None, minlength: int = 0, name: str | None = None) -> Tensor:
    """How often each number from 0 up to the largest comes in a vector, or the sum of its weights.

    Args:
        x: int32 or int64, [n], none negative.
        weights: [n]; the result has their dtype.
        minlength: the result has at least as many elements.

    Raises:
        InvalidType: no integers; or a variable of a program, where shapes cannot depend on values.
        InvalidArgument: a negative number, minlength < 0, other shapes.

    Example:
        >>> print(wb.bincount(wb.to_tensor([1, 2, 1])).numpy())
        [0 2 1]
    """
    require_values("bincount", x)
    if not x.dtype.is_integer:
        raise InvalidType(f"bincount counts integers, got {x.dtype}")
    try:
        counts = np.bincount(x.as_read(), None if weights is None else weights.as_read(), minlength)
    except ValueError as error:
        raise InvalidArgument(f"bincount: {error}") from None
    return Tensor(counts.astype(np.int64 if weights is None else weights.array.dtype))


METHODS = {f.__name__: f for f in (unique, unique_consecutive, bincount)}
for _name, _method in METHODS.items():
    setattr(Tensor, _name, _method)
