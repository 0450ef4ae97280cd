"""Repeating and reordering along dimensions: tile, expand, flip, roll."""

from __future__ import annotations

from typing import Any

from workbench.errors import ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.infix import tensor_method
from workbench.framework.op.record import find_op
from workbench.framework.values.spec import Shape, Spec, broadcast_shapes, same_dim, shape_text
from workbench.framework.values.sums import add_up
from workbench.ops.arguments import distinct_axes, int_list
from workbench.ops.precision import rounded, wide
from workbench.ops.tensor.shape import RESHAPE, RESHAPE_LIKE, flatten
from workbench.ops.tensor.transpose import TRANSPOSE

OFFERED = {"workbench": "broadcast_shape broadcast_to expand expand_as flip roll tile"}

# tile


def _widened(dims: Shape, times: list[int]) -> tuple[Shape, list[int]]:
    """Dimensions and counts brought to one length, with ones in front."""
    rank = max(len(dims), len(times))
    return (1,) * (rank - len(dims)) + tuple(dims), [1] * (rank - len(times)) + list(times)


def _infer_tile(x: Spec, repeat_times: list[int]) -> Spec:
    if any(r < 1 for r in repeat_times):
        raise ShapeError("tile repeats a dimension a number of times", "ints >= 1", list(repeat_times))
    dims, times = _widened(x.shape, repeat_times)
    return x.with_shape(-1 if d < 0 else d * r for d, r in zip(dims, times, strict=True))


def _tile_rule(g: Any, out: Any, x: Any, repeat_times: list[int]) -> Any:
    """Sum over the copies, one dimension after the other: it goes last, is cut in two and summed."""
    dims, times = _widened(x.shape, repeat_times)
    rank = len(dims)
    for axis, times_here in enumerate(times):
        if times_here == 1:
            continue
        order = [a for a in range(rank) if a != axis]
        last = TRANSPOSE(g, axis=[*order, axis])
        copies = RESHAPE(last, shape=[0] * (rank - 1) + [times_here, -1])
        summed = find_op("reduce_sum")(copies, dim=[rank - 1], keep_dim=False)
        g = TRANSPOSE(summed, axis=[*range(axis), rank - 1, *range(axis, rank - 1)])
    return g


def _tile_grad(xp: Any, x: Any, g: Any, wanted: Any, repeat_times: list[int]) -> Any:
    dims, times = _widened(x.shape, repeat_times)
    both = [n for pair in zip(times, dims, strict=True) for n in pair]
    return rounded(add_up(wide(g).reshape(both), tuple(range(0, len(both), 2))), x).reshape(x.shape)


@op(
    "tile",
    "X -> Out",
    attrs={"repeat_times": []},
    infer=_infer_tile,
    grad=_tile_rule,
    grad_forward=_tile_grad,
    saved="",
    shape_only="X",
)
def TILE(xp: Any, x: Any, repeat_times: list[int]) -> Any:
    return xp.tile(x, tuple(repeat_times))


@tensor_method("tile")
def tile(x: Any, repeat_times: Any, name: str | None = None) -> Any:
    """`x` repeated `repeat_times[i]` times along dimension i, counted from the last one as in NumPy.

    Raises:
        InvalidArgument: a count below 1.

    Example:
        >>> print(wb.tile(wb.to_tensor([1, 2]), [2]).numpy())
        [1 2 1 2]
    """
    return TILE(x, repeat_times=int_list("tile's repeat_times", repeat_times), name=name)


# expand


def _expanded(dims: Shape, shape: list[int]) -> Shape:
    """`dims` broadcast to `shape`, in which -1 keeps a dimension.

    Raises:
        ShapeError: fewer dimensions than before, or one that is neither 1 nor the wanted one.
    """
    extra = len(shape) - len(dims)
    if extra < 0 or any(s < -1 for s in shape) or -1 in shape[: max(extra, 0)]:
        raise ShapeError(
            "expand takes one size per dimension, and sizes >= 0 for new ones in front; -1 keeps a dimension",
            f"at least {len(dims)} sizes for {shape_text(dims)}",
            list(shape),
        )
    kept = [d if s < 0 else s for d, s in zip(dims, shape[extra:], strict=True)]
    for d, s in zip(dims, kept, strict=True):
        if d != 1 and not same_dim(d, s):
            raise ShapeError("a dimension can be expanded if it is 1", shape_text(dims), list(shape))
    return (*shape[:extra], *kept)


@op(
    "expand_v2",
    "X -> Out",
    attrs={"shape": []},
    infer=lambda x, shape: x.with_shape(_expanded(x.shape, shape)),
    grad=lambda g, out, x, shape: g,
    saved="",
    shape_only="X",
)
def EXPAND(xp: Any, x: Any, shape: list[int]) -> Any:
    return xp.array(xp.broadcast_to(x, _expanded(x.shape, shape)), order="C")


