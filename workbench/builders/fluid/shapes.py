"""`fluid.layers`: tensors cut, joined, repeated, padded and given other shapes, with the arguments of Paddle 1.x."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.builders.layer import activation_op
from workbench.errors import InvalidArgument, ShapeError, Unimplemented
from workbench.framework.op.infix import not_a_variable
from workbench.framework.program.variable import Variable
from workbench.framework.values.spec import shape_text
from workbench.ops.arguments import int_list, one_int
from workbench.ops.index.composed.parts import crop as block_of
from workbench.ops.tensor import join, tile
from workbench.ops.tensor import pad as padding
from workbench.ops.tensor import shape as ops


def reshape(
    x: Any,
    shape: Any,
    actual_shape: Any = None,
    act: str | None = None,
    inplace: bool = False,
    name: str | None = None,
) -> Any:
    """`x` in another shape, then an activation.

    Raises:
        Unimplemented: `actual_shape`, a shape that is only known when run.
    """
    if actual_shape is not None:
        raise Unimplemented("reshape does not take actual_shape; leave -1 in shape for what is not known")
    result = ops.reshape(x, shape, name=name)
    return result if act is None else activation_op(act, "reshape")(result, name=name)


def flatten(x: Any, axis: int = 1, name: str | None = None) -> Any:
    """A matrix: the dimensions before `axis` are its rows, the others its columns.

    Args:
        x: of any shape, dimensions known or not. axis: 0 (one row) to the number of dimensions (one column).

    Raises:
        InvalidArgument: an axis out of range.

    Example:
        >>> import workbench.fluid as fluid
        >>> fluid.layers.flatten(fluid.data("x", [None, 4, 5, 2]), axis=2).shape
        (-1, 10)
    """
    rank = len(x.shape)
    if not 0 <= one_int("flatten's axis", axis) <= rank:
        raise InvalidArgument(f"flatten takes an axis in [0, {rank}] for {shape_text(x.shape)}, got {axis}")
    if axis in (0, rank):
        return ops.reshape(x, [1, -1] if axis == 0 else [-1, 1], name=name)
    rows = x if axis == 1 else ops.flatten(x, 0, axis - 1)
    return ops.flatten(rows, 1, -1, name=name)


def squeeze(input: Any, axes: Any, name: str | None = None) -> Any:
    """`input` without the dimensions of size 1 at `axes`."""
    return ops.squeeze(input, axes or None, name)


def unsqueeze(input: Any, axes: Any, name: str | None = None) -> Any:
    """`input` with dimensions of size 1 at `axes`."""
    return ops.unsqueeze(input, axes, name)


def concat(input: Sequence[Any], axis: int = 0, name: str | None = None) -> Any:
    """Several variables behind each other along `axis`."""
    return join.concat(list(input), axis, name)


def split(input: Any, num_or_sections: Any, dim: int = -1, name: str | None = None) -> Any:
    """Parts of equal size, or of given sizes, along `dim`."""
    return join.split(input, num_or_sections, dim, name)


def stack(x: Any, axis: int = 0) -> Any:
    """Variables of one shape along a new dimension at `axis`; one variable is a list of itself."""
    return join.stack(list(x) if isinstance(x, list | tuple) else [x], axis)


# Repeating and reordering


def expand(x: Any, expand_times: Any, name: str | None = None) -> Any:
    """`x` repeated so many times along each dimension.

    Args:
        expand_times: an int of at least 1 per dimension.

    Raises:
        InvalidArgument: another number of them. InvalidType: a variable, or one among them.

    Example:
        >>> import workbench.fluid as fluid
        >>> fluid.layers.expand(fluid.data("x", [None, 1, 3]), expand_times=[1, 2, 2]).shape
        (-1, 2, 6)
    """
    times = int_list("expand's expand_times", expand_times)
    if len(times) != len(x.shape):
        raise ShapeError(f"expand takes a number for each dimension of {shape_text(x.shape)}", len(x.shape), times)
    return tile.TILE(x, repeat_times=times, name=name)


def expand_as(x: Any, target_tensor: Any, name: str | None = None) -> Any:
    """`x` repeated along each dimension until it has the shape of `target_tensor`.

    Raises:
        InvalidArgument: dimensions that are no multiple. Unimplemented: a dimension to be repeated a number of times
            that only a run knows, unless it has size 1.
    """
    own, wanted = list(x.shape), list(target_tensor.shape)
    if len(own) != len(wanted):
        raise ShapeError("expand_as takes a target of as many dimensions", shape_text(own), shape_text(wanted))
    if all(size in (1, like) for size, like in zip(own, wanted, strict=True)):
        return tile.expand_as(x, target_tensor, name)
    if any(size != like and min(size, like) < 0 for size, like in zip(own, wanted, strict=True)):
        raise Unimplemented(f"expand_as repeats known dimensions, got {shape_text(own)} and {shape_text(wanted)}")
    if any(like % size for size, like in zip(own, wanted, strict=True) if size > 0):
        raise ShapeError("expand_as takes a target of multiples", shape_text(own), shape_text(wanted))
    return expand(x, [1 if size == like else like // size for size, like in zip(own, wanted, strict=True)], name)


def reverse(x: Any, axis: Any) -> Any:
    """`x` backwards along one or several axes."""
    return tile.flip(x, [axis] if isinstance(axis, int) else list(axis))


def flip(input: Any, dims: Any, name: str | None = None) -> Any:
    """`input` backwards along dimensions; see `reverse`."""
    return tile.flip(input, dims, name)


def roll(input: Any, shifts: Any, dims: Any = None) -> Any:
    """`input` shifted along dimensions, what falls off put in front again; as one row of numbers if `dims` is None."""
    return tile.roll(input, shifts, dims)


# Padding and cropping


def pad(x: Any, paddings: Any, pad_value: float = 0.0, name: str | None = None) -> Any:
    """`x` with `pad_value` around it.

    Args:
        paddings: for each dimension how much before and how much behind it, in a row.

    Raises:
        InvalidArgument: not two numbers per dimension, or a negative one.

    Example:
        >>> import workbench.fluid as fluid
        >>> fluid.layers.pad(fluid.data("x", [None, 3]), paddings=[0, 0, 1, 2]).shape
        (-1, 6)
    """
    sizes = int_list("pad's paddings", paddings)
    if len(sizes) != 2 * len(x.shape):
        raise ShapeError(f"pad takes two numbers per dimension of {shape_text(x.shape)}", 2 * len(x.shape), sizes)
    return padding.PAD(x, paddings=sizes, mode="constant", value=float(pad_value), name=name)


def pad_constant_like(x: Any, y: Any, pad_value: float = 0.0, name: str | None = None) -> Any:
    """`y` with `pad_value` behind each dimension, up to the shape of `x`.

    Raises:
        InvalidArgument: `y` is larger. Unimplemented: dimensions that differ and are only known when run.
    """
    differ = [(want, have) for want, have in zip(x.shape, y.shape, strict=True) if want != have]
    if any(min(pair) < 0 for pair in differ):
        raise Unimplemented(f"pad_constant_like takes known sizes, got {shape_text(x.shape)} and {shape_text(y.shape)}")
    behind = [[0, want - have] for want, have in zip(x.shape, y.shape, strict=True)]
    return pad(y, [size for both in behind for size in both], pad_value, name)


MODES = {"constant": "constant", "reflect": "reflect", "edge": "replicate"}


def pad2d(
    input: Any,
    paddings: Any = (0, 0, 0, 0),
    mode: str = "constant",
    pad_value: float = 0.0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Any:
    """An image with something around it.

    Args:
        input: `[N, C, H, W]`, or `[N, H, W, C]`. paddings: above, below, left, right.
        mode: "constant", "reflect" (what is inside, without the edge) or "edge" (the edge repeated).

    Raises:
        InvalidArgument: another mode or format, not four sizes, or more than "reflect" can take.
    """
    if mode not in MODES:
        raise InvalidArgument(f"pad2d's mode is one of {', '.join(MODES)}, got {mode!r}")
    above, below, left, right = _four(paddings)
    return padding.pad(input, [left, right, above, below], MODES[mode], pad_value, data_format, name)


def _four(paddings: Any) -> list[int]:
    if isinstance(paddings, Variable):
        raise not_a_variable("pad2d takes ints as paddings", paddings)
    sizes = int_list("pad2d's paddings", paddings)
    if len(sizes) != 4:
        raise ShapeError("pad2d takes four paddings", "[above, below, left, right]", sizes)
    return sizes


def crop(x: Any, shape: Any = None, offsets: Any = None, name: str | None = None) -> Any:
    """A block of `x`.

    Args:
        shape: of the block; -1 goes to the end. A variable: the block has its shape, where that is known.
        offsets: where it begins, 0 if None.

    Raises:
        InvalidArgument: not a number per dimension, or a block that is not within `x`.
    """
    return block_of(x, list(shape.shape) if isinstance(shape, Variable) else shape, offsets, name)
