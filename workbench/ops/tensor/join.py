"""Joining tensors and taking them apart along one dimension: concat, split, stack, unstack."""

from __future__ import annotations

from typing import Any

from workbench.errors import ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.infix import tensor_method
from workbench.framework.values.spec import Shape, Spec, merge_dim, normalize_axis, require_same_dtype, same_dim
from workbench.ops.arguments import int_list, one_int

OFFERED = {"workbench": "chunk concat split stack unbind unstack"}


def _at(axis: int, item: Any) -> tuple[Any, ...]:
    """An index that takes `item` along `axis` and everything along the others; a view, also of a single number."""
    return (slice(None),) * axis + (item, ...)


# concat, and its gradient


def _infer_concat(xs: list[Spec], axis: int) -> Spec:
    require_same_dtype("concat", *xs)
    if not xs:
        raise ShapeError("concat takes a list of tensors", "at least one", "none")
    first = xs[0].shape
    axis = normalize_axis(axis, len(first))
    dims = list(first)
    for x in xs[1:]:
        if len(x.shape) != len(first) or not all(
            same_dim(a, b) for i, (a, b) in enumerate(zip(dims, x.shape, strict=True)) if i != axis
        ):
            raise ShapeError(f"tensors joined along axis {axis} agree in all other dimensions", xs[0], x)
        dims = [merge_dim(a, b) for a, b in zip(dims, x.shape, strict=True)]
    sizes = [x.shape[axis] for x in xs]
    dims[axis] = -1 if -1 in sizes else sum(sizes)
    return xs[0].with_shape(dims)


def _cut_like(g: Any, out: Any, xs: list[Any], axis: int) -> Any:
    return (SPLIT_LIKE(g, xs, axis=axis),)


@op(
    "concat",
    "X* -> Out",
    attrs={"axis": 0},
    infer=_infer_concat,
    grad=_cut_like,
    saved="",
    shape_only="X",
)
def CONCAT(xp: Any, xs: list[Any], axis: int) -> Any:
    return xp.concatenate(xs, axis=axis)


@tensor_method("concat")
def concat(x: Any, axis: int = 0, name: str | None = None) -> Any:
    """The tensors of the list `x`, one behind the other along `axis`.

    Raises:
        InvalidArgument: they differ in another dimension; InvalidType: they differ in dtype.

    Example:
        >>> print(wb.concat([wb.to_tensor([1, 2]), wb.to_tensor([3])]).numpy())
        [1 2 3]
    """
    return CONCAT(list(x), axis=one_int("concat's axis", axis), name=name)


def _cut(x: Any, sizes: list[int], axis: int) -> list[Any]:
    """Views of consecutive parts of `x`."""
    parts, start = [], 0
    for size in sizes:
        parts.append(x[_at(axis, slice(start, start + size))])
        start += size
    return parts


def _parts_like(x: Any, likes: list[Any], axis: int) -> list[Any]:
    return _cut(x, [like.shape[axis] for like in likes], normalize_axis(axis, x.ndim))


def _infer_split_like(x: Spec, likes: list[Spec], axis: int) -> list[Spec]:
    axis = normalize_axis(axis, len(x.shape))
    sizes = [like.shape[axis] for like in likes]
    if -1 not in sizes and not same_dim(sum(sizes), x.shape[axis]):
        raise ShapeError(f"the parts along axis {axis} add up to the whole", x.shape[axis], sizes)
    return [x.with_shape(_replaced(x.shape, axis, size)) for size in sizes]


@op(
    "split_like",
    "X, Like* -> Out*",
    attrs={"axis": 0},
    infer=_infer_split_like,
    grad=lambda gs, outs, x, likes, axis: CONCAT(gs, axis=axis),
    saved="",
    shape_only="X, Like",
    no_grad="Like",
)
def SPLIT_LIKE(xp: Any, x: Any, likes: list[Any], axis: int) -> list[Any]:
    """X cut along `axis` into parts as long as those of Like: the gradient of `concat`."""
    return [xp.array(part, order="C") for part in _parts_like(x, likes, axis)]


