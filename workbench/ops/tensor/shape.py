"""Other shapes for the same elements in the same order: reshape, flatten, squeeze; and the shape as a tensor.

All but the last return views: their results show the memory of X, and so do their gradients.
"""

from __future__ import annotations

import math
from typing import Any

from workbench.errors import ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.infix import tensor_method
from workbench.framework.op.recorder import zero_dim
from workbench.framework.values.dtype import int32, int64
from workbench.framework.values.spec import Shape, Spec, normalize_axis, same_dim, shape_text, size_of
from workbench.framework.values.views import RESHAPED
from workbench.ops.arguments import distinct_axes, int_list

OFFERED = {"workbench": "flatten numel reshape shape squeeze unsqueeze"}


def resolve_shape(dims: Shape, shape: Any) -> Shape:
    """The shape that `shape` stands for on a tensor of `dims`: 0 copies a dimension, -1 is what is left over.

    Copied dimensions cancel out, so `[0, -1]` on `[?, 3, 4]` is `[?, 12]`. An unknown rest stays -1.

    Raises:
        ShapeError: two -1, a 0 beyond the rank, another negative number, or sizes that do not agree.
    """
    _check_target(dims, shape)
    copied = [i for i, s in enumerate(shape) if s == 0]
    left = [d for i, d in enumerate(dims) if i not in copied]
    known = math.prod(d for d in left if d >= 0)
    asked = math.prod(s for s in shape if s > 0)
    rest = _rest(known, asked, unknown=-1 in left, free=-1 in shape)
    if rest is None:
        raise ShapeError(
            "a reshape keeps the number of elements",
            f"{_count(dims)} elements, as in {shape_text(dims)}",
            f"{list(shape)}",
        )
    return tuple(dims[i] if s == 0 else rest if s == -1 else s for i, s in enumerate(shape))


def _check_target(dims: Shape, shape: Any) -> None:
    if sum(s == -1 for s in shape) > 1 or any(s < -1 for s in shape):
        raise ShapeError("a shape holds sizes, 0 (copy) and at most one -1 (infer)", "at most one -1", list(shape))
    for i, s in enumerate(shape):
        if s == 0 and i >= len(dims):
            raise ShapeError(
                f"0 at position {i} copies a dimension that the input lacks",
                f"positions below {len(dims)}",
                list(shape),
            )


def _rest(known: int, asked: int, unknown: bool, free: bool) -> int | None:
    """What -1 stands for (-1: not known yet, 1: nothing to infer), None if the sizes do not agree."""
    if unknown and free:
        return -1
    if free:
        return known // asked if known % asked == 0 else None
    if unknown:
        return 1 if known and asked % known == 0 else None
    return 1 if known == asked else None


def _count(dims: Shape) -> str:
    known = math.prod(d for d in dims if d >= 0)
    return f"a multiple of {known}" if -1 in dims else str(known)


# reshape2, and its counterpart that takes the shape from another tensor


def _infer_like(x: Spec, like: Spec) -> Spec:
    a, b = size_of(x.shape), size_of(like.shape)
    if not same_dim(a, b):
        raise ShapeError("a reshape keeps the number of elements", like, x)
    return x.with_shape(like.shape)


def _undo_like(g: Any, out: Any, x: Any, like: Any) -> Any:
    return RESHAPE_LIKE(g, x)


# Of an op `X, Like -> Out` whose Out is X in the shape of Like.
IN_THE_SHAPE_OF_LIKE: dict[str, Any] = {
    "saved": "",
    "shape_only": "X, Like",
    "no_grad": "Like",
    "aliases": {"Out": "X"},
    "view": RESHAPED,
    "grad_view": RESHAPED,
}


@op(
    "reshape_like",
    "X, Like -> Out",
    infer=_infer_like,
    grad=_undo_like,
    **IN_THE_SHAPE_OF_LIKE,
)
def RESHAPE_LIKE(xp: Any, x: Any, like: Any) -> Any:
    """The elements of X in the shape of Like: the gradient of every reshape."""
    return x.reshape(like.shape)


