"""Entries named by several coordinates: gather_nd and scatter_nd_add."""

from __future__ import annotations

import math
from typing import Any

from workbench.errors import ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.infix import tensor_method
from workbench.framework.values.spec import Shape, Spec, require_same_dtype
from workbench.ops.index.picking import add_slices, require_dims, require_index, sum_of, zeros_of
from workbench.ops.index_range import require_in_range
from workbench.ops.precision import rounded

OFFERED = {"workbench": "gather_nd scatter_nd_add"}


def _entry_shape(what: str, x: Spec, index: Spec) -> Shape:
    """The shape of the entries that `index`, [..., k], names in `x`."""
    require_index(what, index)
    depth = index.shape[-1] if index.shape else -1
    if depth < 0:
        raise ShapeError(f"{what} needs to know how many coordinates an index has", "shape [..., k]", index)
    if depth > len(x.shape):
        raise ShapeError(f"{what}: an index has at most one coordinate per dimension", f"<= {len(x.shape)}", depth)
    return index.shape[:-1] + x.shape[depth:]


def _flat_index(xp: Any, what: str, x: Any, index: Any) -> Any:
    """Row numbers in `x` seen as [product of indexed dimensions, ...]."""
    flat = xp.zeros(index.shape[:-1], "int64")
    for place in range(index.shape[-1]):
        coordinate = index[..., place]
        require_in_range(xp, f"{what}: coordinate {place}", coordinate, x.shape[place])
        flat = flat * x.shape[place] + coordinate
    return flat


def _rows(x: Any, depth: int) -> Any:
    return x.reshape((math.prod(x.shape[:depth]), *x.shape[depth:]))


def _gather_nd_rule(g: Any, out: Any, x: Any, index: Any) -> Any:
    return SCATTER_ND_ADD(zeros_of(x), index, g)


@op(
    "gather_nd",
    "X, Index -> Out",
    infer=lambda x, index: x.with_shape(_entry_shape("gather_nd", x, index)),
    grad=_gather_nd_rule,
    saved="Index",
    shape_only="X",
    no_grad="Index",
)
def GATHER_ND(xp: Any, x: Any, index: Any) -> Any:
    flat = _flat_index(xp, "gather_nd", x, index)
    return xp.asarray(_rows(x, index.shape[-1]).take(flat, axis=0))


@tensor_method("gather_nd")
def gather_nd(x: Any, index: Any, name: str | None = None) -> Any:
    """The entries of `x` at the coordinates `index[..., :]`.

    Args:
        index: int32 or int64, shape [..., k]; k coordinates name an entry of shape `x.shape[k:]`.

    Returns:
        shape `index.shape[:-1] + x.shape[k:]`.

    Raises:
        InvalidArgument: k is larger than the rank; when run, a coordinate out of range.

    Example:
        >>> print(wb.gather_nd(wb.to_tensor([[1, 2], [3, 4]]), wb.to_tensor([[1, 0], [0, 1]])).numpy())
        [3 2]
    """
    return GATHER_ND(x, index, name=name)


def _infer_scatter_nd_add(x: Spec, index: Spec, updates: Spec) -> Spec:
    require_same_dtype("scatter_nd_add", x, updates)
    expected = _entry_shape("scatter_nd_add", x, index)
    require_dims("scatter_nd_add takes updates in the shape of the entries", expected, updates.shape)
    return x


@op(
    "scatter_nd_add",
    "X, Index, Updates -> Out",
    shaped_like={"X": "Out"},
    infer=_infer_scatter_nd_add,
    grad=lambda g, out, x, index, updates: (g, None, lambda: GATHER_ND(g, index)),
    saved="Index",
    shape_only="X, Updates",
    no_grad="Index",
)
def SCATTER_ND_ADD(xp: Any, x: Any, index: Any, updates: Any) -> Any:
    flat = _flat_index(xp, "scatter_nd_add", x, index)
    total = sum_of(xp, x)
    add_slices(xp, _rows(total, index.shape[-1]), flat, updates.astype(total.dtype), 0)
    return rounded(total, x)


@tensor_method("scatter_nd_add")
def scatter_nd_add(x: Any, index: Any, updates: Any, name: str | None = None) -> Any:
    """`x` with `updates` added at the coordinates `index[..., :]`; repeated ones add up. See `gather_nd`.

    Raises:
        InvalidArgument: shapes that do not fit; when run, a coordinate out of range.

    Example:
        >>> print(wb.scatter_nd_add(wb.zeros([3]), wb.to_tensor([[1], [1]]), wb.to_tensor([1.0, 2.0])).numpy())
        [0. 3. 0.]
    """
    return SCATTER_ND_ADD(x, index, updates, name=name)
