"""Recurrent networks: cells of LSTM and GRU in a loop of the program, and written out pass by pass."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from workbench.experiments.bench.coverage.covered import Feed, trained

BATCH, LENGTH, WIDTH, CLASSES = 32, 16, 64, 5


def lstm_cell(paddle: Any, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """The next states, by gates that lie side by side in one product."""
    F, static = paddle.nn.functional, paddle.static
    both = static.nn.fc(paddle.concat([x, h], axis=1), 4 * WIDTH, weight_attr="cell.w", bias_attr="cell.b")
    enters, stays, leaves, new = paddle.split(both, 4, axis=1)
    c = F.sigmoid(stays) * c + F.sigmoid(enters) * paddle.tanh(new)
    return F.sigmoid(leaves) * paddle.tanh(c), c


def gru_cell(paddle: Any, x: Any, h: Any) -> tuple[Any]:
    """The next state."""
    F, static = paddle.nn.functional, paddle.static
    gates = static.nn.fc(paddle.concat([x, h], axis=1), 2 * WIDTH, weight_attr="gate.w", bias_attr="gate.b")
    update, reset = (F.sigmoid(gate) for gate in paddle.split(gates, 2, axis=1))
    new = static.nn.fc(paddle.concat([x, reset * h], axis=1), WIDTH, weight_attr="new.w", bias_attr="new.b")
    return (update * h + (1 - update) * paddle.tanh(new),)


def by_loop(paddle: Any, cell: Any, x: Any, states: list[Any]) -> Any:
    """The last state, by a loop of the program over the passes of x [length, batch, width]."""
    length = paddle.full([1], LENGTH, "int64")

    def goes_on(i: Any, *states: Any) -> Any:
        return i < length

    def one_pass(i: Any, *states: Any) -> list[Any]:
        now = paddle.squeeze(paddle.gather(x, i, axis=0), 0)
        return [i + 1, *cell(paddle, now, *states)]

    return paddle.static.nn.while_loop(goes_on, one_pass, [paddle.zeros([1], "int64"), *states])[1]


def unrolled(paddle: Any, cell: Any, x: Any, states: list[Any]) -> Any:
    """The same, with every pass written out."""
    for i in range(LENGTH):
        states = list(cell(paddle, x[i], *states))
    return states[0]


def classifier(paddle: Any, passes: Any, cell: Any, count: int) -> Any:
    """Sequences by their last state; as many states as the cell has."""
    F, static = paddle.nn.functional, paddle.static
    x, y = static.data("x", [LENGTH, None, WIDTH]), static.data("y", [None, 1], "int64")
    begin = paddle.zeros_like(x[0])
    last = passes(paddle, cell, x, [begin] * count)
    loss = paddle.mean(F.cross_entropy(static.nn.fc(last, CLASSES), y))
    paddle.optimizer.Adam(1e-3).minimize(loss)
    return loss


def sequences(rng: np.random.Generator) -> Feed:
    x = rng.standard_normal((LENGTH, BATCH, WIDTH)).astype(np.float32)
    return {"x": x, "y": rng.integers(0, CLASSES, (BATCH, 1))}


PROGRAMS = tuple(
    trained(
        f"{name}-{way}",
        f"{name.upper()}, {LENGTH} passes {about}, {WIDTH} wide, batch {BATCH}, Adam",
        partial(classifier, passes=passes, cell=cell, count=count),
        sequences,
    )
    for name, cell, count in (("lstm", lstm_cell, 2), ("gru", gru_cell, 1))
    for way, passes, about in (("loop", by_loop, "in a while_loop"), ("unrolled", unrolled, "written out"))
)
