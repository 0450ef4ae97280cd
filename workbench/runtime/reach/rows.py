"""Kernels that work on rows: sums, losses, norms, random numbers."""

from __future__ import annotations

from typing import Any

from workbench.runtime.reach.declare import FLOAT, WORD, reaches
from workbench.runtime.words.stream import CHUNK, STREAM_WORDS

# Sums


@reaches("x", "out")
def sum_rows(x: Any, out: Any, rows: int, width: int, count: int) -> Any:
    return FLOAT * rows * width, FLOAT * rows


@reaches("x", "out", "partial")
def sum_columns(
    x: Any, out: Any, partial: Any, columns: int, outer: int, rows: int, width: int, count: int
) -> Any:  # fmt: skip
    return FLOAT * outer * rows * width, FLOAT * outer * width, FLOAT * min(columns, width)


@reaches("x", "out")
def sum_squares(x: Any, out: Any, count: int) -> Any:
    return FLOAT * count, FLOAT


@reaches("x", "out")
def extreme_of_rows(x: Any, out: Any, rows: int, width: int, sign: float) -> Any:
    return FLOAT * rows * width, FLOAT * rows


# Losses


@reaches("x", "out", "most", "total")
def softmax(x: Any, out: Any, most: Any, total: Any, rows: int, width: int) -> Any:
    return FLOAT * rows * width, FLOAT * rows * width, FLOAT * rows, FLOAT * rows


@reaches("y", "g", "out")
def softmax_grad(y: Any, g: Any, out: Any, rows: int, width: int) -> Any:
    return (FLOAT * rows * width,) * 3


@reaches("logits", "label", "softmax", "loss", "beside")
def cross_entropy(
    logits: Any, label: Any, softmax: Any, loss: Any, beside: Any, rows: int, classes: int, ignored: int
) -> Any:
    whole = FLOAT * rows * classes
    return whole, WORD * rows, whole, FLOAT * rows, FLOAT * rows


@reaches("softmax", "label", "g", "out")
def cross_entropy_grad(
    softmax: Any, label: Any, g: Any, out: Any, rows: int, classes: int, ignored: int
) -> Any:  # fmt: skip
    return FLOAT * rows * classes, WORD * rows, FLOAT * rows, FLOAT * rows * classes


# Norms


@reaches("x", "scale", "bias", "y", "mean", "variance")
def layer_norm(
    x: Any, scale: Any, bias: Any, y: Any, mean: Any, variance: Any, rows: int, width: int, epsilon: float
) -> Any:
    whole, row, column = FLOAT * rows * width, FLOAT * width, FLOAT * rows
    return whole, row, row, whole, column, column


@reaches("x", "g", "scale", "mean", "variance", "g_x", "g_scale", "g_bias", "partial")
def layer_norm_grad(
    x: Any, g: Any, scale: Any, mean: Any, variance: Any, g_x: Any, g_scale: Any, g_bias: Any, partial: Any,
    rows: int, width: int, epsilon: float,
) -> Any:  # fmt: skip
    whole, row, column = FLOAT * rows * width, FLOAT * width, FLOAT * rows
    return whole, whole, row, column, column, whole, row, row, 2 * row


@reaches("x", "mean", "variance")
def plane_moments(x: Any, mean: Any, variance: Any, batch: int, channels: int, width: int) -> Any:
    return FLOAT * batch * channels * width, FLOAT * channels, FLOAT * channels


@reaches("x", "mean", "slope", "bias", "y")
def plane_shift(
    x: Any, mean: Any, slope: Any, bias: Any, y: Any, batch: int, channels: int, width: int
) -> Any:  # fmt: skip
    whole, each = FLOAT * batch * channels * width, FLOAT * channels
    return whole, each, each, each, whole


@reaches("x", "g", "mean", "inverse", "g_scale", "g_bias")
def plane_sums(
    x: Any, g: Any, mean: Any, inverse: Any, g_scale: Any, g_bias: Any, batch: int, channels: int, width: int
) -> Any:
    whole, each = FLOAT * batch * channels * width, FLOAT * channels
    return whole, whole, each, each, each, each


@reaches("x", "g", "mean", "inverse", "along", "level", "slope", "g_x")
def plane_gradients(
    x: Any, g: Any, mean: Any, inverse: Any, along: Any, level: Any, slope: Any, g_x: Any, batch: int, channels: int,
    width: int,
) -> Any:  # fmt: skip
    whole, each = FLOAT * batch * channels * width, FLOAT * channels
    return whole, whole, each, each, each, each, each, whole


# Random numbers: made in whole blocks of eight

_BLOCK = 8


def _drawn(count: int) -> int:
    return FLOAT * _BLOCK * -(-min(count, CHUNK) // _BLOCK)


@reaches("stream", "words", "out")
def draw_truths(stream: Any, words: Any, out: Any, count: int, least: int) -> Any:
    return WORD * STREAM_WORDS, _drawn(count), count


@reaches("stream", "words", "out")
def draw_uniform(stream: Any, words: Any, out: Any, count: int) -> Any:
    return WORD * STREAM_WORDS, _drawn(count), FLOAT * count