def _undo(g: Any, out: Any, x: Any, **attrs: Any) -> Any:
    return RESHAPE_LIKE(g, x)


@op(
    "reshape2",
    "X -> Out",
    attrs={"shape": []},
    infer=lambda x, shape: x.with_shape(resolve_shape(x.shape, shape)),
    grad=_undo,
    saved="",
    shape_only="X",
    aliases={"Out": "X"},
    view=RESHAPED,
    grad_view=RESHAPED,
)
def RESHAPE(xp: Any, x: Any, shape: list[int]) -> Any:
    return x.reshape(resolve_shape(x.shape, shape))


@tensor_method("reshape")
def reshape(x: Any, shape: Any, name: str | None = None) -> Any:
    """The elements of `x` in another shape, in row-major order.

    Args:
        x: any shape and dtype.
        shape: ints; 0 copies the dimension of `x` at that position, one -1 is inferred.

    Raises:
        InvalidArgument: the number of elements differs. InvalidType: a size is not an int.

    Example:
        >>> wb.reshape(wb.zeros([2, 3, 4]), [2, -1]).shape
        [2, 12]
    """
    return RESHAPE(x, shape=int_list("reshape's shape", shape), name=name)


# flatten


def flat_shape(dims: Shape, start: int, stop: int) -> Shape:
    """`dims` with those from `start` to `stop` (both included) made one.

    Raises:
        ShapeError: an axis is out of range or `start` lies behind `stop`.
    """
    if not dims:
        return (1,)
    first, last = normalize_axis(start, len(dims), "start_axis"), normalize_axis(stop, len(dims), "stop_axis")
    if first > last:
        raise ShapeError("start_axis is greater than stop_axis", f"start_axis <= {last}", first)
    return (*dims[:first], size_of(dims[first : last + 1]), *dims[last + 1 :])


@op(
    "flatten_contiguous_range",
    "X -> Out",
    attrs={"start_axis": 1, "stop_axis": 1},
    infer=lambda x, start_axis, stop_axis: x.with_shape(flat_shape(x.shape, start_axis, stop_axis)),
    grad=_undo,
    saved="",
    shape_only="X",
    aliases={"Out": "X"},
    view=RESHAPED,
    grad_view=RESHAPED,
    layer="flatten",
)
def FLATTEN(xp: Any, x: Any, start_axis: int, stop_axis: int) -> Any:
    return x.reshape(flat_shape(x.shape, start_axis, stop_axis))


@tensor_method("flatten")
def flatten(x: Any, start_axis: int = 0, stop_axis: int = -1, name: str | None = None) -> Any:
    """Dimensions `start_axis` to `stop_axis` (both included) of `x` made one.

    Raises:
        InvalidArgument: an axis is out of range, or they are in the wrong order.

    Example:
        >>> wb.flatten(wb.zeros([2, 3, 4]), start_axis=1).shape
        [2, 12]
    """
    return FLATTEN(x, start_axis=start_axis, stop_axis=stop_axis, name=name)


# squeeze2, unsqueeze2


def _squeezed(dims: Shape, axes: list[int]) -> Shape:
    gone = distinct_axes(axes, len(dims))
    for a in gone:
        if not same_dim(dims[a], 1):
            raise ShapeError(f"dimension {a} cannot be squeezed", 1, dims[a])
    return tuple(d for i, d in enumerate(dims) if i not in gone)


@op(
    "squeeze2",
    "X -> Out",
    attrs={"axes": []},
    infer=lambda x, axes: x.with_shape(_squeezed(x.shape, axes)),
    grad=_undo,
    saved="",
    shape_only="X",
    aliases={"Out": "X"},
    view=RESHAPED,
    grad_view=RESHAPED,
    layer="squeeze",
)
def SQUEEZE(xp: Any, x: Any, axes: list[int]) -> Any:
    """X without the dimensions `axes`, which have to be 1 (those known to be larger: see `squeeze`)."""
    return x.reshape(_squeezed(x.shape, axes))


