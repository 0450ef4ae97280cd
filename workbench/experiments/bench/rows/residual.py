"""Residual networks of convolutions with batch norm, Momentum."""

from __future__ import annotations

from functools import partial
from typing import Any

from workbench.builders.nn.conv import conv2d
from workbench.builders.nn.dense import fc
from workbench.builders.nn.norm import batch_norm
from workbench.experiments.bench.row import BenchRow
from workbench.experiments.bench.workloads import CLASSES, Training, Workload, training
from workbench.ops.conv.pools.pool import max_pool2d
from workbench.ops.math.reductions.reduce import mean
from workbench.ops.nn.piecewise import relu
from workbench.optimizer.rules.momentum import Momentum


def conv_bn(x: Any, filters: int, size: int, stride: int, act: str | None = None) -> Any:
    x = conv2d(x, filters, size, stride=stride, padding=size // 2, bias_attr=False)
    return batch_norm(x, act=act)


def block(x: Any, filters: int, stride: int) -> Any:
    way = conv_bn(conv_bn(x, filters, 3, stride, "relu"), filters, 3, 1)
    if stride > 1 or x.shape[1] != filters:
        x = conv_bn(x, filters, 1, stride)
    return relu(way + x)


def stages(x: Any, widths: tuple[int, ...], blocks: int) -> Any:
    """Of so many blocks each, every one but the first on a quarter of the places."""
    for number, filters in enumerate(widths):
        for index in range(blocks):
            x = block(x, filters, 2 if number and not index else 1)
    pooled: Any = mean(x, axis=[2, 3])
    return fc(pooled, CLASSES)


def resnet18(x: Any) -> Any:
    x = max_pool2d(conv_bn(x, 64, 7, 2, "relu"), kernel_size=3, stride=2, padding=1)
    return stages(x, (64, 128, 256, 512), 2)


def small_resnet(x: Any) -> Any:
    return stages(conv_bn(x, 16, 3, 1, "relu"), (16, 32, 64), 1)


def trained(network: Any, size: int) -> Training:
    about = f"{network.__name__} on {size} x {size}"
    return training(Workload(about, 32, (3, size, size), network, lambda: Momentum(0.01, 0.9)), 1)


ROWS = (
    BenchRow(
        "resnet18",
        "ResNet-18 on 64 x 64 images, batch 32, Momentum",
        "as fast as PyTorch, with its memory",
        {"1 device": partial(trained, resnet18, 64)},
        {"torch": "torch_resnet18.py"},
    ),
    BenchRow(
        "resnet",
        "small ResNet on 32 x 32 images, batch 32, Momentum",
        "75 % of the floor",
        {"1 device": partial(trained, small_resnet, 32)},
        share=True,
    ),
)
