"""The same elements with their dimensions in another order: views, and so are their gradients."""

from __future__ import annotations

from typing import Any

from workbench.errors import ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.infix import Infix, tensor_method
from workbench.framework.values.views import Transposed
from workbench.ops.arguments import distinct_axes, int_list

OFFERED = {"workbench": "moveaxis t transpose"}


def _order(axis: list[int], rank: int) -> list[int]:
    if len(axis) != rank:
        raise ShapeError("a transpose names every dimension once", f"{rank} axes", list(axis))
    return distinct_axes(axis, rank, "perm")


def _inverse(axis: list[int]) -> list[int]:
    rank = len(axis)
    order = [a % rank for a in axis]
    return [order.index(i) for i in range(rank)]


def _transpose_back(g: Any, out: Any, x: Any, axis: list[int]) -> Any:
    return TRANSPOSE(g, axis=_inverse(axis))


@op(
    "transpose2",
    "X -> Out",
    attrs={"axis": []},
    infer=lambda x, axis: x.with_shape(x.shape[a] for a in _order(axis, len(x.shape))),
    grad=_transpose_back,
    saved="",
    shape_only="X",
    aliases={"Out": "X"},
    view=Transposed(lambda axis: axis),
    grad_view=Transposed(_inverse),
    layer="transpose",
)
def TRANSPOSE(xp: Any, x: Any, axis: list[int]) -> Any:
    return x.transpose(axis)


@tensor_method("transpose")
def transpose(x: Any, perm: Any, name: str | None = None) -> Any:
    """`x` with its dimensions in the order `perm`: dimension i of the result is `perm[i]` of `x`.

    Raises:
        InvalidArgument: `perm` is no permutation of the axes.

    Example:
        >>> wb.transpose(wb.zeros([2, 3, 4]), [2, 0, 1]).shape
        [4, 2, 3]
    """
    return TRANSPOSE(x, axis=int_list("transpose's perm", perm), name=name)


@tensor_method("t")
def t(input: Any, name: str | None = None) -> Any:
    """The transpose of a matrix; a vector or scalar stays as it is.

    Raises:
        InvalidArgument: more than two dimensions.

    Example:
        >>> wb.t(wb.zeros([2, 3])).shape
        [3, 2]
    """
    rank = len(input.shape)
    if rank > 2:
        raise ShapeError("t() takes a tensor of at most 2 dimensions; use transpose(x, perm)", "rank <= 2", rank)
    return TRANSPOSE(input, axis=list(range(rank))[::-1], name=name)


@tensor_method("moveaxis")
def moveaxis(x: Any, source: Any, destination: Any, name: str | None = None) -> Any:
    """`x` with the dimensions `source` moved to the places `destination`, the others in their order.

    Raises:
        InvalidArgument: axes out of range, repeated, or not as many on both sides.

    Example:
        >>> wb.moveaxis(wb.zeros([2, 3, 4]), 0, -1).shape
        [3, 4, 2]
    """
    rank = len(x.shape)
    froms = distinct_axes(int_list("source", source), rank, "source")
    tos = distinct_axes(int_list("destination", destination), rank, "destination")
    if len(froms) != len(tos):
        raise ShapeError("moveaxis takes as many destinations as sources", f"{len(froms)} destinations", tos)
    order = [a for a in range(rank) if a not in froms]
    for to, source_axis in sorted(zip(tos, froms, strict=True)):
        order.insert(to, source_axis)
    return TRANSPOSE(x, axis=order, name=name)


def _reversed(x: Any) -> Any:
    """The tensor with its dimensions in reverse order."""
    return TRANSPOSE(x, axis=list(range(len(x.shape)))[::-1])


setattr(Infix, "T", property(_reversed))  # noqa: B010  (mypy: the mixin does not declare it)
