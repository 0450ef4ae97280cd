"""Parts of tensors: cropped, in windows, by strides, in combinations; composed of other ops."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, ShapeError
from workbench.framework.op.infix import Infix, tensor_method
from workbench.framework.values.memory import MemoryFor
from workbench.framework.values.spec import normalize_axis
from workbench.ops.arguments import int_list, one_int
from workbench.ops.index.composed.filling import known_shape
from workbench.ops.index.gather import GATHER, index_select
from workbench.ops.tensor.assign import assign
from workbench.ops.tensor.shape import reshape
from workbench.ops.tensor.slicing import slice as part_of
from workbench.ops.tensor.transpose import transpose

OFFERED = {"workbench": "as_strided combinations crop tolist unfold=windows"}


def crop(x: Any, shape: Any = None, offsets: Any = None, name: str | None = None) -> Any:
    """A block of a tensor.

    Args:
        shape: of the block; -1 goes to the end. By default that of `x`.
        offsets: where it begins, 0 by default.

    Raises:
        InvalidArgument: not a number for each dimension, or a block that is not within the tensor.

    Example:
        >>> print(wb.crop(wb.to_tensor([[1, 2, 3], [4, 5, 6]]), shape=[1, 2], offsets=[1, 1]).numpy())
        [[5 6]]
    """
    rank = len(x.shape)
    begins = [0] * rank if offsets is None else int_list("crop's offsets", offsets)
    sizes = list(x.shape) if shape is None else int_list("crop's shape", shape)
    if len(begins) != rank or len(sizes) != rank:
        raise ShapeError("crop takes a size and an offset for each dimension", rank, f"{len(sizes)} and {len(begins)}")
    ends = [have if size < 0 else begin + size for have, size, begin in zip(x.shape, sizes, begins, strict=True)]
    for have, begin, end in zip(x.shape, begins, ends, strict=True):
        if begin < 0 or (have >= 0 and end > have):
            raise InvalidArgument(f"crop: [{begin}, {end}) is not within a dimension of size {have}")
    return part_of(x, list(range(rank)), begins, [2**31 - 1 if end < 0 else end for end in ends])


def windows(x: Any, axis: int, size: int, step: int, name: str | None = None) -> Any:
    """Windows along `axis`, whose elements become the last dimension. Method `unfold`.

    Args:
        size: elements in a window. step: from the begin of one to that of the next.

    Raises:
        InvalidArgument: an axis out of range, a window larger than its dimension.

    Example:
        >>> print(wb.to_tensor([1, 2, 3, 4]).unfold(0, 2, 1).numpy())
        [[1 2]
         [2 3]
         [3 4]]
    """
    axis = normalize_axis(one_int("unfold's axis", axis), len(x.shape))
    shape = known_shape("unfold", x)
    if not (0 < size <= shape[axis] and step > 0):
        raise ShapeError(f"a window along axis {axis}", f"0 < size <= {shape[axis]}, step > 0", f"{size}, {step}")
    places = np.arange(0, shape[axis] - size + 1, step)[:, None] + np.arange(size)
    cut = index_select(x, assign(places.ravel()), axis)
    cut = reshape(cut, [*shape[:axis], len(places), size, *shape[axis + 1 :]])
    last = [a for a in range(len(shape) + 1) if a != axis + 1]
    return transpose(cut, [*last, axis + 1], name=name)


tensor_method("unfold")(windows)


@tensor_method("as_strided")
def as_strided(x: Any, shape: Any, stride: Any, offset: int = 0, name: str | None = None) -> Any:
    """A copy of the elements that a shape and strides reach in the memory of `x`.

    Args:
        shape, stride: ints; strides in elements. offset: of the first one, in elements.

    Raises:
        InvalidArgument: elements that `x` does not have.

    Example:
        >>> print(wb.as_strided(wb.to_tensor([1, 2, 3, 4]), [2, 2], [1, 2]).numpy())
        [[1 3]
         [2 4]]
    """
    sizes, strides = int_list("as_strided's shape", shape), int_list("as_strided's stride", stride)
    if len(sizes) != len(strides):
        raise ShapeError("as_strided takes a stride for each dimension", len(sizes), len(strides))
    with MemoryFor(f"the places of as_strided's elements {sizes}"):
        places = np.full(sizes, one_int("as_strided's offset", offset))
        for axis, step in enumerate(strides):
            moved = np.arange(sizes[axis]) * step
            places = places + moved.reshape([-1 if a == axis else 1 for a in range(len(sizes))])
    count = math.prod(known_shape("as_strided", x))
    if places.size and not (places.min() >= 0 and places.max() < count):
        raise InvalidArgument(f"as_strided reaches element {places.max()} of {count}")
    return GATHER(reshape(x, [-1]), assign(places), axis=0, name=name)


def combinations(x: Any, r: int = 2, with_replacement: bool = False, name: str | None = None) -> Any:
    """All choices of `r` elements of a vector, in order, a row each.

    Args:
        with_replacement: an element may be chosen again.

    Raises:
        InvalidArgument: `x` is no vector of known length, or r < 0.

    Example:
        >>> print(wb.combinations(wb.to_tensor([1, 2, 3])).numpy())
        [[1 2]
         [1 3]
         [2 3]]
    """
    if len(x.shape) != 1 or one_int("combinations' r", r) < 0:
        raise ShapeError("combinations takes a vector and r >= 0", "shape [n]", f"{list(x.shape)} and {r}")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = np.array(list(choose(range(known_shape("combinations", x)[0]), r)), np.int64).reshape(-1, r)
    return GATHER(x, assign(rows), axis=0, name=name)


tensor_method("combinations")(combinations)


def tolist(x: Infix) -> Any:
    """The values of a tensor of dynamic mode as nested lists.

    Example:
        >>> wb.tolist(wb.to_tensor([1, 2]))
        [1, 2]
    """
    return x.tolist()  # type: ignore[attr-defined]
