"""What values select: places where a condition holds, and places of distinct elements. Only values tell how many."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.errors import InvalidType, ShapeError
from workbench.framework.op.declare import op
from workbench.framework.values.dtype import int64
from workbench.framework.values.spec import Spec, normalize_axis
from workbench.ops.index.gather import GATHER
from workbench.ops.tensor.shape import RESHAPE
from workbench.ops.tensor.slicing import SLICE
from workbench.ops.tensor.tile import broadcast_to


@op("where_index", "Condition -> Out", infer=lambda condition: Spec((-1, len(condition.shape)), int64))
def WHERE_INDEX(xp: Any, condition: Any) -> Any:
    """The coordinates of what is not zero, in order, a row each."""
    return xp.ascontiguousarray(xp.argwhere(condition)).astype("int64")


def _infer_unique(x: Spec, axis: int | None) -> tuple[Spec, Spec, Spec]:
    compared = x.shape if axis is None else (x.shape[normalize_axis(axis, len(x.shape))],)
    number = -1 if -1 in compared else int(np.prod(compared, dtype=np.int64))
    return Spec((-1,), int64), Spec((number,), int64), Spec((-1,), int64)


@op("unique", "X -> Index, Inverse, Counts", attrs={"axis": None}, infer=_infer_unique)
def UNIQUE(xp: Any, x: Any, axis: int | None) -> tuple[Any, Any, Any]:
    """Of the distinct elements, or slices along an axis, in order: where each is first, and how often it comes.

    Between the two: of every element which of them it is."""
    _, *places = xp.unique(x, return_index=True, return_inverse=True, return_counts=True, axis=axis)
    index, inverse, counts = (each.reshape(-1).astype("int64") for each in places)
    return index, inverse, counts


def coordinates(condition: Any) -> list[Any]:
    """Where a condition of a program holds: a vector for each dimension."""
    places = WHERE_INDEX(condition)
    return [
        RESHAPE(SLICE(places, axes=[1], starts=[axis], ends=[axis + 1]), shape=[-1])
        for axis in range(len(condition.shape))
    ]


def masked_elements(x: Any, mask: Any) -> Any:
    """`masked_select` of variables of a program.

    Raises:
        InvalidType: the mask is not bool. ShapeError: the shapes differ, and have to be known to be broadcast.
    """
    if mask.dtype.kind != "bool":
        raise InvalidType(f"masked_select takes a mask of bool, got {mask.dtype}")
    own, asked = tuple(x.shape), tuple(mask.shape)
    if own != asked:
        if -1 in (*own, *asked):
            raise ShapeError("masked_select takes x and mask of one shape, where some of it is unknown", own, asked)
        shape = list(np.broadcast_shapes(own, asked))
        x, mask = broadcast_to(x, shape), broadcast_to(mask, shape)
    (places,) = coordinates(RESHAPE(mask, shape=[-1]))
    return GATHER(RESHAPE(x, shape=[-1]), places, axis=0)


def distinct(x: Any, axis: int | None) -> tuple[Any, Any, Any, Any]:
    """`unique` of a variable of a program: the values, where each is first, which of them each element is, counts."""
    index, inverse, counts = UNIQUE(x, axis=axis)
    values = GATHER(RESHAPE(x, shape=[-1]) if axis is None else x, index, axis=0 if axis is None else axis)
    return values, index, inverse, counts
