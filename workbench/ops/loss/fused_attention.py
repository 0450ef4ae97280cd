"""Attention as one op: what the pass that fuses puts in the place of two products and the softmax between them.

Forward and backward run the bodies of the ops they stand for on one matrix after the other, so they give the same bits,
and the scores of all matrices are never there at the same time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from workbench.framework.op.declare import op
from workbench.framework.op.record import Cost
from workbench.framework.values.spec import Spec, broadcast_shapes, require_float, require_same_dtype, size_of
from workbench.ops.loss.softmax import SOFTMAX
from workbench.ops.math.arithmetic import ADD, DIV, SCALE
from workbench.ops.math.products.matmul import MATMUL

PLAIN = {"trans_x": False, "trans_y": False}


def _infer(q: Spec, k: Spec, v: Spec, mask: Spec | None, by: float, divides: bool, trans_k: bool) -> Spec:
    given = [spec for spec in (q, k, v, mask) if spec is not None]
    require_float("attention", *given)
    require_same_dtype("attention", *given)
    scores: Spec = MATMUL.infer(q, k, trans_x=False, trans_y=trans_k)
    if mask is not None:
        scores = scores.with_shape(broadcast_shapes(scores.shape, mask.shape))
    result: Spec = MATMUL.infer(scores, v, **PLAIN)
    return result


def _cost(q: Spec, k: Spec, v: Spec, mask: Spec | None, by: float, divides: bool, trans_k: bool) -> Cost:
    scores = size_of(MATMUL.infer(q, k, trans_x=False, trans_y=trans_k).shape)
    moved = sum(size_of(spec.shape) for spec in (q, q, k, v) + ((mask,) if mask is not None else ()))
    return Cost(2 * scores * (q.shape[-1] + v.shape[-1]), moved * q.dtype.itemsize)


def _places(q: Any, k: Any, v: Any, mask: Any, trans_k: bool) -> Iterator[tuple[Any, ...]]:
    """Where the matrices of a batch are; all of it at once where operands are broadcast to more than there are."""
    batch, sizes = q.shape[:-2], (q.shape[-2], k.shape[-2 if trans_k else -1])
    masked = None if mask is None else broadcast_shapes(mask.shape, (*batch, *sizes))
    regular = k.shape[:-2] == batch == v.shape[:-2] and masked in (None, (*batch, *sizes))
    return iter(np.ndindex(*batch)) if regular else iter([()])


def _mask_at(mask: Any, place: Sequence[int]) -> Any:
    """The part of a mask that belongs to a matrix."""
    for index in () if mask is None else place[max(len(place) + 2 - mask.ndim, 0) :]:
        mask = mask[index if mask.shape[0] > 1 else 0]
    return mask


def _scaled(xp: Any, x: Any, by: float, divides: bool) -> Any:
    if divides:
        return DIV.forward(xp, x, xp.asarray(by, x.dtype))
    return SCALE.forward(xp, x, scale=by, bias=0.0, bias_after_scale=True) if by != 1 else x


def _weights(xp: Any, q: Any, k: Any, mask: Any, by: float, divides: bool, trans_k: bool) -> tuple[Any, Any]:
    """Of the values, and the scaled scores they are the softmax of, before masking."""
    scores = _scaled(xp, MATMUL.forward(xp, q, k, trans_x=False, trans_y=trans_k), by, divides)
    return SOFTMAX.forward(xp, scores if mask is None else ADD.forward(xp, scores, mask), axis=-1), scores


def _gradients(
    xp: Any, q: Any, k: Any, v: Any, mask: Any, g: Any, wanted: Sequence[bool], by: float, divides: bool, trans_k: bool
) -> tuple[Any, Any, Any]:
    weights, scores = _weights(xp, q, k, mask, by, divides, trans_k)
    g_weights, g_v = MATMUL.backward.forward(xp, weights, v, g, wanted=(True, wanted[2]), **PLAIN)
    through = SOFTMAX.backward.forward(xp, weights, weights, g_weights, wanted=(True,), axis=-1)
    if mask is not None:
        through, _ = ADD.backward.forward(xp, scores, mask, through, wanted=(True, False))
    through = _scaled(xp, through, by, divides)
    g_q, g_k = MATMUL.backward.forward(xp, q, k, through, wanted=wanted[:2], trans_x=False, trans_y=trans_k)
    return g_q, g_k, g_v


def _back(
    xp: Any, q: Any, k: Any, v: Any, mask: Any, g: Any, wanted: Sequence[bool], by: float, divides: bool, trans_k: bool
) -> tuple[Any, ...]:
    results = [xp.empty(a.shape, a.dtype) if asked else None for a, asked in zip((q, k, v), wanted, strict=True)]
    for place in _places(q, k, v, mask, trans_k):
        parts = (q[place], k[place], v[place], _mask_at(mask, place), g[place])
        for out, gradient in zip(results, _gradients(xp, *parts, wanted, by, divides, trans_k), strict=True):
            if out is not None:
                out[place] = gradient
    return tuple(results)


def _rule(g: Any, out: Any, q: Any, k: Any, v: Any, mask: Any, by: float, divides: bool, trans_k: bool) -> Any:
    factor = 1.0 / by if divides else by
    scores = MATMUL(q, k, trans_y=trans_k) * factor
    weights = SOFTMAX(scores if mask is None else scores + mask, axis=-1)
    assert SOFTMAX.grad is not None

    def through() -> Any:
        return SOFTMAX.grad(MATMUL(g, v, trans_y=True), weights, scores, axis=-1) * factor  # type: ignore[misc]

    def of_k() -> Any:
        return MATMUL(through(), q, trans_x=True) if trans_k else MATMUL(q, through(), trans_x=True)

    return lambda: MATMUL(through(), k, trans_y=not trans_k), of_k, lambda: MATMUL(weights, g, trans_x=True)


@op(
    "fused_dot_product_attention",
    "Q, K, V, Mask? -> Out",
    attrs={"by": 1.0, "divides": False, "trans_k": True},
    traits="product, layout_free",
    infer=_infer,
    grad=_rule,
    grad_forward=_back,
    no_grad="Mask",
    cost=_cost,
)
def FUSED_ATTENTION(
    xp: Any, q: Any, k: Any, v: Any, mask: Any, by: float, divides: bool, trans_k: bool
) -> Any:  # fmt: skip
    """softmax(Q K' * by + Mask) V, or Q K' / by with `divides`; K is not transposed without `trans_k`."""
    scores = MATMUL.infer(*(Spec(a.shape, a.dtype) for a in (q, k)), trans_x=False, trans_y=trans_k).shape
    batch = broadcast_shapes(*(a for a in (scores, None if mask is None else mask.shape) if a is not None))[:-2]
    out = xp.empty((*broadcast_shapes(batch, v.shape[:-2]), q.shape[-2], v.shape[-1]), q.dtype)
    for place in _places(q, k, v, mask, trans_k):
        weights, _ = _weights(xp, q[place], k[place], _mask_at(mask, place), by, divides, trans_k)
        out[place] = MATMUL.forward(xp, weights, v[place], **PLAIN)
    return out
