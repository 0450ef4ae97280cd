"""Parts of a tensor named by ranges: slice and strided_slice (`x[...]` is made of them, see indexing).

Their results are views of the tensor.
"""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from typing import Any

from workbench.errors import ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.infix import tensor_method
from workbench.framework.values.spec import Shape, Spec
from workbench.framework.values.views import Sliced, range_of
from workbench.ops.arguments import distinct_axes, int_list

OFFERED = {"workbench": "slice strided_slice"}

# Ranges on dimensions


def _ranges(
    dims: Shape, axes: Sequence[int], starts: Sequence[int], ends: Sequence[int], strides: Sequence[int]
) -> Any:
    """`{axis: (start, stop, stride)}`, checked.

    Raises:
        ShapeError: the lists differ in length, an axis is wrong, or a stride is 0.
    """
    where = distinct_axes(axes, len(dims), "axes")
    if not len(where) == len(starts) == len(ends) == len(strides):
        got = f"{len(where)} axes, {len(starts)} starts, {len(ends)} ends, {len(strides)} strides"
        raise ShapeError("a slice has one start, end and stride per axis", "lists of one length", got)
    if 0 in strides:
        raise ShapeError("the stride of a slice is not 0", "a non-zero int", list(strides))
    return {a: (s, e, k) for a, s, e, k in zip(where, starts, ends, strides, strict=True)}


def _sliced(dims: Shape, ranges: Any, decrease: Sequence[int], zero_dim: bool) -> Shape:
    """The shape of a slice; without `zero_dim` one that loses every dimension keeps one of size 1, as in Paddle 2.0
    to 2.4."""
    gone = distinct_axes(decrease, len(dims), "decrease_axis")
    out = []
    for axis, dim in enumerate(dims):
        size = range_of(builtins.slice(*ranges[axis]), dim)[1] if axis in ranges and dim >= 0 else dim
        if axis not in gone:
            out.append(size)
        elif size not in (1, -1):
            start = ranges[axis][0] if axis in ranges else 0
            raise ShapeError(f"index {start} is out of range for dimension {axis}", f"an int in [{-dim}, {dim})", start)
    return tuple(out) or ((1,) if dims and not zero_dim else ())


def _index(rank: int, ranges: Any) -> tuple[Any, ...]:
    """The Python index of the ranges; with the Ellipsis even an array without dimensions gives a view."""
    return (*(builtins.slice(*ranges.get(a, (None,))) for a in range(rank)), ...)


def sliced(x: Any, axes: Any, starts: Any, ends: Any, strides: Any = None, **attrs: Any) -> Any:
    """A view of the part of an array, with all dimensions.

    Args:
        strides: ones if they are not given.
    """
    return x[_index(x.ndim, _ranges(x.shape, axes, starts, ends, strides or [1] * len(axes)))]


def _infer(x: Spec, decrease_axis: Any, zero_dim: bool, **where: Any) -> Spec:
    return x.with_shape(_sliced(x.shape, _ranges(x.shape, **where), decrease_axis, zero_dim))


def _part(x: Any, decrease_axis: Any, zero_dim: bool, **where: Any) -> Any:
    """A view of the part."""
    ranges = _ranges(x.shape, **where)
    shape = _sliced(x.shape, ranges, decrease_axis, zero_dim)
    part = x[_index(x.ndim, ranges)]
    return part.reshape(shape) if part.shape != shape else part


_ATTRS: dict[str, Any] = {"axes": [], "starts": [], "ends": [], "decrease_axis": [], "zero_dim": False}


def _take_back(g: Any, out: Any, x: Any, like: Any, **attrs: Any) -> Any:
    return STRIDED_SLICE(g, **attrs)


@op(
    "slice_put",
    "X, Like -> Out",
    attrs={**_ATTRS, "strides": []},
    infer=lambda x, like, **attrs: x.with_shape(like.shape),
    grad=_take_back,
    saved="",
    shape_only="X, Like",
    no_grad="Like",
)
def SLICE_PUT(xp: Any, x: Any, like: Any, decrease_axis: Any, zero_dim: bool, **where: Any) -> Any:
    """Zeros in the shape of Like with X put where a slice is taken from: the gradient of the slices."""
    out = xp.zeros(like.shape, x.dtype)
    place = sliced(out, **where)
    place[...] = x.reshape(place.shape)
    return out


@op(
    "strided_slice",
    "Input -> Out",
    attrs={**_ATTRS, "strides": []},
    infer=_infer,
    grad=lambda g, out, x, **attrs: SLICE_PUT(g, x, **attrs),
    saved="",
    shape_only="Input",
    aliases={"Out": "Input"},
    view=Sliced(lambda shape, decrease_axis, zero_dim, **attrs: _ranges(shape, **attrs)),
)
def STRIDED_SLICE(xp: Any, x: Any, **attrs: Any) -> Any:
    return _part(x, **attrs)


def _ones(attrs: dict[str, Any]) -> dict[str, Any]:
    return {**attrs, "strides": [1] * len(attrs["axes"])}


@op(
    "slice",
    "Input -> Out",
    attrs=_ATTRS,
    infer=lambda x, **attrs: _infer(x, **_ones(attrs)),
    grad=lambda g, out, x, **attrs: SLICE_PUT(g, x, **_ones(attrs)),
    saved="",
    shape_only="Input",
    aliases={"Out": "Input"},
    view=Sliced(lambda shape, decrease_axis, zero_dim, **attrs: _ranges(shape, **_ones(attrs))),
)
def SLICE(xp: Any, x: Any, **attrs: Any) -> Any:
    return _part(x, **_ones(attrs))


@tensor_method("slice")
def slice(input: Any, axes: Any, starts: Any, ends: Any) -> Any:
    """`input[..., starts[i]:ends[i], ...]` along `axes`.

    Negative bounds count from the end, those beyond it are cut.

    Raises:
        InvalidArgument: an axis is out of range, or the lists differ in length.

    Example:
        >>> print(wb.slice(wb.to_tensor([[1, 2, 3], [4, 5, 6]]), axes=[1], starts=[0], ends=[2]).numpy())
        [[1 2]
         [4 5]]
    """
    names = ("axes", "starts", "ends")
    given: dict[str, Any] = {k: int_list(f"slice's {k}", v) for k, v in zip(names, (axes, starts, ends), strict=True)}
    return SLICE(input, **given)


@tensor_method("strided_slice")
def strided_slice(x: Any, axes: Any, starts: Any, ends: Any, strides: Any, name: str | None = None) -> Any:
    """`x[..., starts[i]:ends[i]:strides[i], ...]` along `axes`; strides may be negative.

    Raises:
        InvalidArgument: an axis is out of range, a stride is 0, or the lists differ in length.

    Example:
        >>> print(wb.strided_slice(wb.to_tensor([0, 1, 2, 3, 4]), [0], [0], [5], [2]).numpy())
        [0 2 4]
    """
    names = ("axes", "starts", "ends", "strides")
    given = {k: int_list(f"strided_slice's {k}", v) for k, v in zip(names, (axes, starts, ends, strides), strict=True)}
    return STRIDED_SLICE(x, **given, name=name)
