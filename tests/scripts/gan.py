"""Two nets against each other, each with its optimizer: one learns to draw numbers like those of a given law."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import workbench as paddle
import workbench.nn.functional as F
from workbench import nn


def train(wrap: Callable[[Any], Any], steps: int) -> list[float]:
    """How far the mean of what is drawn lies from that of the law, 3, after every step; `wrap` may record the step."""
    paddle.seed(6)
    generator = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
    critic = nn.Sequential(nn.Linear(1, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1))
    draws = paddle.optimizer.Adam(learning_rate=5e-3, beta1=0.5, parameters=generator.parameters())
    judges = paddle.optimizer.Adam(learning_rate=5e-3, beta1=0.5, parameters=critic.parameters())
    rng = np.random.default_rng(7)

    def step(real: Any, noise: Any) -> Any:
        drawn = generator(noise)
        genuine, forged = critic(real), critic(drawn.detach())
        judged = F.binary_cross_entropy_with_logits(genuine, paddle.ones_like(genuine))
        judged = judged + F.binary_cross_entropy_with_logits(forged, paddle.zeros_like(forged))
        judged.backward()
        judges.step()
        judges.clear_grad()
        verdict = critic(drawn)
        fooled = F.binary_cross_entropy_with_logits(verdict, paddle.ones_like(verdict))
        fooled.backward()
        draws.step()
        draws.clear_grad()
        judges.clear_grad()
        return paddle.mean(drawn)

    step, distances = wrap(step), []
    for _ in range(steps):
        real = rng.normal(3.0, 0.5, (64, 1)).astype("float32")
        noise = rng.normal(size=(64, 2)).astype("float32")
        distances.append(abs(step(paddle.to_tensor(real), paddle.to_tensor(noise)).item() - 3.0))
    return distances
