"""Attention: over what came before, over another sequence that is padded, and in bfloat16."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.experiments.bench.coverage.covered import Feed, trained

BATCH, LENGTH, WIDTH, HEADS, WORDS = 8, 32, 64, 4, 200
HIDDEN = -1e9  # weight of what nobody may look at, before the softmax
PAD = 0  # the word that fills up short sequences


def token_fc(paddle: Any, x: Any, width: int, **options: Any) -> Any:
    return paddle.static.nn.fc(x, width, num_flatten_dims=2, **options)


def heads_of(paddle: Any, x: Any) -> Any:
    """[batch, length, width] as [batch, heads, length, size]."""
    return paddle.transpose(paddle.reshape(x, [0, x.shape[1], HEADS, WIDTH // HEADS]), [0, 2, 1, 3])


def attention(paddle: Any, x: Any, other: Any, mask: Any) -> Any:
    """What every position of x reads of the other sequence; `mask` is added before the softmax."""
    F = paddle.nn.functional
    query, key, value = (heads_of(paddle, token_fc(paddle, t, WIDTH)) for t in (x, other, other))
    scores = paddle.matmul(query, key, transpose_y=True) * (1 / math.sqrt(WIDTH // HEADS))
    weights = F.dropout(F.softmax(scores if mask is None else scores + mask), 0.1)
    together = paddle.transpose(paddle.matmul(weights, value), [0, 2, 1, 3])
    return token_fc(paddle, paddle.reshape(together, [0, x.shape[1], WIDTH]), WIDTH)


def normalised(paddle: Any, x: Any) -> Any:
    return paddle.static.nn.layer_norm(x, begin_norm_axis=2)


def fed_forward(paddle: Any, x: Any) -> Any:
    return token_fc(paddle, paddle.nn.functional.gelu(token_fc(paddle, x, 4 * WIDTH)), WIDTH)


def gpt(paddle: Any) -> Any:
    """The mask is made in the program, of the positions; the optimizer clips and warms up."""
    F, static = paddle.nn.functional, paddle.static
    x, y = static.data("x", [None, LENGTH], "int64"), static.data("y", [None, LENGTH], "int64")
    positions = static.nn.embedding(paddle.arange(LENGTH, dtype="int64"), [LENGTH, WIDTH])
    later = paddle.triu(paddle.full([LENGTH, LENGTH], HIDDEN, "float32"), 1)
    hidden = F.dropout(static.nn.embedding(x, [WORDS, WIDTH]) + positions, 0.1)
    for _ in range(2):
        before = normalised(paddle, hidden)
        hidden = hidden + attention(paddle, before, before, later)
        hidden = hidden + fed_forward(paddle, normalised(paddle, hidden))
    scores = token_fc(paddle, normalised(paddle, hidden), WORDS)
    loss = F.cross_entropy(paddle.reshape(scores, [-1, WORDS]), paddle.reshape(y, [-1, 1]))
    clip = paddle.nn.ClipGradByGlobalNorm(1.0)
    paddle.optimizer.AdamW(1e-3, weight_decay=0.01, grad_clip=clip).minimize(loss)
    return loss


def translation(paddle: Any) -> Any:
    """A decoder's block: it reads a source whose padding is hidden, and is not graded where its target is padded."""
    F, static = paddle.nn.functional, paddle.static
    source, target = (static.data(name, [None, LENGTH], "int64") for name in ("source", "target"))
    y = static.data("y", [None, LENGTH], "int64")
    read = static.nn.embedding(source, [WORDS, WIDTH], padding_idx=PAD)
    hidden = static.nn.embedding(target, [WORDS, WIDTH], padding_idx=PAD)
    hidden_words = paddle.cast(source == PAD, "float32") * HIDDEN
    mask = paddle.unsqueeze(hidden_words, [1, 2])
    hidden = normalised(paddle, hidden + attention(paddle, hidden, read, mask))
    hidden = normalised(paddle, hidden + fed_forward(paddle, hidden))
    costs = F.cross_entropy(token_fc(paddle, hidden, WORDS), paddle.unsqueeze(y, 2), reduction="none")
    graded = paddle.unsqueeze(paddle.cast(y != PAD, "float32"), 2)
    loss = paddle.sum(costs * graded) / paddle.sum(graded)
    paddle.optimizer.Adam(1e-3).minimize(loss)
    return loss


def bfloat16_encoder(paddle: Any) -> Any:
    """All of it in bfloat16, the loss in float32."""
    F, static = paddle.nn.functional, paddle.static
    x, y = static.data("x", [None, LENGTH, WIDTH]), static.data("y", [None, 1], "int64")
    hidden = paddle.cast(x, "bfloat16")
    hidden = normalised(paddle, hidden + attention(paddle, hidden, hidden, None))
    hidden = normalised(paddle, hidden + fed_forward(paddle, hidden))
    scores = static.nn.fc(paddle.mean(hidden, axis=1), 10)
    loss = paddle.mean(F.cross_entropy(paddle.cast(scores, "float32"), y))
    paddle.optimizer.Adam(1e-3, multi_precision=True).minimize(loss)
    return loss


def text(rng: np.random.Generator) -> Feed:
    words = rng.integers(0, WORDS, (BATCH, LENGTH + 1))
    return {"x": words[:, :-1].copy(), "y": words[:, 1:].copy()}


def padded_text(rng: np.random.Generator) -> Feed:
    """Sequences of all lengths, filled up."""
    feed = {name: rng.integers(1, WORDS, (BATCH, LENGTH)) for name in ("source", "target", "y")}
    for name in feed:
        for row, length in zip(feed[name], rng.integers(LENGTH // 2, LENGTH, BATCH), strict=True):
            row[length:] = PAD
    return feed


def vectors(rng: np.random.Generator) -> Feed:
    x = rng.standard_normal((BATCH, LENGTH, WIDTH)).astype(np.float32)
    return {"x": x, "y": rng.integers(0, 10, (BATCH, 1))}


OF = f"{LENGTH} positions, {WIDTH} wide, batch {BATCH}"
PROGRAMS = (
    trained("causal", f"GPT of 2 blocks with a causal mask, dropout, {OF}, AdamW with clipping", gpt, text),
    trained("cross", f"cross-attention with a padding mask, {OF}, Adam", translation, padded_text),
    trained("bfloat16", f"encoder in bfloat16, {OF}, Adam", bfloat16_encoder, vectors),
)