@tensor_method("squeeze")
def squeeze(x: Any, axis: Any = None, name: str | None = None) -> Any:
    """`x` without dimensions of size 1.

    Args:
        axis: which ones (an int or several); those known to be larger than 1 are left alone, as in Paddle.
            None takes every dimension known to be 1.

    Raises:
        InvalidArgument: an axis is out of range. ExecutionError: a dimension unknown while building is not 1.

    Example:
        >>> wb.squeeze(wb.zeros([1, 3, 1]), axis=0).shape
        [3, 1]
    """
    rank = len(x.shape)
    asked = range(rank) if axis is None else distinct_axes(int_list("squeeze's axis", axis), rank)
    unsure_goes = axis is not None
    axes = [a for a in asked if x.shape[a] == 1 or (x.shape[a] < 0 and unsure_goes)]
    return SQUEEZE(x, axes=axes, name=name)


def _unsqueezed(dims: Shape, axes: list[int]) -> Shape:
    """One axis after the other is inserted, so that each counts in the shape made so far."""
    shape = list(dims)
    for a in axes:
        shape.insert(normalize_axis(a, len(shape) + 1), 1)
    return tuple(shape)


@op(
    "unsqueeze2",
    "X -> Out",
    attrs={"axes": []},
    infer=lambda x, axes: x.with_shape(_unsqueezed(x.shape, axes)),
    grad=_undo,
    saved="",
    shape_only="X",
    aliases={"Out": "X"},
    view=RESHAPED,
    grad_view=RESHAPED,
)
def UNSQUEEZE(xp: Any, x: Any, axes: list[int]) -> Any:
    return x.reshape(_unsqueezed(x.shape, axes))


@tensor_method("unsqueeze")
def unsqueeze(x: Any, axis: Any, name: str | None = None) -> Any:
    """`x` with dimensions of size 1 inserted before `axis` (an int or several, one after the other).

    Raises:
        InvalidArgument: an axis is out of range.

    Example:
        >>> wb.unsqueeze(wb.zeros([3]), axis=0).shape
        [1, 3]
    """
    return UNSQUEEZE(x, axes=int_list("unsqueeze's axis", axis), name=name)


# The shape as a tensor


@op(
    "shape",
    "Input -> Out",
    infer=lambda x: Spec((len(x.shape),), int32),
    shape_only="Input",
)
def SHAPE(xp: Any, x: Any) -> Any:
    return xp.asarray(x.shape, dtype="int32")


def shape(input: Any) -> Any:
    """The shape `input` has when the program runs: int32 of shape [rank].

    Example:
        >>> print(wb.shape(wb.zeros([2, 3])).numpy())
        [2 3]
    """
    return SHAPE(input)


def length_of(x: Any, axis: int) -> Any:
    """How long a dimension of `x` is: an int; where only the run knows, a tensor `[1]` in the dtype of `x`."""
    if x.shape[axis] >= 0:
        return int(x.shape[axis])
    place = normalize_axis(axis, len(x.shape))
    return SHAPE(x)[place : place + 1].astype(x.dtype)


@op(
    "size",
    "Input -> Out",
    attrs={"zero_dim": False},
    infer=lambda x, zero_dim: Spec(() if zero_dim else (1,), int64),
    shape_only="Input",
)
def SIZE(xp: Any, x: Any, zero_dim: bool) -> Any:
    return xp.full(() if zero_dim else (1,), x.size, dtype="int64")


@tensor_method("numel")
def numel(x: Any, name: str | None = None) -> Any:
    """The number of elements `x` has when the program runs: int64 of shape [1], in dynamic mode [].

    Example:
        >>> print(wb.numel(wb.zeros([2, 3])).numpy())
        6
    """
    return SIZE(x, zero_dim=zero_dim(), name=name)
