"""Attention with several heads."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from workbench.errors import InvalidArgument
from workbench.framework.values.dtype import bool_
from workbench.layers.layer import Layer
from workbench.layers.weighted.linear import Linear
from workbench.ops.loss.softmax import softmax
from workbench.ops.math.products.matmul import matmul
from workbench.ops.random.dropout import dropout
from workbench.ops.tensor.creation import full_like
from workbench.ops.tensor.join import concat
from workbench.ops.tensor.shape import reshape
from workbench.ops.tensor.transpose import transpose

HIDDEN = 1e9  # what is taken from the score of a position that must not be looked at


class GrowingCache(NamedTuple):
    """Keys and values of the positions so far, `[batch, heads, length, head_dim]`; each call adds its own."""

    k: Any
    v: Any


class StaticCache(NamedTuple):
    """Keys and values that stay, those of an encoder's output, `[batch, heads, length, head_dim]`."""

    k: Any
    v: Any


class MultiHeadAttention(Layer):
    """softmax(q k' / sqrt(head_dim) + mask) v for several projections of queries, keys and values at once.

    Args:
        embed_dim: features of queries and of the output, a multiple of `num_heads`.
        num_heads: how many projections.
        dropout: probability of dropping a weight in training.
        kdim, vdim: features of keys and of values; `embed_dim` if None.
        need_weights: return the weights, too.
        weight_attr, bias_attr: of the four linear maps `q_proj`, `k_proj`, `v_proj`, `out_proj`.

    Raises:
        InvalidArgument: sizes that do not fit.

    Source: Vaswani et al., "Attention Is All You Need", 2017.

    Example:
        >>> layer = wb.nn.MultiHeadAttention(8, 2)
        >>> list(layer(wb.rand([2, 5, 8])).shape)
        [2, 5, 8]
    """

    Cache = GrowingCache
    StaticCache = StaticCache

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, kdim: int | None = None, vdim: int | None = None,
        need_weights: bool = False, weight_attr: Any = None, bias_attr: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if embed_dim < 1 or num_heads < 1 or embed_dim % num_heads:
            raise InvalidArgument(
                "MultiHeadAttention divides embed_dim among its heads\n"
                f"  expected: embed_dim above 0, a multiple of num_heads\n  got:      {embed_dim} and {num_heads}"
            )
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.dropout, self.need_weights = dropout, need_weights
        self.q_proj = Linear(embed_dim, embed_dim, weight_attr, bias_attr)
        self.k_proj = Linear(self.kdim, embed_dim, weight_attr, bias_attr)
        self.v_proj = Linear(self.vdim, embed_dim, weight_attr, bias_attr)
        self.out_proj = Linear(embed_dim, embed_dim, weight_attr, bias_attr)

    def _in_heads(self, x: Any) -> Any:
        """`[batch, length, embed_dim]` as `[batch, heads, length, head_dim]`."""
        return transpose(reshape(x, [0, 0, self.num_heads, self.head_dim]), [0, 2, 1, 3])

    def compute_kv(self, key: Any, value: Any) -> tuple[Any, Any]:
        """Projections of keys and values, `[batch, heads, length, head_dim]`."""
        return self._in_heads(self.k_proj(key)), self._in_heads(self.v_proj(value))

    def gen_cache(self, key: Any, value: Any = None, type: Any = GrowingCache) -> Any:
        """A cache for `forward`.

        Args:
            key, value: for a `StaticCache` what it is computed from; for a `Cache` its two tensors. A `Cache` of a key
                alone is empty, for the batch of the key.
            type: `MultiHeadAttention.Cache`, which grows, or `MultiHeadAttention.StaticCache`.
        """
        if type is StaticCache:
            return StaticCache(*self.compute_kv(key, key if value is None else value))
        if value is not None:
            return GrowingCache(key, value)
        none = full_like(self._in_heads(self.k_proj(key))[:, :, :0, :], 0.0)
        return GrowingCache(none, none)

    def forward(self, query: Any, key: Any = None, value: Any = None, attn_mask: Any = None, cache: Any = None) -> Any:
        """What every query finds.

        Args:
            query: `[batch, q, embed_dim]`.
            key, value: `[batch, k, kdim]` and `[batch, k, vdim]`; the query if None.
            attn_mask: added to the scores, or bool or integer: False or 0 hides a position; broadcasts against
                `[batch, heads, q, k]`.
            cache: of `gen_cache`.

        Returns:
            `[batch, q, embed_dim]`; with `need_weights` a tuple with the weights `[batch, heads, q, k]`, with a cache a
            tuple with the new cache at its end.
        """
        key = query if key is None else key
        q = self._in_heads(self.q_proj(query))
        k, v = cache if isinstance(cache, StaticCache) else self.compute_kv(key, query if value is None else value)
        if isinstance(cache, GrowingCache):
            k, v = concat([cache.k, k], axis=2), concat([cache.v, v], axis=2)
            cache = GrowingCache(k, v)
        scores = matmul(q * (1.0 / math.sqrt(self.head_dim)), k, transpose_y=True)
        if attn_mask is not None:
            scores = scores + additive_mask(attn_mask, scores.dtype)
        weights = softmax(scores)
        if self.dropout:
            weights = dropout(weights, self.dropout, training=self.training)
        attended = transpose(matmul(weights, v), [0, 2, 1, 3])
        outputs = [self.out_proj(reshape(attended, [0, 0, self.embed_dim]))]
        outputs += [weights] if self.need_weights else []
        outputs += [cache] if cache is not None else []
        return outputs[0] if len(outputs) == 1 else tuple(outputs)


def additive_mask(mask: Any, dtype: Any) -> Any:
    """A mask of yes and no as numbers that are added to scores; a floating one as it is."""
    if mask.dtype is bool_ or mask.dtype.is_integer:
        return (mask.astype(dtype) - 1.0) * HIDDEN
    return mask.astype(dtype)
