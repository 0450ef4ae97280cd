"""Which interval numbers fall into, and how many fall into each."""

from __future__ import annotations

from math import prod
from typing import Any

from workbench.errors import DtypeError, InvalidArgument, ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.infix import constant_like, is_number, tensor_method
from workbench.framework.values.dtype import int32, int64
from workbench.framework.values.spec import Spec, same_dim, shape_text
from workbench.ops.arguments import one_int

OFFERED = {"workbench": "bucketize histogram searchsorted"}


def _infer_searchsorted(edges: Spec, values: Spec, out_int32: bool, right: bool) -> Spec:
    if not edges.shape:
        raise ShapeError("searchsorted looks into a sorted sequence", "at least 1 dimension", edges)
    own, given = edges.shape[:-1], values.shape[:-1]
    if own and (len(own) != len(given) or not all(map(same_dim, own, given))):
        got = f"{shape_text(edges.shape)} and {shape_text(values.shape)}"
        raise ShapeError("searchsorted takes as many rows of values as of sequences", "[..., n] and [..., m]", got)
    return values.with_dtype(int32 if out_int32 else int64)


def _searchsorted_row(edges: Any, values: Any, out: Any, out_int32: bool, right: bool) -> Any:
    if edges.ndim == 1:
        return "searchsorted", edges, values, out, edges.size, values.size, right
    width, count = edges.shape[-1], values.shape[-1]
    return "searchsorted_rows", edges, values, out, prod(edges.shape[:-1]), width, count, right


@op(
    "searchsorted",
    "SortedSequence, Values -> Out",
    attrs={"out_int32": False, "right": False},
    infer=_infer_searchsorted,
    kernel=_searchsorted_row,
)
def SEARCHSORTED(xp: Any, edges: Any, values: Any, out_int32: bool, right: bool) -> Any:
    """How many elements of a sorted sequence are less than (`right`: or equal to) each value."""
    dtype, side = "int32" if out_int32 else "int64", "right" if right else "left"
    if edges.ndim == 1:
        return xp.searchsorted(edges, values, side=side).astype(dtype)
    out = xp.empty(values.shape, dtype)
    rows, asked, places = (a.reshape(-1, a.shape[-1]) for a in (edges, values, out))
    for i in range(len(places)):
        places[i] = xp.searchsorted(rows[i], asked[i], side=side)
    return places.reshape(values.shape)


@tensor_method("searchsorted")
def searchsorted(
    sorted_sequence: Any, values: Any, out_int32: bool = False, right: bool = False, name: str | None = None
) -> Any:
    """Where values would be put into a sorted sequence: how many of its elements are less than each.

    Args:
        sorted_sequence: [n], or [..., n] with a sequence for each row of values.
        values: [..., m], or a number.
        out_int32: positions of int32 instead of int64.
        right: count elements that are equal, too.

    Raises:
        InvalidArgument: rows that do not fit.

    Example:
        >>> print(wb.searchsorted(wb.to_tensor([1.0, 3.0, 5.0]), wb.to_tensor([0.0, 3.0, 9.0])).numpy())
        [0 1 3]
    """
    values = constant_like(sorted_sequence, values) if is_number(values) else values
    return SEARCHSORTED(sorted_sequence, values, out_int32=bool(out_int32), right=bool(right), name=name)


@tensor_method("bucketize")
def bucketize(
    x: Any, sorted_sequence: Any, out_int32: bool = False, right: bool = False, name: str | None = None
) -> Any:
    """Which of the intervals between the numbers of a sorted vector each element falls into.

    Args and Raises: as for `searchsorted`.

    Example:
        >>> print(wb.bucketize(wb.to_tensor([0.0, 4.0]), wb.to_tensor([1.0, 3.0, 5.0])).numpy())
        [0 2]
    """
    if len(sorted_sequence.shape) != 1:
        raise ShapeError("bucketize takes a sorted vector", "shape [n]", shape_text(sorted_sequence.shape))
    return searchsorted(sorted_sequence, x, out_int32, right, name)


def _infer_histogram(x: Spec, bins: int, min: float, max: float) -> Spec:
    if x.dtype.kind == "bool":
        raise DtypeError("histogram counts numbers", "int32, int64, float32 or float64", x.dtype)
    return Spec((bins,), int64)


@op("histogram", "X -> Out", attrs={"bins": 100, "min": 0.0, "max": 0.0}, infer=_infer_histogram)
def HISTOGRAM(xp: Any, x: Any, bins: int, min: float, max: float) -> Any:
    """How many elements fall into each of as many equal intervals."""
    low, high = (min, max) if min != max or not x.size else (float(x.min()), float(x.max()))
    if low == high:
        low, high = low - 1.0, high + 1.0
    return xp.histogram(x, bins=bins, range=(low, high))[0].astype("int64")


@tensor_method("histogram")
def histogram(input: Any, bins: int = 100, min: float = 0, max: float = 0, name: str | None = None) -> Any:
    """How many elements fall into each of `bins` equal intervals of [min, max], as int64.

    Args:
        min, max: the ends; equal ones stand for the smallest and the largest element.

    Raises:
        InvalidArgument: bins < 1, or max < min.

    Example:
        >>> print(wb.histogram(wb.to_tensor([1, 2, 1]), bins=4, min=0, max=3).numpy())
        [0 2 1 0]
    """
    if one_int("histogram's bins", bins) < 1 or max < min:
        raise InvalidArgument(f"histogram takes bins >= 1 and min <= max, got {bins}, {min} and {max}")
    return HISTOGRAM(input, bins=int(bins), min=float(min), max=float(max), name=name)
