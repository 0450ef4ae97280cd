"""Programs of the notebooks, and those that other options of bench measure."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from workbench.experiments.bench.coverage.covered import CoveredProgram, Feed, trained
from workbench.experiments.bench.row import row_named
from workbench.experiments.bench.workloads import WORKLOADS, Training, training

ROWS = ("gpt", "resnet", "wide", "loop")  # of `--table`, those that are quick enough
BATCH, CLASSES = 64, 10


def quickstart_mlp(paddle: Any) -> Any:
    image, label = digits_fed(paddle)
    return graded(paddle, paddle.static.nn.fc(image, 32, activation="relu"), label)


def quickstart_cnn(paddle: Any) -> Any:
    F, nn = paddle.nn.functional, paddle.static.nn
    image, label = digits_fed(paddle)
    x = nn.conv2d(paddle.unsqueeze(image, 1), num_filters=16, filter_size=3, padding=1, act="relu")
    x = nn.conv2d(F.max_pool2d(x, 2), num_filters=32, filter_size=3, padding=1, act="relu")
    return graded(paddle, F.dropout(F.max_pool2d(x, 2), 0.3), label)


def digits_fed(paddle: Any) -> tuple[Any, Any]:
    return paddle.static.data("image", [None, 8, 8]), paddle.static.data("label", [None], "int64")


def graded(paddle: Any, hidden: Any, label: Any) -> Any:
    F, static = paddle.nn.functional, paddle.static
    scores = static.nn.fc(hidden, CLASSES)
    loss = F.cross_entropy(scores, label)
    static.accuracy(F.softmax(scores), label)
    paddle.optimizer.Adam(0.003).minimize(loss)
    return loss


def images(rng: np.random.Generator) -> Feed:
    return {"image": rng.random((BATCH, 8, 8), np.float32), "label": rng.integers(0, CLASSES, BATCH)}


def workload(paddle: Any, name: str) -> Sequence[Training]:
    return [training(WORKLOADS[name], 1)]


def row(paddle: Any, name: str) -> Sequence[Training]:
    """The first way of a row."""
    return [next(iter(row_named(name).ways.values()))()]


PROGRAMS = (
    trained("quickstart-mlp", "the first network of the quickstart notebook, on digits, Adam", quickstart_mlp, images),
    trained("quickstart-cnn", "its second one, with dropout", quickstart_cnn, images),
    *(CoveredProgram(name, WORKLOADS[name].about, partial(workload, name=name)) for name in WORKLOADS),
    *(CoveredProgram(name, row_named(name).about, partial(row, name=name)) for name in ROWS),
)
