"""Tables, fully connected layers and their losses: clicks, softened labels, a regression in float64, a GAN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.experiments.bench.coverage.covered import CoveredProgram, Feed, trained
from workbench.experiments.bench.workloads import SEED, Training, cpu_devices
from workbench.framework.program.guard import static_mode

BATCH, FIELDS, HEIGHT, CLASSES, NOISE, PIXELS = 256, 6, 5_000, 10, 16, 64


def clicks(paddle: Any) -> Any:
    """Deep & wide: tables whose gradients are rows, factors of pairs, and numbers as they are."""
    F, static = paddle.nn.functional, paddle.static
    ids, numbers = static.data("ids", [None, FIELDS], "int64"), static.data("numbers", [None, 4])
    click = static.data("click", [None, 1])
    read = static.nn.embedding(ids, [HEIGHT, 8], is_sparse=True)
    wide = static.nn.embedding(ids, [HEIGHT, 1], is_sparse=True)
    together = paddle.sum(read, axis=1)
    pairs = 0.5 * paddle.sum(together * together - paddle.sum(read * read, axis=1), axis=1, keepdim=True)
    hidden = paddle.concat([paddle.reshape(read, [-1, FIELDS * 8]), paddle.log(1 + numbers)], axis=1)
    for width in (64, 32):
        hidden = static.nn.fc(hidden, width, activation="relu")
    score = static.nn.fc(hidden, 1) + pairs + paddle.sum(wide, axis=1)
    loss = paddle.mean(F.binary_cross_entropy(F.sigmoid(score), click))
    paddle.optimizer.Adagrad(0.01).minimize(loss)
    return loss


def smoothed(paddle: Any) -> Any:
    """Labels that are no longer sure, and the share of samples whose label is among the best ones."""
    F, static = paddle.nn.functional, paddle.static
    x, y = static.data("x", [None, 64]), static.data("y", [None, 1], "int64")
    hidden = F.dropout(static.nn.fc(x, 128, activation="relu"), 0.3)
    scores = static.nn.fc(hidden, CLASSES)
    labels = F.label_smooth(F.one_hot(paddle.squeeze(y, 1), CLASSES), epsilon=0.1)
    loss = paddle.mean(F.cross_entropy(scores, labels, soft_label=True))
    static.accuracy(F.softmax(scores), y, k=3)
    paddle.optimizer.Momentum(0.05, 0.9, weight_decay=1e-4).minimize(loss)
    return loss


def float64_regression(paddle: Any) -> Any:
    static = paddle.static
    x, y = static.data("x", [None, 32], "float64"), static.data("y", [None, 1], "float64")
    hidden = x
    for _ in range(2):
        hidden = paddle.tanh(static.nn.fc(hidden, 64))
    loss = paddle.mean(paddle.nn.functional.square_error_cost(static.nn.fc(hidden, 1), y))
    paddle.optimizer.Adam(1e-3).minimize(loss)
    return loss


def generated(paddle: Any, noise: Any) -> Any:
    nn = paddle.static.nn
    hidden = nn.fc(noise, 64, weight_attr="g.w0", bias_attr="g.b0", activation="relu")
    return paddle.tanh(nn.fc(hidden, PIXELS, weight_attr="g.w1", bias_attr="g.b1"))


def judged(paddle: Any, image: Any) -> Any:
    """How real an image looks."""
    F, nn = paddle.nn.functional, paddle.static.nn
    hidden = F.leaky_relu(nn.fc(image, 64, weight_attr="d.w0", bias_attr="d.b0"), 0.2)
    return nn.fc(F.dropout(hidden, 0.2), 1, weight_attr="d.w1", bias_attr="d.b1")


def discriminator_loss(paddle: Any) -> Any:
    F, static = paddle.nn.functional, paddle.static
    real, fake = static.data("image", [None, PIXELS]), generated(paddle, paddle.randn([BATCH, NOISE]))
    fake.stop_gradient = True
    on_real, on_fake = judged(paddle, real), judged(paddle, fake)
    return F.binary_cross_entropy_with_logits(on_real, paddle.ones_like(on_real)) + (
        F.binary_cross_entropy_with_logits(on_fake, paddle.zeros_like(on_fake))
    )


def generator_loss(paddle: Any) -> Any:
    F = paddle.nn.functional
    score = judged(paddle, generated(paddle, paddle.rand([BATCH, NOISE]) * 2 - 1))
    return F.binary_cross_entropy_with_logits(score, paddle.ones_like(score))


def gan(paddle: Any) -> Sequence[Training]:
    """Two programs on the same parameters, each with the optimizer of its own part."""
    static, scope = paddle.static, paddle.static.Scope()
    image = np.random.default_rng(SEED).standard_normal((BATCH, PIXELS)).astype(np.float32)
    startup, built = static.Program(), []
    startup.random_seed = SEED
    for prefix, build in (("d.", discriminator_loss), ("g.", generator_loss)):
        main = static.Program()
        main.random_seed = SEED
        with paddle.utils.unique_name.guard(prefix), static.program_guard(main, startup), static_mode():
            loss = build(paddle)
            own = [parameter for parameter in main.all_parameters() if parameter.name.startswith(prefix)]
            paddle.optimizer.Adam(2e-4, beta1=0.5).minimize(loss, parameters=own)
        built.append((main, loss.name))
    static.Executor().run(startup, scope=scope)
    with cpu_devices(1):
        return [
            Training(static.ParallelExecutor(False, loss_name=loss, main_program=main, scope=scope), feed, loss)
            for (main, loss), feed in zip(built, ({"image": image}, {}), strict=True)
        ]


def click_log(rng: np.random.Generator) -> Feed:
    numbers = rng.random((BATCH, 4), np.float32)
    ids = rng.integers(0, HEIGHT, (BATCH, FIELDS))
    return {"ids": ids, "numbers": numbers, "click": (numbers[:, :1] > 0.5).astype(np.float32)}


def rows(rng: np.random.Generator) -> Feed:
    return {"x": rng.standard_normal((BATCH, 64)).astype(np.float32), "y": rng.integers(0, CLASSES, (BATCH, 1))}


def float64_rows(rng: np.random.Generator) -> Feed:
    return {"x": rng.standard_normal((BATCH, 32)), "y": rng.standard_normal((BATCH, 1))}


PROGRAMS = (
    trained("ctr", f"clicks: sparse tables of {HEIGHT:,} rows, fc 64-32-1, batch {BATCH}, Adagrad", clicks, click_log),
    trained("smoothed", f"MLP with label smoothing, dropout, batch {BATCH}, Momentum with decay", smoothed, rows),
    trained("float64", f"regression in float64, 32-64-64-1, batch {BATCH}, Adam", float64_regression, float64_rows),
    CoveredProgram("gan", f"GAN of MLPs on {PIXELS} pixels, two steps on one scope, batch {BATCH}, Adam", gan),
)
