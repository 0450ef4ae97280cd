"""Attention, head by head."""

import numpy as np

import workbench as wb
from tests.layers.row import Row

rng = np.random.default_rng(8)
Q, MEMORY = rng.standard_normal((2, 3, 8)), rng.standard_normal((2, 5, 8))
LATER = np.triu(np.full((3, 3), -1e9), 1)

nn = wb.nn


def linear(v, name, x):
    return x @ v[f"{name}.weight"] + v[f"{name}.bias"]


def attended(v, name, query, key, value, mask=0.0, heads=2):
    """(output, weights)."""
    q, k, w = linear(v, f"{name}q_proj", query), linear(v, f"{name}k_proj", key), linear(v, f"{name}v_proj", value)
    attended, shares = [], []
    size = q.shape[2] // heads
    for h in range(heads):
        part = slice(h * size, (h + 1) * size)
        scores = np.einsum("bqd,bkd->bqk", q[..., part], k[..., part]) / np.sqrt(size) + mask
        share = np.exp(scores - scores.max(2, keepdims=True))
        share /= share.sum(2, keepdims=True)
        shares.append(share)
        attended.append(np.einsum("bqk,bkd->bqd", share, w[..., part]))
    return linear(v, f"{name}out_proj", np.concatenate(attended, 2)), np.stack(shares, 1)


def normal(v, name, x):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * v[f"{name}.weight"] + v[f"{name}.bias"]


def feed_forward(v, name, x):
    return linear(v, f"{name}linear2", np.maximum(linear(v, f"{name}linear1", x), 0))


def added(v, norm, x, part, before):
    return x + part(normal(v, norm, x)) if before else normal(v, norm, x + part(x))


def encoder_layer(v, x, name="", before=False, mask=0.0):
    x = added(v, f"{name}norm1", x, lambda a: attended(v, f"{name}self_attn.", a, a, a, mask)[0], before)
    return added(v, f"{name}norm2", x, lambda a: feed_forward(v, name, a), before)


def decoder_layer(v, x, memory, name="", before=False, mask=0.0):
    x = added(v, f"{name}norm1", x, lambda a: attended(v, f"{name}self_attn.", a, a, a, mask)[0], before)
    x = added(v, f"{name}norm2", x, lambda a: attended(v, f"{name}cross_attn.", a, memory, memory)[0], before)
    return added(v, f"{name}norm3", x, lambda a: feed_forward(v, name, a), before)


def encoded(v, x, name="", layers=2):
    for i in range(layers):
        x = encoder_layer(v, x, f"{name}layers.{i}.")
    return x


def decoded(v, x, memory, name="", mask=0.0):
    for i in range(2):
        x = decoder_layer(v, x, memory, f"{name}layers.{i}.", mask=mask)
    return x


def transformed(v, source, target):
    memory = normal(v, "encoder.norm", encoded(v, source, "encoder."))
    return normal(v, "decoder.norm", decoded(v, target, memory, "decoder."))


def position_by_position(net, x, memory):
    """The decoder with a cache, one position after the other."""
    cache, outputs = net.gen_cache(memory), []
    for t in range(3):
        y, cache = net(x[:, t : t + 1], memory, None, None, cache)
        outputs.append(y)
    return wb.concat(outputs, axis=1)


SIZES = 8, 2, 16, 0.0
LOOSE = {"rtol": 2e-4, "atol": 1e-5}
ROWS = {
    "MultiHeadAttention": Row(
        lambda: nn.MultiHeadAttention(8, 2, need_weights=True), [Q], lambda v, x: attended(v, "", x, x, x)
    ),
    "MultiHeadAttention/other sizes": Row(
        lambda: nn.MultiHeadAttention(8, 4, kdim=6, vdim=5),
        [Q, MEMORY[..., :6], MEMORY[..., :5]],
        lambda v, q, k, w: attended(v, "", q, k, w, heads=4)[0],
    ),
    "MultiHeadAttention/mask": Row(
        lambda: nn.MultiHeadAttention(8, 2),
        [Q, LATER == 0],
        lambda v, x, mask: attended(v, "", x, x, x, LATER)[0],
        call=lambda layer, x, mask: layer(x, attn_mask=mask),
        known=True,
    ),
    "TransformerEncoderLayer": Row(lambda: nn.TransformerEncoderLayer(*SIZES), [Q], encoder_layer, tolerance=LOOSE),
    "TransformerEncoderLayer/before": Row(
        lambda: nn.TransformerEncoderLayer(*SIZES, normalize_before=True),
        [Q, LATER],
        lambda v, x, mask: encoder_layer(v, x, before=True, mask=mask),
        tolerance=LOOSE,
        known=True,
    ),
    "TransformerDecoderLayer": Row(
        lambda: nn.TransformerDecoderLayer(*SIZES), [Q, MEMORY], decoder_layer, tolerance=LOOSE
    ),
    "TransformerDecoderLayer/before": Row(
        lambda: nn.TransformerDecoderLayer(*SIZES, normalize_before=True),
        [Q, MEMORY],
        lambda v, x, m: decoder_layer(v, x, m, before=True),
        tolerance=LOOSE,
    ),
    "TransformerEncoder": Row(
        lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(*SIZES), 2), [Q], encoded, tolerance=LOOSE
    ),
    "TransformerDecoder": Row(
        lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(*SIZES), 2), [Q, MEMORY], decoded, tolerance=LOOSE
    ),
    "TransformerDecoder/position by position": Row(
        lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(*SIZES), 2),
        [Q, MEMORY],
        lambda v, x, m: decoded(v, x, m, mask=LATER),
        call=position_by_position,
        tolerance=LOOSE,
        known=True,
    ),
    "Transformer": Row(lambda: nn.Transformer(8, 2, 2, 2, 16, 0.0), [MEMORY, Q], transformed, tolerance=LOOSE),
}
