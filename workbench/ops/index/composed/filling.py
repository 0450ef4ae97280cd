"""Entries replaced, chosen or put where indices say; composed of other ops."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, ShapeError
from workbench.framework.op.infix import is_number, tensor_method
from workbench.framework.values.spec import normalize_axis, shape_text
from workbench.ops.arguments import one_int
from workbench.ops.index.along_axis import take_along_axis
from workbench.ops.index.coordinates import scatter_nd_add
from workbench.ops.index.gather import GATHER
from workbench.ops.index.put import PUT_AT
from workbench.ops.index.scatter import SCATTER
from workbench.ops.math.clip import clip
from workbench.ops.math.compare import where
from workbench.ops.tensor.assign import assign
from workbench.ops.tensor.creation import full_like, zeros
from workbench.ops.tensor.join import concat, stack
from workbench.ops.tensor.shape import reshape, unsqueeze
from workbench.ops.tensor.slicing import slice as part_of
from workbench.ops.tensor.tile import broadcast_to, expand

OFFERED = {"workbench": "index_fill index_put multiplex scatter_nd select_scatter shard_index take"}

_FAR = 2**31 - 1


def known_shape(what: str, x: Any) -> list[int]:
    """The dimensions of a tensor.

    Raises:
        ShapeError: one is not known.
    """
    if any(d < 0 for d in x.shape):
        raise ShapeError(f"{what} takes a tensor of known shape", "no dimension -1", shape_text(x.shape))
    return list(x.shape)


@tensor_method("index_fill")
def index_fill(x: Any, index: Any, axis: int, value: Any, name: str | None = None) -> Any:
    """`x` with `value` in the slices along `axis` that `index` names.

    Args:
        index: int32 or int64, shape [N].
        value: a number, or a tensor without dimensions of the dtype of `x`.

    Raises:
        InvalidArgument: an axis out of range, an unknown dimension; when run, an index out of range.

    Example:
        >>> print(wb.index_fill(wb.ones([2, 2]), wb.to_tensor([0]), 1, 5.0).numpy())
        [[5. 1.]
         [5. 1.]]
    """
    axis = normalize_axis(one_int("index_fill's axis", axis), len(x.shape))
    size = x.shape[axis]
    if size < 0:
        raise ShapeError("index_fill takes a known dimension", "no dimension -1", shape_text(x.shape))
    named = SCATTER(zeros([size], "int32"), index, full_like(index, 1, "int32"), overwrite=True)
    named = reshape(named == 1, [size if a == axis else 1 for a in range(len(x.shape))])
    return where(named, value if is_number(value) else value.astype(x.dtype), x, name=name)


@tensor_method("index_put")
def index_put(x: Any, indices: Any, value: Any, accumulate: bool = False, name: str | None = None) -> Any:
    """`x` with `value` put, or added, at the entries that index tensors name.

    Args:
        indices: a tuple of tensors of integers, one for each of the first dimensions, that broadcast; or one tensor of
            bool in the shape of the first dimensions (in dynamic mode).
        value: broadcasts to the shape of the entries.
        accumulate: add instead of replacing.

    Raises:
        InvalidArgument: too many indices, shapes that do not fit, unknown dimensions.

    Example:
        >>> index = (wb.to_tensor([0, 1]), wb.to_tensor([1, 0]))
        >>> print(wb.index_put(wb.zeros([2, 2]), index, wb.to_tensor([5.0])).numpy())
        [[0. 5.]
         [5. 0.]]
    """
    shape = known_shape("index_put", x)
    given = [part for index in indices for part in _coordinates(index)]
    if not 0 < len(given) <= len(shape):
        raise ShapeError("index_put takes an index per dimension", f"1 to {len(shape)}", len(given))
    inner = math.prod(shape[len(given) :])
    places = given[0] * 0
    for index, size in zip(given, shape, strict=False):
        places = places * size + where(index < 0, index + size, index)
    entries = [*places.shape, *shape[len(given) :]]
    spread = unsqueeze(places * inner, -1) + assign(np.arange(inner))
    values = reshape(broadcast_to(value.astype(x.dtype), entries), [-1])
    if not accumulate:
        return PUT_AT(x, reshape(spread, [-1]), values, name=name)
    added = scatter_nd_add(reshape(x, [-1]), reshape(spread, [-1, 1]), values)
    return reshape(added, shape, name=name)


def _coordinates(index: Any) -> list[Any]:
    """An index of integers as it is; a mask as the coordinates where it holds."""
    if index.dtype.kind != "bool":
        return [index.astype("int64")]
    return [reshape(part, [-1]) for part in index.nonzero(as_tuple=True)]


def scatter_nd(index: Any, updates: Any, shape: Any, name: str | None = None) -> Any:
    """Zeros with `updates` added at the coordinates `index[..., :]`. See `scatter_nd_add`.

    Args:
        shape: of the result.

    Example:
        >>> print(wb.scatter_nd(wb.to_tensor([[1], [1]]), wb.to_tensor([1.0, 2.0]), [3]).numpy())
        [0. 3. 0.]
    """
    return scatter_nd_add(zeros(shape, updates.dtype), index, updates, name)


@tensor_method("take")
def take(x: Any, index: Any, mode: str = "raise", name: str | None = None) -> Any:
    """The elements of `x`, counted in row-major order, that `index` names; in its shape.

    Args:
        index: int32 or int64.
        mode: what becomes of indices out of range: "raise" refuses them (negative ones count from the end), "wrap"
            takes them modulo the size, "clip" takes the first or the last element.

    Raises:
        InvalidArgument: another mode, unknown dimensions; when run, an index out of range.

    Example:
        >>> print(wb.take(wb.to_tensor([[1, 2], [3, 4]]), wb.to_tensor([3, -4])).numpy())
        [4 1]
    """
    count = math.prod(known_shape("take", x))
    if mode not in ("raise", "wrap", "clip"):
        raise InvalidArgument(f"take's mode is 'raise', 'wrap' or 'clip', got {mode!r}")
    if mode == "raise":
        index = where(index < 0, index + count, index)
    else:
        index = index % count if mode == "wrap" else clip(index, 0, count - 1)
    return GATHER(reshape(x, [-1]), index, axis=0, name=name)


@tensor_method("multiplex")
def multiplex(inputs: Any, index: Any, name: str | None = None) -> Any:
    """Row i of the tensor that `index[i]` names, for each i.

    Args:
        inputs: a list of tensors of one shape [n, ...] and dtype.
        index: int32 or int64, [n, 1].

    Raises:
        InvalidArgument: fewer than two tensors, shapes that differ; when run, an index out of range.

    Example:
        >>> pair = [wb.to_tensor([[1], [2]]), wb.to_tensor([[3], [4]])]
        >>> print(wb.multiplex(pair, wb.to_tensor([[1], [0]])).numpy())
        [[3]
         [2]]
    """
    if len(inputs) < 2:
        raise InvalidArgument(f"multiplex chooses among at least two tensors, got {len(inputs)}")
    together = stack(list(inputs), 0)
    rank = len(together.shape)
    at = expand(reshape(index, [1, -1] + [1] * (rank - 2)), [1, -1, *together.shape[2:]])
    return take_along_axis(together, at, 0)[0]


@tensor_method("select_scatter")
def select_scatter(x: Any, values: Any, axis: int, index: int, name: str | None = None) -> Any:
    """`x` with `values` in the place of one slice along `axis`.

    Args:
        values: the shape of `x` without that dimension.

    Raises:
        InvalidArgument: an axis or index out of range; another shape.

    Example:
        >>> print(wb.select_scatter(wb.zeros([2, 2]), wb.ones([2]), 0, 1).numpy())
        [[0. 0.]
         [1. 1.]]
    """
    axis = normalize_axis(one_int("select_scatter's axis", axis), len(x.shape))
    index = normalize_axis(one_int("select_scatter's index", index), x.shape[axis], "index")
    expected = [d for a, d in enumerate(x.shape) if a != axis]
    if list(values.shape) != expected:
        raise ShapeError("select_scatter takes values in the shape of the slice", expected, list(values.shape))
    parts = [part_of(x, [axis], [0], [index]), unsqueeze(values.astype(x.dtype), axis)]
    return concat([*parts, part_of(x, [axis], [index + 1], [_FAR])], axis, name)


@tensor_method("shard_index")
def shard_index(input: Any, index_num: int, nshards: int, shard_id: int, ignore_value: int = -1) -> Any:
    """Indices of a table in `nshards` pieces as places in piece `shard_id`; `ignore_value` for those of other pieces.

    Args:
        input: int32 or int64, values in [0, index_num).

    Raises:
        InvalidArgument: a shard that does not exist.

    Example:
        >>> print(wb.shard_index(wb.to_tensor([[16], [1]]), index_num=20, nshards=2, shard_id=0).numpy())
        [[-1]
         [ 1]]
    """
    if not 0 <= shard_id < nshards:
        raise InvalidArgument(f"shard_index: shard_id must be in [0, {nshards}), got {shard_id}")
    size = -(-index_num // nshards)
    return where(input // size == shard_id, input % size, full_like(input, ignore_value))
