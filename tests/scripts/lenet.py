"""A convolutional net on handwritten digits, as one writes it for Paddle 2.x."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import workbench as paddle
import workbench.nn.functional as F
from workbench import nn
from workbench.assets import digits


class LeNet(nn.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2D(1, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2D(2, 2),
            nn.Conv2D(6, 16, 3), nn.ReLU(), nn.MaxPool2D(2, 2),
        )  # fmt: skip
        self.fc = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, image: Any) -> Any:
        return self.fc(paddle.flatten(self.features(image), 1))


def train(wrap: Callable[[Any], Any], steps: int) -> list[float]:
    """The loss of every step; `wrap` may record the step."""
    paddle.seed(1)
    net = LeNet()
    optimizer = paddle.optimizer.Adam(learning_rate=1e-2, parameters=net.parameters())
    images, labels = digits()
    data = paddle.io.TensorDataset([images.reshape(-1, 1, 8, 8), labels[:, None]])
    batches = iter(paddle.io.DataLoader(data, batch_size=64, shuffle=True, drop_last=True, seed=1))

    def step(image: Any, label: Any) -> Any:
        loss = F.cross_entropy(net(image), label)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return loss

    step = wrap(step)
    return [step(*next(batches)).item() for _ in range(steps)]
