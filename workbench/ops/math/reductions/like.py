"""To the shape of another tensor: each other's gradients, for use in gradient rules."""

from __future__ import annotations

import builtins  # this module's own `sum`, `any` and `all` are Paddle's
from typing import Any

from workbench.errors import ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.evaluate import reduce_to
from workbench.framework.values.spec import Spec, broadcast_shapes, same_dim
from workbench.ops.precision import rounded, wide


def _infer_reduce_to_like(x: Spec, like: Spec) -> Spec:
    whole = broadcast_shapes(x.shape, like.shape)
    if len(whole) != len(x.shape) or not builtins.all(map(same_dim, whole, x.shape)):
        raise ShapeError("a tensor is reduced to a shape that broadcasts to its own", x, like)
    return x.with_shape(like.shape)


def _reduce_to_like_grad(g: Any, out: Any, x: Any, like: Any) -> Any:
    return BROADCAST_TO_LIKE(g, x)


@op(
    "reduce_to_like",
    "X, Like -> Out",
    infer=_infer_reduce_to_like,
    grad=_reduce_to_like_grad,
    saved="",
    shape_only="X, Like",
    no_grad="Like",
)
def REDUCE_TO_LIKE(xp: Any, x: Any, like: Any) -> Any:
    """X summed over the dimensions along which Like would be broadcast to the shape of X."""
    return rounded(reduce_to(xp, wide(x), like.shape), x)


def _infer_broadcast_to_like(x: Spec, like: Spec) -> Spec:
    whole = broadcast_shapes(x.shape, like.shape)
    if len(whole) != len(like.shape) or not builtins.all(map(same_dim, whole, like.shape)):
        raise ShapeError("a tensor is broadcast to a shape its own broadcasts to", like, x)
    return x.with_shape(like.shape)


@op(
    "broadcast_to_like",
    "X, Like -> Out",
    infer=_infer_broadcast_to_like,
    grad=lambda g, out, x, like: REDUCE_TO_LIKE(g, x),
    saved="",
    shape_only="X, Like",
    no_grad="Like",
)
def BROADCAST_TO_LIKE(xp: Any, x: Any, like: Any) -> Any:
    """X repeated along the dimensions that it lacks or has with size 1, to the shape of Like."""
    return xp.broadcast_to(x, like.shape).copy()
