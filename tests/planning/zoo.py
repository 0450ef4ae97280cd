"""Programs of many kinds, each with feeds of any size: what planning has to cope with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import workbench as wb
from tests.parallel.models import Model, build
from workbench import static

F = wb.nn.functional
Feed = dict[str, np.ndarray]


@dataclass(frozen=True)
class Animal:
    """A program.

    Attributes:
        body: builds it, returns the loss. optimizer: makes one, or None.
        feed: a batch of so many rows, of so many steps each where rows are sequences.
    """

    body: Callable[[], Any]
    feed: Callable[[int, int], Feed]
    optimizer: Callable[[], Any] | None = None

    def model(self) -> Model:
        """Built, not started."""
        return build(self.body, None if self.optimizer is None else self.optimizer())


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def integers(high: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).integers(0, high, shape)


def _classifier() -> Any:
    x, y = static.data("x", [None, 5]), static.data("y", [None, 1], "int64")
    h = static.nn.fc(static.nn.fc(x, 8, activation="relu"), 6, activation="tanh")
    return wb.mean(F.softmax_with_cross_entropy(static.nn.fc(h, 3), y))


def _images() -> Any:
    x, y = static.data("x", [None, 2, 8, 8]), static.data("y", [None, 1], "int64")
    h = static.nn.conv2d(x, 4, 3, padding=1)
    h = F.relu(static.nn.batch_norm(h))
    h = F.max_pool2d(h, 2) + F.avg_pool2d(h, 2)
    return wb.mean(F.softmax_with_cross_entropy(static.nn.fc(h, 3), y))


def _pictures() -> Any:
    """Of any size."""
    h = F.relu(static.nn.conv2d(static.data("x", [None, 2, None, None]), 16, 3, padding=1))
    h = static.nn.conv2d(F.max_pool2d(h, 2) + F.avg_pool2d(h, 2), 32, 3, padding="SAME")
    return wb.mean(F.adaptive_avg_pool2d(h, 1) ** 2)


HEADS, WIDTH = 2, 8


def _heads(x: Any) -> Any:
    h = static.nn.fc(x, WIDTH, num_flatten_dims=2)
    return wb.transpose(wb.reshape(h, [0, 0, HEADS, WIDTH // HEADS]), [0, 2, 1, 3])


def attention(x: Any) -> Any:
    """A block of a transformer."""
    q, k, v = _heads(x), _heads(x), _heads(x)
    weights = F.softmax(wb.scale(wb.matmul(q, k, transpose_y=True), 0.5))
    joined = wb.reshape(wb.transpose(wb.matmul(weights, v), [0, 2, 1, 3]), [0, 0, WIDTH])
    h = static.nn.layer_norm(x + static.nn.fc(joined, WIDTH, num_flatten_dims=2), begin_norm_axis=2)
    wide = static.nn.fc(h, 2 * WIDTH, num_flatten_dims=2, activation="relu")
    return static.nn.layer_norm(h + static.nn.fc(wide, WIDTH, num_flatten_dims=2), begin_norm_axis=2)


def _sequences() -> Any:
    h = attention(attention(static.data("x", [None, None, WIDTH])))
    return wb.mean(h * h)


def _words() -> Any:
    ids, y = static.data("ids", [None, None], "int64"), static.data("y", [None, 1], "int64")
    h = wb.mean(attention(static.nn.embedding(ids, [11, WIDTH])), axis=1)
    return wb.mean(F.softmax_with_cross_entropy(static.nn.fc(h, 3), y))


def _noise() -> Any:
    h = F.dropout(static.nn.fc(static.data("x", [None, None, WIDTH]), WIDTH, num_flatten_dims=2), 0.3)
    return wb.mean(wb.tanh(static.nn.fc(F.dropout(h, 0.2), 3, num_flatten_dims=2)))


def _rows() -> Any:
    ids = static.data("ids", [None, 1], "int64")
    h = wb.reshape(static.nn.embedding(ids, [7, 4], is_sparse=True), [-1, 4])
    return wb.mean(wb.tanh(static.nn.fc(h, 3)))


def _views() -> Any:
    h = static.nn.fc(static.data("x", [None, 4]), 4)
    views = wb.squeeze(wb.unsqueeze(wb.flatten(wb.reshape(h, [-1, 2, 2]), 1), [1]), [1])
    turned = wb.transpose(wb.transpose(views, [1, 0]), [1, 0])
    left, right = wb.split(turned, 2, axis=1)
    part = wb.slice(wb.concat([right, left, turned], axis=1), [1], [1], [5])
    return wb.mean(wb.tanh(part) * turned + h)


def _branches() -> Any:
    x = static.nn.fc(static.data("x", [None, 4]), 4)
    positive = wb.greater_than(wb.mean(x), wb.full([1], 0.0))
    h = static.nn.cond(positive, lambda: wb.tanh(x), lambda: x * 0.5)
    return wb.mean(wb.tanh(h) + x)


def _chain() -> Any:
    h = static.data("x", [None, 4])
    for _ in range(4):
        h = F.softmax(wb.tanh(wb.scale(h, 2.0)))
    return h


def _columns(rows: int, steps: int) -> Feed:
    return {"x": floats(rows, 4)}


ZOO = {
    "classifier": Animal(
        _classifier, lambda rows, _: {"x": floats(rows, 5), "y": integers(3, rows, 1)}, wb.optimizer.Adam
    ),
    "images": Animal(
        _images, lambda rows, _: {"x": floats(rows, 2, 8, 8), "y": integers(3, rows, 1)},
        lambda: wb.optimizer.Momentum(0.1, 0.9),
    ),
    "pictures": Animal(_pictures, lambda rows, width: {"x": floats(rows, 2, 5, width)}, lambda: wb.optimizer.SGD(0.1)),
    "sequences": Animal(
        _sequences, lambda rows, steps: {"x": floats(rows, steps, WIDTH)}, lambda: wb.optimizer.SGD(0.1)
    ),
    "words": Animal(
        _words, lambda rows, steps: {"ids": integers(11, rows, steps), "y": integers(3, rows, 1)}, wb.optimizer.Adam
    ),
    "noise": Animal(_noise, lambda rows, steps: {"x": floats(rows, steps, WIDTH)}, lambda: wb.optimizer.SGD(0.1)),
    "rows": Animal(_rows, lambda rows, _: {"ids": integers(7, rows, 1)}, lambda: wb.optimizer.SGD(0.1)),
    "views": Animal(_views, _columns, lambda: wb.optimizer.SGD(0.1)),
    "branches": Animal(_branches, _columns, lambda: wb.optimizer.SGD(0.1)),
    "chain": Animal(_chain, _columns),
}  # fmt: skip
