"""Attention."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.errors import ShapeError
from workbench.framework.values.dtype import bool_
from workbench.framework.values.spec import shape_text
from workbench.ops.loss.softmax import softmax
from workbench.ops.math.compare import where
from workbench.ops.math.products.matmul import matmul
from workbench.ops.random.dropout import dropout
from workbench.ops.tensor.assign import constant_of
from workbench.ops.tensor.shape import length_of
from workbench.ops.tensor.transpose import transpose

OFFERED = {"workbench.nn.functional": "scaled_dot_product_attention"}

MASKED = -1e9  # what a position that must not be looked at is worth before the softmax


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    training: bool = True,
    name: str | None = None,
) -> Any:
    """softmax(q k' / sqrt(d) + mask) v for every head.

    Args:
        query, key, value: `[batch, length, heads, d]`, floating.
        attn_mask: added to the scores, or bool: False hides a position; broadcasts against `[batch, heads, q, k]`.
        dropout_p: probability of dropping a weight in training.
        is_causal: no position looks at later ones.

    Returns:
        `[batch, length, heads, d]`.

    Raises:
        InvalidArgument: shapes that do not fit.

    Source: Vaswani et al., "Attention Is All You Need", 2017.

    Example:
        >>> q = wb.rand([2, 5, 4, 8])
        >>> list(F.scaled_dot_product_attention(q, q, q).shape)
        [2, 5, 4, 8]
    """
    if len(query.shape) != 4:
        raise ShapeError("attention takes heads", "[batch, length, heads, d]", shape_text(query.shape))
    q, k, v = (transpose(t, [0, 2, 1, 3]) for t in (query, key, value))
    size = length_of(query, -1)
    factor = 1.0 / math.sqrt(size) if isinstance(size, int) else size**-0.5
    scores = matmul(q * factor, k, transpose_y=True)
    if is_causal:
        scores = scores + _causal(scores)
    if attn_mask is not None:
        scores = where(attn_mask, scores, MASKED) if attn_mask.dtype is bool_ else scores + attn_mask
    weights = softmax(scores)
    if dropout_p:
        weights = dropout(weights, dropout_p, training=training)
    return transpose(matmul(weights, v), [0, 2, 1, 3], name=name)


def _causal(scores: Any) -> Any:
    rows, columns = scores.shape[-2:]
    if rows < 0 or columns < 0:
        raise ShapeError("causal attention takes lengths known when it is built", "known", shape_text(scores.shape))
    return constant_of(np.triu(np.full((rows, columns), MASKED), 1), scores.dtype)
