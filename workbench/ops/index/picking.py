"""What ops share that pick entries by integer tensors, or put and add entries there."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.errors import DtypeError, InvalidArgument, InvalidType, ShapeError
from workbench.framework.op.record import find_op
from workbench.framework.values.dtype import as_dtype
from workbench.framework.values.spec import Shape, Spec, same_dim, shape_text
from workbench.ops.precision import wide
from workbench.ops.tensor.shape import SQUEEZE


def require_index(what: str, index: Spec) -> None:
    if not index.dtype.is_integer:
        raise DtypeError(f"{what} takes an index tensor of integers", "int32 or int64", index.dtype)


def require_dims(what: str, expected: Shape, got: Shape) -> None:
    if len(expected) != len(got) or not all(map(same_dim, expected, got)):
        raise ShapeError(what, shape_text(expected), shape_text(got))


def zeros_of(x: Any) -> Any:
    return find_op("fill_any_like")(x, value=0.0, dtype=x.dtype.name)


def constant_index(values: Any, dim: int) -> Any:
    """An index tensor from Python ints; negative ones count from the end of a known dimension.

    Raises:
        InvalidType: not integers. InvalidArgument: a value outside the dimension.
    """
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise InvalidType(f"a tensor is indexed by integers, got values of dtype {array.dtype}")
    array = array.astype(np.int64)
    if dim < 0 and (array < 0).any():
        raise InvalidArgument(f"index {int(array.min())} counts from the end of a dimension that is not known yet")
    wrong = array[(array < -dim) | (array >= dim)] if dim >= 0 else array[:0]
    if wrong.size:
        raise InvalidArgument(f"index {int(wrong[0])} is out of range\n  expected: an int in [{-dim}, {dim})")
    return find_op("assign_value")(
        shape=list(array.shape),
        dtype="int64",
        values=np.where(array < 0, array + dim, array),
    )


def add_slices(xp: Any, total: Any, index: Any, values: Any, axis: int) -> None:
    """Add `values`, whose dimensions from `axis` on are those of the index, to the slices of `total`."""
    count, inner = math.prod(total.shape[:axis]), math.prod(total.shape[axis + 1 :])
    within = index.reshape(-1, 1).astype("int64") * inner + xp.arange(inner)
    flat = xp.arange(count).reshape(-1, 1) * (inner * total.shape[axis]) + within.reshape(1, -1)
    # NumPy and CuPy are quickest at adding along one flat index.
    xp.add.at(total.reshape(-1), flat.reshape(-1), values.reshape(-1))


def sum_of(xp: Any, x: Any) -> Any:
    """A contiguous copy of `x` to add to, float32 for half precision."""
    return xp.array(wide(x) if as_dtype(x.dtype).is_float else x, order="C")


def as_column(index: Any) -> Any:
    """Paddle takes an index of shape [N, 1] for one of shape [N]."""
    return SQUEEZE(index, axes=[1]) if len(index.shape) == 2 and index.shape[1] == 1 else index
