"""Writing into a part of a tensor, as `x[...] = value` does: a new tensor in which some elements are replaced."""

from __future__ import annotations

from typing import Any

from workbench.errors import DtypeError, ShapeError
from workbench.framework.op.declare import op
from workbench.framework.values.spec import Spec, broadcast_shapes, require_same_dtype, same_dim
from workbench.ops.index.gather import GATHER
from workbench.ops.index_range import require_in_range
from workbench.ops.tensor.creation import zeros_like
from workbench.ops.tensor.shape import RESHAPE


def _infer_put(x: Spec, positions: Spec, values: Spec) -> Spec:
    require_same_dtype("put_at", x, values)
    if not positions.dtype.is_integer:
        raise DtypeError("positions are integers", "int32 or int64", positions.dtype)
    together = broadcast_shapes(positions.shape, values.shape)
    if len(together) != len(positions.shape) or not all(map(same_dim, together, positions.shape)):
        raise ShapeError("values are put at as many positions", positions, values)
    return x


def _put_grad(g: Any, out: Any, x: Any, positions: Any, values: Any) -> tuple[Any, ...]:
    def of_values() -> Any:
        return GATHER(RESHAPE(g, shape=[-1]), positions, axis=0)

    return lambda: PUT_AT(g, positions, zeros_like(values)), None, of_values


@op(
    "put_at",
    "X, Positions, Values -> Out",
    infer=_infer_put,
    grad=_put_grad,
    saved="Positions",
    shape_only="X, Values",
    no_grad="Positions",
)
def PUT_AT(xp: Any, x: Any, positions: Any, values: Any) -> Any:
    """X with `values` at `positions`, counted over its elements in row-major order; they broadcast together."""
    require_in_range(xp, "put_at: position", positions, x.size)
    out = x.copy(order="C")
    out.reshape(-1)[positions.reshape(-1)] = xp.broadcast_to(values, positions.shape).reshape(-1)
    return out