def _replaced(dims: Shape, axis: int, size: int) -> Shape:
    return (*dims[:axis], size, *dims[axis + 1 :])


# split


def _part_sizes(dim: int, num: int, sections: list[int]) -> list[int]:
    """Sizes of the parts of a dimension, -1 for those not known yet.

    Raises:
        ShapeError: it does not divide evenly, or the sections do not add up to it.
    """
    if sections:
        return _fill_sections(dim, sections)
    if num < 1:
        raise ShapeError("split takes a number of parts", "an int >= 1", num)
    if dim >= 0 and dim % num:
        raise ShapeError(f"a dimension split into {num} parts is a multiple of {num}", f"a multiple of {num}", dim)
    return [-1 if dim < 0 else dim // num] * num


def _fill_sections(dim: int, sections: list[int]) -> list[int]:
    if sections.count(-1) > 1 or any(s < -1 for s in sections):
        raise ShapeError("sections are sizes, one of them may be -1 (the rest)", "at most one -1", list(sections))
    given = sum(s for s in sections if s >= 0)
    if dim < 0:
        return list(sections)
    if given > dim or (given < dim and -1 not in sections):
        raise ShapeError("the sections add up to the dimension", dim, f"{list(sections)}, {given} in all")
    return [dim - given if s < 0 else s for s in sections]


def _infer_split(x: Spec, axis: int, num: int, sections: list[int]) -> list[Spec]:
    axis = normalize_axis(axis, len(x.shape))
    return [x.with_shape(_replaced(x.shape, axis, s)) for s in _part_sizes(x.shape[axis], num, sections)]


def _parts(x: Any, axis: int, num: int, sections: list[int]) -> list[Any]:
    axis = normalize_axis(axis, x.ndim)
    return _cut(x, _part_sizes(x.shape[axis], num, sections), axis)


@op(
    "split",
    "X -> Out*",
    attrs={"axis": 0, "num": 0, "sections": []},
    infer=_infer_split,
    grad=lambda gs, outs, x, axis, num, sections: CONCAT(gs, axis=axis),
    saved="",
    shape_only="X",
)
def SPLIT(xp: Any, x: Any, axis: int, num: int, sections: list[int]) -> list[Any]:
    return [xp.array(part, order="C") for part in _parts(x, axis, num, sections)]


@tensor_method("split")
def split(x: Any, num_or_sections: Any, axis: int = 0, name: str | None = None) -> list[Any]:
    """`x` cut along `axis` into a list of parts.

    Args:
        num_or_sections: how many equal parts, or their sizes (one may be -1: the rest).

    Raises:
        InvalidArgument: the dimension is no multiple of the number, or the sizes do not add up to it.

    Example:
        >>> [part.shape for part in wb.split(wb.zeros([5, 2]), [2, 3])]
        [[2, 2], [3, 2]]
    """
    axis = one_int("split's axis", axis)
    if isinstance(num_or_sections, list | tuple):
        return SPLIT(x, axis=axis, sections=int_list("split's sections", num_or_sections), name=name)
    return SPLIT(x, axis=axis, num=one_int("split's num_or_sections", num_or_sections), name=name)


@tensor_method("chunk")
def chunk(x: Any, chunks: int, axis: int = 0, name: str | None = None) -> list[Any]:
    """`x` cut along `axis` into `chunks` equal parts.

    Raises:
        InvalidArgument: the dimension is no multiple of `chunks`.

    Example:
        >>> [part.shape for part in wb.chunk(wb.zeros([4, 2]), 2)]
        [[2, 2], [2, 2]]
    """
    return split(x, one_int("chunks", chunks), axis, name)


# stack, unstack


def _infer_stack(xs: list[Spec], axis: int) -> Spec:
    require_same_dtype("stack", *xs)
    if not xs:
        raise ShapeError("stack takes a list of tensors", "at least one", "none")
    dims = list(xs[0].shape)
    for x in xs[1:]:
        if len(x.shape) != len(dims) or not all(map(same_dim, dims, x.shape)):
            raise ShapeError("stacked tensors have one shape", xs[0], x)
        dims = list(map(merge_dim, dims, x.shape))
    dims.insert(normalize_axis(axis, len(dims) + 1), len(xs))
    return xs[0].with_shape(dims)


def _take_apart(g: Any, out: Any, xs: list[Any], axis: int) -> Any:
    return (UNSTACK(g, axis=axis, num=len(xs)),)


@op(
    "stack",
    "X* -> Y",
    attrs={"axis": 0},
    infer=_infer_stack,
    grad=_take_apart,
    saved="",
    shape_only="X",
)
def STACK(xp: Any, xs: list[Any], axis: int) -> Any:
    return xp.stack(xs, axis=axis)


@tensor_method("stack")
def stack(x: Any, axis: int = 0, name: str | None = None) -> Any:
    """The tensors of the list `x`, all of one shape, along a new dimension `axis`.

    Raises:
        InvalidArgument: the shapes differ; InvalidType: the dtypes differ.

    Example:
        >>> print(wb.stack([wb.to_tensor([1, 2]), wb.to_tensor([3, 4])], axis=1).numpy())
        [[1 3]
         [2 4]]
    """
    return STACK(list(x), axis=one_int("stack's axis", axis), name=name)


def _infer_unstack(x: Spec, axis: int, num: int) -> list[Spec]:
    axis = normalize_axis(axis, len(x.shape))
    if not same_dim(x.shape[axis], num):
        raise ShapeError(f"unstack makes one tensor of each entry along axis {axis}", x.shape[axis], num)
    return [x.with_shape(x.shape[:axis] + x.shape[axis + 1 :])] * num


def _entries(x: Any, axis: int, num: int) -> list[Any]:
    axis = normalize_axis(axis, x.ndim)
    if x.shape[axis] != num:
        raise ShapeError(f"unstack makes one tensor of each entry along axis {axis}", x.shape[axis], num)
    return [x[_at(axis, i)] for i in range(num)]


@op(
    "unstack",
    "X -> Y*",
    attrs={"axis": 0, "num": 0},
    infer=_infer_unstack,
    grad=lambda gs, outs, x, axis, num: STACK(gs, axis=axis),
    saved="",
    shape_only="X",
)
def UNSTACK(xp: Any, x: Any, axis: int, num: int) -> list[Any]:
    return [xp.array(entry, order="C") for entry in _entries(x, axis, num)]


@tensor_method("unstack")
def unstack(x: Any, axis: int = 0, num: int | None = None) -> list[Any]:
    """The entries of `x` along `axis`, a list of tensors without that dimension.

    Args:
        num: how many; needed where the dimension is known only when the program runs.

    Raises:
        InvalidArgument: `num` is not the dimension, or the dimension is unknown and `num` is not given.

    Example:
        >>> [part.shape for part in wb.unstack(wb.zeros([2, 3]), axis=1)]
        [[2], [2], [2]]
    """
    axis = one_int("unstack's axis", axis)
    dim = x.shape[normalize_axis(axis, len(x.shape))]
    if num is None and dim < 0:
        raise ShapeError(f"unstack along axis {axis} needs num=", "a dimension known while building", "?")
    return UNSTACK(x, axis=axis, num=dim if num is None else one_int("unstack's num", num))


@tensor_method("unbind")
def unbind(input: Any, axis: int = 0) -> list[Any]:
    """The entries of `input` along `axis`, a list of tensors without that dimension.

    Raises:
        InvalidArgument: the dimension is known only when the program runs (see `unstack`).

    Example:
        >>> [part.shape for part in wb.unbind(wb.zeros([2, 3]))]
        [[3], [3]]
    """
    return unstack(input, axis)
