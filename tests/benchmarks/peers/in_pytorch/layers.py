"""Layers of PyTorch that hold our values, and what a program is made of."""

from typing import Any, NamedTuple

import torch
from torch import nn


class Program(NamedTuple):
    """A program with one loss.

    Attributes:
        loss: a module, whose result for a batch is minimised. update: the optimizer of its parameters.
    """

    loss: nn.Module
    update: torch.optim.Optimizer


class Given:
    """Values in the order in which they are made, each a part of the next layer that is asked for."""

    def __init__(self, values: list, drawn: bool) -> None:
        self.values, self.drawn = iter(values), drawn

    def rate(self, dropped: float) -> float:
        """Of dropout."""
        return dropped if self.drawn else 0.0

    def tensor(self) -> torch.Tensor:
        return torch.from_numpy(next(self.values).copy())

    def pair(self) -> tuple:
        return self.tensor(), self.tensor()

    def linear(self, count: int = 1) -> nn.Linear:
        """Of as many products of the same input; PyTorch's matrices are [outputs, inputs]."""
        pairs = [self.pair() for _ in range(count)]
        w = torch.cat([w.T for w, _ in pairs])
        layer = nn.Linear(w.shape[1], w.shape[0], dtype=w.dtype)
        return holding(layer, w, torch.cat([b for _, b in pairs]))

    def embedding(self, **options: Any) -> nn.Embedding:
        w = self.tensor()
        return holding(nn.Embedding(*w.shape, **options), w)

    def conv(self, groups: int = 1, bias: bool = True, **options: Any) -> nn.Conv2d:
        w = self.tensor()
        layer = nn.Conv2d(w.shape[1] * groups, w.shape[0], w.shape[2:], groups=groups, bias=bias, **options)
        return holding(layer, w, self.tensor() if bias else None)

    def transposed_conv(self, **options: Any) -> nn.ConvTranspose2d:
        w, b = self.pair()
        return holding(nn.ConvTranspose2d(*w.shape[:2], w.shape[2:], **options), w, b)

    def batch_norm(self) -> nn.BatchNorm2d:
        w, b = self.pair()
        return holding(nn.BatchNorm2d(len(w)), w, b)

    def instance_norm(self) -> nn.InstanceNorm2d:
        w, b = self.pair()
        return holding(nn.InstanceNorm2d(len(w), affine=True), w, b)

    def group_norm(self, groups: int) -> nn.GroupNorm:
        w, b = self.pair()
        return holding(nn.GroupNorm(groups, len(w)), w, b)

    def layer_norm(self) -> nn.LayerNorm:
        w, b = self.pair()
        return holding(nn.LayerNorm(len(w)), w, b)


def holding(layer: Any, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Any:
    """The layer with these values."""
    for parameter, value in ((layer.weight, weight), (getattr(layer, "bias", None), bias)):
        if value is not None:
            assert parameter.shape == value.shape, (parameter.shape, value.shape)
            parameter.data.copy_(value)
    return layer


def momentum(loss: nn.Module, rate: float, **options: Any) -> Program:
    return Program(loss, torch.optim.SGD(loss.parameters(), lr=rate, momentum=0.9, fused=True, **options))


def adam(loss: nn.Module, **options: Any) -> Program:
    return Program(loss, torch.optim.Adam(loss.parameters(), lr=1e-3, fused=True, **options))
