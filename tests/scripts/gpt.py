"""A small language model with causal attention: it learns to count on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import workbench as paddle
import workbench.nn.functional as F
from workbench import nn

WORDS, LENGTH, WIDTH = 12, 8, 32


class GPT(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)
        block = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, activation="gelu", normalize_before=True)
        self.blocks = nn.TransformerEncoder(block, 2, nn.LayerNorm(WIDTH))
        self.head = nn.Linear(WIDTH, WORDS)
        mask = np.triu(np.full((LENGTH, LENGTH), -1e9, "float32"), 1)
        self.register_buffer("mask", paddle.to_tensor(mask))
        self.register_buffer("positions", paddle.to_tensor(np.arange(LENGTH)))

    def forward(self, words: Any) -> Any:
        hidden = self.words(words) + self.places(self.positions)
        return self.head(self.blocks(hidden, self.mask))


def train(wrap: Callable[[Any], Any], steps: int) -> list[float]:
    """The loss of every step; `wrap` may record the step."""
    paddle.seed(4)
    net = GPT()
    optimizer = paddle.optimizer.AdamW(learning_rate=3e-3, parameters=net.parameters(), weight_decay=0.01)
    rng = np.random.default_rng(5)

    def step(words: Any, following: Any) -> Any:
        loss = F.cross_entropy(net(words), following)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    step, losses = wrap(step), []
    for _ in range(steps):
        text = (rng.integers(0, WORDS, (16, 1)) + np.arange(LENGTH + 1)) % WORDS
        losses.append(step(paddle.to_tensor(text[:, :-1]), paddle.to_tensor(text[:, 1:])).item())
    return losses
