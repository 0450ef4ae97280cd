"""Rows replaced, or emptied and added to."""

from __future__ import annotations

from typing import Any

from workbench.errors import ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.infix import tensor_method
from workbench.framework.values.spec import Spec, require_same_dtype, shape_text
from workbench.ops.index.gather import GATHER
from workbench.ops.index.picking import add_slices, as_column, require_dims, require_index, sum_of, zeros_of
from workbench.ops.index_range import require_in_range
from workbench.ops.precision import rounded

OFFERED = {"workbench": "scatter"}


def _infer_scatter(x: Spec, ids: Spec, updates: Spec, overwrite: bool) -> Spec:
    require_index("scatter", ids)
    require_same_dtype("scatter", x, updates)
    if len(ids.shape) != 1:
        raise ShapeError("scatter takes a 1-D index", "shape [N]", shape_text(ids.shape))
    require_dims("scatter takes one row per index", ids.shape + x.shape[1:], updates.shape)
    return x


def _scatter_rule(g: Any, out: Any, x: Any, ids: Any, updates: Any, overwrite: bool) -> Any:
    def of_x() -> Any:
        return SCATTER(g, ids, zeros_of(updates), overwrite=True)

    return of_x, None, lambda: GATHER(g, ids, axis=0)


@op(
    "scatter",
    "X, Ids, Updates -> Out",
    shaped_like={"X": "Out"},
    attrs={"overwrite": True},
    infer=_infer_scatter,
    grad=_scatter_rule,
    saved="Ids",
    shape_only="X, Updates",
    no_grad="Ids",
)
def SCATTER(xp: Any, x: Any, ids: Any, updates: Any, overwrite: bool) -> Any:
    """Rows of X replaced by those of Updates; where an index repeats, the last one stays."""
    require_in_range(xp, "scatter: index", ids, x.shape[0])
    if overwrite:
        out = xp.array(x, order="C")
        out[ids] = updates
        return out
    total = sum_of(xp, x)
    total[ids] = 0
    add_slices(xp, total, ids, updates.astype(total.dtype), 0)
    return rounded(total, x)


@tensor_method("scatter")
def scatter(x: Any, index: Any, updates: Any, overwrite: bool = True, name: str | None = None) -> Any:
    """`x` with the rows that `index` names replaced by `updates`.

    Args:
        index: int32 or int64, shape [N] or [N, 1], values in [0, x.shape[0]).
        updates: shape [N, ...].
        overwrite: True: the last update of a row stays (as in Paddle, the gradient of `updates` gives every
            one of them the row's gradient). False: named rows are set to zero, then updates are added up.

    Raises:
        InvalidArgument: shapes that do not fit; when run, an index out of range.

    Example:
        >>> print(wb.scatter(wb.zeros([3]), wb.to_tensor([2, 0]), wb.to_tensor([5.0, 6.0])).numpy())
        [6. 0. 5.]
    """
    return SCATTER(x, as_column(index), updates, overwrite=overwrite, name=name)
