"""An LSTM that tells in which half of the vocabulary most words of a sentence lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import workbench as paddle
import workbench.nn.functional as F
from workbench import nn

WORDS, LENGTH = 40, 6


class Classifier(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 16)
        self.lstm = nn.LSTM(16, 16)
        self.out = nn.Linear(16, 2)

    def forward(self, words: Any) -> Any:
        _, (last, _) = self.lstm(self.embedding(words))
        return self.out(last[0])


def train(wrap: Callable[[Any], Any], steps: int) -> list[float]:
    """The loss of every step; `wrap` may record the step."""
    paddle.seed(2)
    net = Classifier()
    optimizer = paddle.optimizer.Adam(
        learning_rate=1e-2, parameters=net.parameters(), grad_clip=nn.ClipGradByGlobalNorm(1.0)
    )
    rng = np.random.default_rng(3)

    def step(words: Any, label: Any) -> Any:
        loss = F.cross_entropy(net(words), label)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    step, losses = wrap(step), []
    for _ in range(steps):
        words = rng.integers(0, WORDS, (32, LENGTH))
        label = (words >= WORDS // 2).sum(1) > LENGTH // 2
        losses.append(step(paddle.to_tensor(words), paddle.to_tensor(label.astype("int64"))).item())
    return losses
