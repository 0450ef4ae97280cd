"""Transformer encoders and decoders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from workbench.builders.param_attr import spread_attr
from workbench.errors import InvalidArgument, did_you_mean
from workbench.framework.values.memory import MemoryFor
from workbench.layers.attention.heads import MultiHeadAttention, StaticCache
from workbench.layers.containers import LayerList
from workbench.layers.layer import Layer
from workbench.layers.thin.shapes import Dropout
from workbench.layers.weighted.linear import Linear
from workbench.layers.weighted.norms import LayerNorm
from workbench.ops.nn import activation, piecewise
from workbench.ops.tensor.assign import assign


def activation_function(name: str) -> Callable[[Any], Any]:
    """The activation of a name.

    Raises:
        InvalidArgument: there is none; the message names the closest one.
    """
    offered = {module: module.OFFERED["workbench.nn.functional"] for module in (activation, piecewise)}
    homes = {own: module for module, line in offered.items() for own in line.split()}
    if name not in homes:
        raise InvalidArgument(f"there is no activation {name!r}.{did_you_mean(name, homes)}")
    return getattr(homes[name], name)


def per_part(attr: Any, count: int, what: str) -> list[Any]:
    """An attribute for every part of a layer: one for all, or one each."""
    return spread_attr(list(attr) if isinstance(attr, tuple) else attr, count, what)


class TransformerEncoderLayer(Layer):
    """Attention of a sequence to itself, then two linear maps, each added to its input and normalised.

    Args:
        d_model: features of the input and of the output.
        nhead: heads of the attention.
        dim_feedforward: features between the two linear maps.
        dropout: probability of dropping what is added to an input, in training.
        activation: between the linear maps, a name such as "relu" or "gelu".
        attn_dropout, act_dropout: of the attention's weights, and behind the activation; `dropout` if None.
        normalize_before: normalise what goes into each part instead of what comes out.
        weight_attr, bias_attr: of all linear maps, or a list: of those of the attention, of the others.

    Example:
        >>> layer = wb.nn.TransformerEncoderLayer(8, 2, 16)
        >>> list(layer(wb.rand([2, 5, 8])).shape)
        [2, 5, 8]
    """

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int, dropout: float = 0.1, activation: str = "relu",
        attn_dropout: float | None = None, act_dropout: float | None = None, normalize_before: bool = False,
        weight_attr: Any = None, bias_attr: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._config = {
            "d_model": d_model, "nhead": nhead, "dim_feedforward": dim_feedforward, "dropout": dropout,
            "activation": activation, "attn_dropout": attn_dropout, "act_dropout": act_dropout,
            "normalize_before": normalize_before, "weight_attr": weight_attr, "bias_attr": bias_attr,
        }  # fmt: skip
        weights, biases = per_part(weight_attr, 2, "weight_attr"), per_part(bias_attr, 2, "bias_attr")
        self.normalize_before, self.activation = normalize_before, activation_function(activation)
        attention_dropout = dropout if attn_dropout is None else attn_dropout
        self.self_attn = MultiHeadAttention(
            d_model, nhead, attention_dropout, weight_attr=weights[0], bias_attr=biases[0]
        )
        self.linear1 = Linear(d_model, dim_feedforward, weights[1], biases[1])
        self.dropout = Dropout(dropout if act_dropout is None else act_dropout)
        self.linear2 = Linear(dim_feedforward, d_model, weights[1], biases[1])
        self.norm1, self.norm2 = LayerNorm(d_model), LayerNorm(d_model)
        self.dropout1, self.dropout2 = Dropout(dropout), Dropout(dropout)

    def forward(self, src: Any, src_mask: Any = None, cache: Any = None) -> Any:
        """`[batch, length, d_model]` to the same; with a cache of `gen_cache` a pair with the new one."""
        grown: list[Any] = []

        def attend(x: Any) -> Any:
            if cache is None:
                return self.self_attn(x, x, x, src_mask)
            attended, new = self.self_attn(x, x, x, src_mask, cache)
            grown.append(new)
            return attended

        src = added(src, attend, self.norm1, self.dropout1, self.normalize_before)
        src = added(src, self._feed_forward, self.norm2, self.dropout2, self.normalize_before)
        return src if cache is None else (src, grown[0])

    def _feed_forward(self, x: Any) -> Any:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def gen_cache(self, src: Any) -> Any:
        """An empty cache for the batch of `src`."""
        return self.self_attn.gen_cache(src, type=MultiHeadAttention.Cache)


def added(x: Any, part: Callable[[Any], Any], norm: Any, drop: Any, before: bool) -> Any:
    """`x` plus what a part makes of it, normalised before or afterwards."""
    out = x + drop(part(norm(x) if before else x))
    return out if before else norm(out)


class TransformerDecoderLayer(Layer):
    """Attention of a sequence to itself, attention to an encoder's output, then two linear maps.

    Each is added to its input and normalised.

    Args: as of `TransformerEncoderLayer`; lists of attributes have three: of the attention to itself, of that to the
        encoder's output, of the other linear maps.

    Example:
        >>> layer = wb.nn.TransformerDecoderLayer(8, 2, 16)
        >>> list(layer(wb.rand([2, 5, 8]), wb.rand([2, 7, 8])).shape)
        [2, 5, 8]
    """

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int, dropout: float = 0.1, activation: str = "relu",
        attn_dropout: float | None = None, act_dropout: float | None = None, normalize_before: bool = False,
        weight_attr: Any = None, bias_attr: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self._config = {
            "d_model": d_model, "nhead": nhead, "dim_feedforward": dim_feedforward, "dropout": dropout,
            "activation": activation, "attn_dropout": attn_dropout, "act_dropout": act_dropout,
            "normalize_before": normalize_before, "weight_attr": weight_attr, "bias_attr": bias_attr,
        }  # fmt: skip
        weights, biases = per_part(weight_attr, 3, "weight_attr"), per_part(bias_attr, 3, "bias_attr")
        self.normalize_before, self.activation = normalize_before, activation_function(activation)
        attention_dropout = dropout if attn_dropout is None else attn_dropout
        self.self_attn = MultiHeadAttention(
            d_model, nhead, attention_dropout, weight_attr=weights[0], bias_attr=biases[0]
        )
        self.cross_attn = MultiHeadAttention(
            d_model, nhead, attention_dropout, weight_attr=weights[1], bias_attr=biases[1]
        )
        self.linear1 = Linear(d_model, dim_feedforward, weights[2], biases[2])
        self.dropout = Dropout(dropout if act_dropout is None else act_dropout)
        self.linear2 = Linear(dim_feedforward, d_model, weights[2], biases[2])
        self.norm1, self.norm2, self.norm3 = LayerNorm(d_model), LayerNorm(d_model), LayerNorm(d_model)
        self.dropout1, self.dropout2, self.dropout3 = Dropout(dropout), Dropout(dropout), Dropout(dropout)

    def forward(self, tgt: Any, memory: Any, tgt_mask: Any = None, memory_mask: Any = None, cache: Any = None) -> Any:
        """`[batch, length, d_model]` to the same; with a cache of `gen_cache` a pair with the new one.

        Args:
            memory: output of the encoder, `[batch, source length, d_model]`.
            tgt_mask, memory_mask: of the two attentions.
        """
        own, of_memory = (None, None) if cache is None else cache
        grown: list[Any] = []

        def attend(attention: Any, key: Any, mask: Any, kept: Any) -> Callable[[Any], Any]:
            def part(x: Any) -> Any:
                if kept is None:
                    return attention(x, x if key is None else key, x if key is None else key, mask)
                attended, new = attention(x, x if key is None else key, x if key is None else key, mask, kept)
                grown.append(new)
                return attended

            return part

        before = self.normalize_before
        tgt = added(tgt, attend(self.self_attn, None, tgt_mask, own), self.norm1, self.dropout1, before)
        tgt = added(tgt, attend(self.cross_attn, memory, memory_mask, of_memory), self.norm2, self.dropout2, before)
        tgt = added(tgt, self._feed_forward, self.norm3, self.dropout3, before)
        return tgt if cache is None else (tgt, tuple(grown))

    def _feed_forward(self, x: Any) -> Any:
        return self.linear2(self.dropout(self.activation(self.linear1(x))))

    def gen_cache(self, memory: Any) -> tuple[Any, Any]:
        """An empty cache of the attention to itself, and that of the attention to `memory`."""
        return (
            self.self_attn.gen_cache(memory, type=MultiHeadAttention.Cache),
            self.cross_attn.gen_cache(memory, memory, type=StaticCache),
        )


def copies(layer: Any, count: int) -> LayerList:
    """`layer`, and new layers made as it was."""
    return LayerList([layer, *(type(layer)(**layer._config) for _ in range(count - 1))])


class TransformerEncoder(Layer):
    """Encoder layers on top of each other.

    Args:
        encoder_layer: the first; the others are made as it was.
        num_layers: how many.
        norm: a layer for the output, or None.

    Example:
        >>> net = wb.nn.TransformerEncoder(wb.nn.TransformerEncoderLayer(8, 2, 16), 2)
        >>> list(net(wb.rand([2, 5, 8])).shape)
        [2, 5, 8]
    """

    def __init__(self, encoder_layer: Any, num_layers: int, norm: Any = None) -> None:
        super().__init__()
        self.layers = copies(encoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(self, src: Any, src_mask: Any = None, cache: Any = None) -> Any:
        """`[batch, length, d_model]` to the same; with a cache of `gen_cache` a pair with the new one."""
        grown = []
        for number, layer in enumerate(self.layers):
            if cache is None:
                src = layer(src, src_mask)
            else:
                src, new = layer(src, src_mask, cache[number])
                grown.append(new)
        src = src if self.norm is None else self.norm(src)
        return src if cache is None else (src, grown)

    def gen_cache(self, src: Any) -> list[Any]:
        """An empty cache per layer, for the batch of `src`."""
        return [layer.gen_cache(src) for layer in self.layers]


class TransformerDecoder(Layer):
    """Decoder layers on top of each other.

    Args:
        decoder_layer: the first; the others are made as it was.
        num_layers: how many.
        norm: a layer for the output, or None.

    Example:
        >>> net = wb.nn.TransformerDecoder(wb.nn.TransformerDecoderLayer(8, 2, 16), 2)
        >>> list(net(wb.rand([2, 5, 8]), wb.rand([2, 7, 8])).shape)
        [2, 5, 8]
    """

    def __init__(self, decoder_layer: Any, num_layers: int, norm: Any = None) -> None:
        super().__init__()
        self.layers = copies(decoder_layer, num_layers)
        self.num_layers, self.norm = num_layers, norm

    def forward(self, tgt: Any, memory: Any, tgt_mask: Any = None, memory_mask: Any = None, cache: Any = None) -> Any:
        """`[batch, length, d_model]` to the same; with a cache of `gen_cache` a pair with the new one."""
        grown = []
        for number, layer in enumerate(self.layers):
            if cache is None:
                tgt = layer(tgt, memory, tgt_mask, memory_mask)
            else:
                tgt, new = layer(tgt, memory, tgt_mask, memory_mask, cache[number])
                grown.append(new)
        tgt = tgt if self.norm is None else self.norm(tgt)
        return tgt if cache is None else (tgt, grown)

    def gen_cache(self, memory: Any, do_zip: bool = False) -> list[Any]:
        """The caches of every layer; with `do_zip` a tuple of those of each attention instead."""
        caches = [layer.gen_cache(memory) for layer in self.layers]
        return list(zip(*caches, strict=True)) if do_zip else caches


class Transformer(Layer):
    """An encoder and a decoder.

    Args:
        d_model, nhead, dim_feedforward, dropout, activation, attn_dropout, act_dropout, normalize_before: of all
            layers; see `TransformerEncoderLayer`.
        num_encoder_layers, num_decoder_layers: how many.
        weight_attr, bias_attr: of all linear maps; or a list of one, of two (attention, others) or of three (attention
            to itself, to the encoder's output, others).
        custom_encoder, custom_decoder: layers that take their place.

    Source: Vaswani et al., "Attention Is All You Need", 2017.

    Example:
        >>> net = wb.nn.Transformer(8, 2, 1, 1, 16)
        >>> list(net(wb.rand([2, 7, 8]), wb.rand([2, 5, 8])).shape)
        [2, 5, 8]
    """

    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6,
        dim_feedforward: int = 2048, dropout: float = 0.1, activation: str = "relu", attn_dropout: float | None = None,
        act_dropout: float | None = None, normalize_before: bool = False, weight_attr: Any = None,
        bias_attr: Any = None, custom_encoder: Any = None, custom_decoder: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        options = (d_model, nhead, dim_feedforward, dropout, activation, attn_dropout, act_dropout, normalize_before)
        weights, biases = both_sides(weight_attr, "weight_attr"), both_sides(bias_attr, "bias_attr")
        self.d_model, self.nhead = d_model, nhead
        if custom_encoder is None:
            layer = TransformerEncoderLayer(*options, weights[0], biases[0])
            custom_encoder = TransformerEncoder(layer, num_encoder_layers, LayerNorm(d_model))
        self.encoder = custom_encoder
        if custom_decoder is None:
            below = TransformerDecoderLayer(*options, weights[1], biases[1])
            custom_decoder = TransformerDecoder(below, num_decoder_layers, LayerNorm(d_model))
        self.decoder = custom_decoder

    def forward(self, src: Any, tgt: Any, src_mask: Any = None, tgt_mask: Any = None, memory_mask: Any = None) -> Any:
        """What the decoder makes of `tgt` `[batch, length, d_model]` and the encoder's output for `src`."""
        return self.decoder(tgt, self.encoder(src, src_mask), tgt_mask, memory_mask)

    def generate_square_subsequent_mask(self, length: int) -> Any:
        """A mask `[length, length]` that hides later positions: 0 below and on the diagonal, -inf above."""
        with MemoryFor(f"a mask {[length, length]}"):
            mask = np.triu(np.full((length, length), -np.inf, np.float32), 1)
        return assign(mask)


def both_sides(attr: Any, what: str) -> tuple[Any, Any]:
    """The attributes of encoder and decoder layers."""
    if not isinstance(attr, list | tuple):
        return attr, attr
    if not 1 <= len(attr) <= 3:
        raise InvalidArgument(f"{what} of a Transformer is one, or a list of one to three, got {len(attr)}")
    first, last = attr[0], attr[-1]
    return [first, last], list(attr) if len(attr) == 3 else [first, first, last]
