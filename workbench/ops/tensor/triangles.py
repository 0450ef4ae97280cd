"""Triangles of matrices, with zeros in place of the rest."""

from __future__ import annotations

from typing import Any

from workbench.errors import ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.infix import tensor_method
from workbench.framework.values.spec import Spec
from workbench.ops.arguments import one_int
from workbench.ops.pointwise import Tensor

OFFERED = {"workbench": "tril triu"}


def _infer_triangle(x: Spec, diagonal: int, lower: bool) -> Spec:
    if len(x.shape) < 2:
        raise ShapeError("a triangle is cut out of matrices", "at least 2 dimensions", x)
    return x


def _triangle_grad(g: Any, out: Any, x: Any, diagonal: int, lower: bool) -> Any:
    return TRIL_TRIU(g, diagonal=diagonal, lower=lower)


@op(
    "tril_triu",
    "X -> Out",
    shaped_like={"X": "Out"},
    attrs={"diagonal": 0, "lower": True},
    infer=_infer_triangle,
    grad=_triangle_grad,
    saved="",
    shape_only="X",
)
def TRIL_TRIU(xp: Any, x: Any, diagonal: int, lower: bool) -> Any:
    """The lower (or upper) triangle of every matrix, zeros elsewhere."""
    return xp.tril(x, diagonal) if lower else xp.triu(x, diagonal)


@tensor_method("tril")
def tril(x: Tensor, diagonal: int = 0, name: str | None = None) -> Tensor:
    """The lower triangle of the last two dims, zeros above it.

    Args:
        x: tensor `[..., n, m]`.
        diagonal: the last diagonal kept: 0 the main one, positive above it, negative below it.

    Raises:
        InvalidArgument: fewer than two dims.

    Example:
        >>> print(wb.tril(wb.ones([2, 2])).numpy())
        [[1. 0.]
         [1. 1.]]
    """
    return TRIL_TRIU(x, diagonal=one_int("diagonal", diagonal), lower=True, name=name)


@tensor_method("triu")
def triu(x: Tensor, diagonal: int = 0, name: str | None = None) -> Tensor:
    """The upper triangle of the last two dims, zeros below it. Args and Raises: as for `tril`.

    Example:
        >>> print(wb.triu(wb.ones([2, 2])).numpy())
        [[1. 1.]
         [0. 1.]]
    """
    return TRIL_TRIU(x, diagonal=one_int("diagonal", diagonal), lower=False, name=name)
