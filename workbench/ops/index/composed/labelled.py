"""Ops of Paddle 1.x whose integers have a last dimension of 1, and `top_k`: bodies of their successors, other names."""

from __future__ import annotations

from typing import Any

from workbench.errors import ShapeError
from workbench.framework.op.declare import op
from workbench.framework.op.record import Cost
from workbench.framework.values.spec import Spec, shape_text
from workbench.ops.index.embedding import LOOKUP_TABLE, NO_PADDING, ONE_HOT, scatter_rows
from workbench.ops.index.order.sort import TOP_K, put_back_row, sorted_row
from workbench.ops.tensor.shape import squeeze

_BEST = {"axis": -1, "largest": True, "sorted": True}


def _without_last(ids: Spec) -> Spec:
    if not ids.shape or ids.shape[-1] not in (1, -1):
        raise ShapeError("integers of this op have a last dimension of 1", "[..., 1]", shape_text(ids.shape))
    return ids.with_shape(ids.shape[:-1])


def _infer_lookup(table: Spec, ids: Spec, **attrs: Any) -> Spec:
    spec: Spec = LOOKUP_TABLE.infer(table, _without_last(ids), **attrs)
    return spec


def _lookup_rule(g: Any, out: Any, table: Any, ids: Any, padding_idx: int, is_sparse: bool) -> Any:
    return scatter_rows(squeeze(ids, -1), g, table, padding_idx=padding_idx)


def _lookup_back(xp: Any, table: Any, ids: Any, g: Any, wanted: Any, **attrs: Any) -> Any:
    assert LOOKUP_TABLE.grad_forward is not None
    return LOOKUP_TABLE.grad_forward(xp, table, ids[..., 0], g, wanted, **attrs)


def _lookup_cost(table: Spec, ids: Spec, **attrs: Any) -> Cost:
    assert LOOKUP_TABLE.cost is not None
    return LOOKUP_TABLE.cost(table, ids, **attrs)


@op(
    "lookup_table",
    "W, Ids -> Out",
    attrs={"padding_idx": NO_PADDING, "is_sparse": False},
    infer=_infer_lookup,
    grad=_lookup_rule,
    grad_forward=_lookup_back,
    grad_infer=LOOKUP_TABLE.grad_infer,
    kernel=LOOKUP_TABLE.kernel,
    saved="Ids",
    shape_only="W",
    no_grad="Ids",
    cost=_lookup_cost,
    layer="embedding",
)
def LABELLED_LOOKUP(xp: Any, table: Any, ids: Any, **attrs: Any) -> Any:
    """`lookup_table_v2` of ids `[..., 1]`: rows of the table, `[..., width]`."""
    return LOOKUP_TABLE.forward(xp, table, ids[..., 0], **attrs)


LOOKUPS = (LOOKUP_TABLE, LABELLED_LOOKUP)  # whatever picks rows of a table


@op(
    "one_hot",
    "X -> Out",
    attrs=ONE_HOT.attrs,
    infer=lambda x, **attrs: ONE_HOT.infer(_without_last(x), **attrs),
    kernel=ONE_HOT.kernel,
)
def LABELLED_ONE_HOT(xp: Any, x: Any, **attrs: Any) -> Any:
    """`one_hot_v2` of classes `[..., 1]`: `[..., depth]`."""
    return ONE_HOT.forward(xp, x[..., 0], **attrs)


def _put_back(gs: Any, outs: Any, x: Any, k: int) -> Any:
    assert TOP_K.grad is not None
    return TOP_K.grad(gs, outs, x, k=k, **_BEST)


def _put_back_arrays(xp: Any, *arrays: Any, k: int, **more: Any) -> Any:
    assert TOP_K.grad_forward is not None
    return TOP_K.grad_forward(xp, *arrays, **more, k=k, **_BEST)


@op(
    "top_k",
    "X -> Out, Indices",
    attrs={"k": 1},
    infer=lambda x, k: TOP_K.infer(x, k=k, **_BEST),
    grad=_put_back,
    grad_forward=_put_back_arrays,
    kernel=lambda x, out, indices, k: sorted_row(x, out, indices, k, -1, descending=True),
    grad_kernel=lambda *arrays, k: put_back_row(*arrays, axis=-1),
    saved="Indices",
    shape_only="X",
)
def LARGEST(xp: Any, x: Any, k: int) -> Any:
    """`top_k_v2` along the last dimension: the k largest entries and their positions."""
    return TOP_K.forward(xp, x, k=k, **_BEST)