@tensor_method("expand")
def expand(x: Any, shape: Any, name: str | None = None) -> Any:
    """`x` broadcast to `shape`; -1 keeps a dimension.

    Raises:
        InvalidArgument: a dimension is neither 1 nor the wanted size.

    Example:
        >>> print(wb.expand(wb.to_tensor([[1], [2]]), [-1, 3]).numpy())
        [[1 1 1]
         [2 2 2]]
    """
    return EXPAND(x, shape=int_list("expand's shape", shape), name=name)


@tensor_method("broadcast_to")
def broadcast_to(x: Any, shape: Any, name: str | None = None) -> Any:
    """The same as `expand`.

    Example:
        >>> print(wb.broadcast_to(wb.to_tensor([1, 2]), [2, 2]).numpy())
        [[1 2]
         [1 2]]
    """
    return expand(x, shape, name)


def _infer_expand_as(x: Spec, y: Spec) -> Spec:
    if len(x.shape) > len(y.shape):
        raise ShapeError("expand_as takes a target of at least as many dimensions", x, y)
    for d, target in zip(x.shape[::-1], y.shape[::-1], strict=False):
        if d != 1 and not same_dim(d, target):
            raise ShapeError("a dimension can be expanded if it is 1", shape_text(y.shape), shape_text(x.shape))
    return x.with_shape(d if d >= 0 else -1 for d in y.shape)


@op(
    "expand_as_v2",
    "X, Y -> Out",
    infer=_infer_expand_as,
    grad=lambda g, out, x, y: g,
    saved="",
    shape_only="X, Y",
    no_grad="Y",
    layer="expand_as",
)
def EXPAND_AS(xp: Any, x: Any, y: Any) -> Any:
    return xp.array(xp.broadcast_to(x, y.shape), order="C")


@tensor_method("expand_as")
def expand_as(x: Any, y: Any, name: str | None = None) -> Any:
    """`x` broadcast to the shape of `y`.

    Raises:
        InvalidArgument: a dimension is neither 1 nor the wanted size.

    Example:
        >>> wb.expand_as(wb.zeros([1, 3]), wb.zeros([2, 3])).shape
        [2, 3]
    """
    return EXPAND_AS(x, y, name=name)


def broadcast_shape(x_shape: Any, y_shape: Any) -> list[int]:
    """The shape two shapes broadcast to; -1 where it is not known.

    Raises:
        InvalidArgument: two dimensions differ and neither is 1.

    Example:
        >>> wb.broadcast_shape([2, 1, 3], [4, 1])
        [2, 4, 3]
    """
    return list(broadcast_shapes(tuple(x_shape), tuple(y_shape)))


# flip, roll


def _infer_flip(x: Spec, axis: list[int]) -> Spec:
    distinct_axes(axis, len(x.shape))
    return x


def _flip_back(g: Any, out: Any, x: Any, axis: list[int]) -> Any:
    return FLIP(g, axis=axis)


@op(
    "flip",
    "X -> Out",
    attrs={"axis": []},
    infer=_infer_flip,
    grad=_flip_back,
    saved="",
    shape_only="X",
)
def FLIP(xp: Any, x: Any, axis: list[int]) -> Any:
    return xp.array(xp.flip(x, tuple(axis)), order="C")


@tensor_method("flip")
def flip(x: Any, axis: Any, name: str | None = None) -> Any:
    """`x` in reverse order along `axis` (an int or several).

    Raises:
        InvalidArgument: an axis is out of range or comes twice.

    Example:
        >>> print(wb.flip(wb.to_tensor([1, 2, 3]), axis=0).numpy())
        [3 2 1]
    """
    return FLIP(x, axis=int_list("flip's axis", axis), name=name)


def _infer_roll(x: Spec, shifts: list[int], axis: list[int]) -> Spec:
    distinct_axes(axis, len(x.shape))
    if len(shifts) != len(axis):
        raise ShapeError("roll takes one shift per axis", f"{len(axis)} shifts", list(shifts))
    return x


def _roll_back(g: Any, out: Any, x: Any, shifts: list[int], axis: list[int]) -> Any:
    return ROLL(g, shifts=[-s for s in shifts], axis=axis)


@op(
    "roll",
    "X -> Out",
    attrs={"shifts": [], "axis": []},
    infer=_infer_roll,
    grad=_roll_back,
    saved="",
    shape_only="X",
)
def ROLL(xp: Any, x: Any, shifts: list[int], axis: list[int]) -> Any:
    return xp.roll(x, tuple(shifts), tuple(axis))


@tensor_method("roll")
def roll(x: Any, shifts: Any, axis: Any = None, name: str | None = None) -> Any:
    """`x` moved by `shifts` along `axis`, what leaves at one end coming in at the other.

    Args:
        axis: one per shift; None rolls the elements in row-major order.

    Raises:
        InvalidArgument: an axis is out of range, or there are not as many as shifts.

    Example:
        >>> print(wb.roll(wb.to_tensor([1, 2, 3]), 1).numpy())
        [3 1 2]
    """
    moves = int_list("roll's shifts", shifts)
    if axis is None:
        return RESHAPE_LIKE(ROLL(flatten(x), shifts=moves, axis=[0]), x, name=name)
    return ROLL(x, shifts=moves, axis=int_list("roll's axis", axis), name=name)
