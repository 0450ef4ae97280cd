"""A GPT that learns by heart: blocks of causal attention, Adam."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from workbench.builders.data import data
from workbench.builders.nn.dense import embedding
from workbench.builders.variables import create_parameter
from workbench.experiments.bench.row import BenchRow
from workbench.experiments.bench.workloads import SEED, Training, normalised, started, token_fc
from workbench.ops.loss.softmax import softmax, softmax_with_cross_entropy
from workbench.ops.math.products.matmul import matmul
from workbench.ops.math.reductions.reduce import mean
from workbench.ops.nn.activation import gelu
from workbench.ops.tensor.assign import assign
from workbench.ops.tensor.shape import reshape
from workbench.ops.tensor.transpose import transpose
from workbench.optimizer.rules.adam import Adam

HIDDEN = -1e9  # weight of what comes later, before the softmax


def causal_attention(x: Any, heads: int, mask: Any) -> Any:
    """Every position [batch, length, width] looks at those before it."""
    _, length, width = x.shape
    size = width // heads
    query, key, value = (
        transpose(reshape(token_fc(x, width), [0, length, heads, size]), [0, 2, 1, 3]) for _ in range(3)
    )
    weights = softmax(matmul(query, key, transpose_y=True) * (1 / math.sqrt(size)) + mask)
    together = transpose(matmul(weights, value), [0, 2, 1, 3])
    return token_fc(reshape(together, [0, length, width]), width)


def language_model(words: int, length: int, width: int, blocks: int, heads: int, batch: int, devices: int) -> Training:
    """The whole training."""

    def body() -> Any:
        x, y = data("x", [None, length], "int64"), data("y", [None, length, 1], "int64")
        mask = assign(np.triu(np.full((length, length), HIDDEN, np.float32), 1))
        hidden = embedding(x, [words, width]) + create_parameter([length, width], "float32")
        for _ in range(blocks):
            hidden = hidden + causal_attention(normalised(hidden), heads, mask)
            hidden = hidden + token_fc(gelu(token_fc(normalised(hidden), 4 * width)), width)
        loss = mean(softmax_with_cross_entropy(token_fc(normalised(hidden), words), y))
        Adam(1e-4).minimize(loss)
        return loss

    text = np.random.default_rng(SEED).integers(0, words, (batch, length + 1))
    return started(body, {"x": text[:, :-1].copy(), "y": text[:, 1:, None].copy()}, devices)


LARGE = partial(language_model, words=8192, length=256, width=512, blocks=6, heads=8, batch=8)
SMALL = partial(language_model, words=512, length=64, width=192, blocks=3, heads=6, batch=8)

ROWS = (
    BenchRow(
        "gpt6",
        "GPT of 6 blocks, d 512, 256 positions, batch 8, 8,192 words, Adam",
        "one device at least as fast as PyTorch, and 0.9 of two devices; memory at most PyTorch's",
        {"1 device": partial(LARGE, devices=1), "2 devices": partial(LARGE, devices=2)},
        {"torch": "torch_gpt.py"},
    ),
    BenchRow("gpt", "GPT of 3 blocks, d 192", "80 % of the floor", {"1 device": partial(SMALL, devices=1)}, share=True),
)
