"""Random programs full of views, aliases and variables that are written several times."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

import workbench as wb
from tests.parallel.models import Model, build
from workbench import static
from workbench.framework.program.roles import FORWARD, OPTIMIZE

F = wb.nn.functional
WIDTH = 4  # columns of most values; the rows are the batch


class Growing:
    """A program that grows by one operation after the other.

    Attributes:
        known: values `[rows, WIDTH]` so far. others: values of other shapes and dtypes, to be fetched.
    """

    def __init__(self, random: Random, sparse: bool, control: bool) -> None:
        self.random, self.others = random, []
        x, y = static.data("x", [None, WIDTH]), static.data("y", [None, WIDTH])
        self.ids = static.data("ids", [None, 1], "int64")
        self.known: list[Any] = [x, y]
        self.kinds: list[Callable[[], None]] = [
            self.unary, self.unary, self.binary, self.binary, self.square, self.reshaped, self.turned, self.split,
            self.joined, self.stacked, self.layer, self.reduced, self.cast, self.added_up, self.overwritten,
            self.detached, self.normalised, self.compared, self.counted,
        ]  # fmt: skip
        self.kinds += [self.embedded, self.embedded] * sparse + [self.branch, self.loop, self.dynamic] * control

    def pick(self) -> Any:
        return self.random.choice(self.known)

    def grow(self) -> None:
        self.random.choice(self.kinds)()

    def unary(self) -> None:
        f = self.random.choice([wb.tanh, F.relu, F.sigmoid, wb.square, wb.assign, lambda v: wb.scale(v, -0.5, 0.25)])
        self.known.append(wb.tanh(f(self.pick())) if self.random.random() < 0.3 else f(wb.tanh(self.pick())))

    def binary(self) -> None:
        f = self.random.choice([wb.add, wb.subtract, wb.multiply, wb.maximum])
        self.known.append(f(self.pick(), self.pick()))

    def square(self) -> None:
        x = wb.tanh(self.pick())
        self.known.append(self.random.choice([lambda: x * x, lambda: x + x, lambda: wb.maximum(x, x)])())

    def reshaped(self) -> None:
        x = wb.reshape(self.pick(), [-1, 2, 2])
        x = self.random.choice([lambda v: v, lambda v: wb.transpose(v, [0, 2, 1]), lambda v: wb.tanh(v)])(x)
        if self.random.random() < 0.5:
            x = wb.squeeze(wb.unsqueeze(x, [1]), [1])
        self.known.append(wb.flatten(x, 1) if self.random.random() < 0.5 else wb.reshape(x, [-1, WIDTH]))

    def turned(self) -> None:
        x = wb.transpose(self.pick(), [1, 0])
        self.others.append(x)
        self.known.append(wb.transpose(wb.tanh(x) if self.random.random() < 0.5 else x, [1, 0]))

    def split(self) -> None:
        left, right = wb.split(self.pick(), 2, axis=1)
        if self.random.random() < 0.3:
            self.others.append(right)
            right = left
        self.known.append(wb.concat([right, left], axis=1))

    def joined(self) -> None:
        x, y = self.pick(), self.pick()
        part = wb.slice(wb.concat([x, y, x], axis=1), [1], [3], [3 + WIDTH])
        self.known.append(wb.tanh(part) if self.random.random() < 0.5 else part)

    def stacked(self) -> None:
        x = self.pick()
        self.known.append(wb.sum(wb.stack([x, self.pick(), x], axis=1), axis=1))

    def layer(self) -> None:
        name = self.random.choice([None, "shared_w"])
        weight = wb.ParamAttr(name=name) if name else None
        self.known.append(static.nn.fc(self.pick(), WIDTH, weight_attr=weight, activation="tanh"))

    def reduced(self) -> None:
        x = self.pick()
        mean = wb.mean(x, axis=1, keepdim=True)
        self.others.append(wb.sum(x))
        self.known.append(x - mean)

    def cast(self) -> None:
        wide = wb.cast(self.pick(), "float64")
        self.others.append(wide)
        self.known.append(wb.cast(wide * 0.5, "float32"))

    def added_up(self) -> None:
        x = self.pick()
        self.known.append(wb.add_n([x, self.pick(), x] if self.random.random() < 0.7 else [x]))

    def overwritten(self) -> None:
        """Writes a variable again, from which no gradient is taken."""
        x = wb.assign(self.pick())
        x.stop_gradient = True
        for _ in range(self.random.randint(1, 2)):
            x.block.append_op("scale", {"X": x}, {"Out": x}, {"scale": 0.5, "bias": 0.25})
        self.known.append(wb.tanh(self.pick()) + x)

    def detached(self) -> None:
        x = self.pick()
        more = wb.greater_than(x, self.pick())
        self.others.append(more)
        self.known.append(wb.where(more, x, wb.tanh(x)))

    def normalised(self) -> None:
        x = self.pick()
        self.known.append(static.nn.batch_norm(x) if self.random.random() < 0.5 else F.softmax(x))

    def compared(self) -> None:
        self.others.append(wb.argmax(self.pick(), axis=1))
        self.others.append(wb.cast(self.ids, "float32") * 2.0)

    def dynamic(self) -> None:
        """A value whose shape is known only when it runs, and one that is known again."""
        x, more = self.pick(), wb.greater_than(wb.mean(self.pick()), wb.full([1], 0.0))
        branched = wb.tanh(static.nn.cond(more, lambda: wb.concat([x, x], axis=0), lambda: x * 0.5))
        self.others.append(branched)
        self.known.append(self.pick() + wb.mean(branched * branched, axis=0, keepdim=True) * 0.1)

    def counted(self) -> None:
        block = self.known[0].block
        name = f"kept_{len(block.vars)}"
        start = static.default_startup_program().global_block()
        for where in (block, start):
            where.create_var(name, [1], "float32", persistable=True)
        start.append_op("fill_constant", {}, {"Out": name}, {"shape": [1], "value": 0.5, "dtype": "float32"})
        kept = block.var(name)
        kept.stop_gradient = True
        if self.random.random() < 0.5:
            self.known.append(self.pick() + kept)  # its gradient does not need the value
        for _ in range(self.random.randint(1, 2)):
            block.append_op("scale", {"X": kept}, {"Out": kept}, {"scale": 0.9, "bias": 0.01})
        if self.random.random() < 0.5:
            self.known.append(self.pick() + kept)

    def embedded(self) -> None:
        attr = wb.ParamAttr(name=self.random.choice(["table_a", "table_b"]))
        rows = static.nn.embedding(self.ids, [6, WIDTH], is_sparse=True, param_attr=attr)
        self.known.append(wb.reshape(rows, [-1, WIDTH]))
        if self.random.random() < 0.3:  # a dense gradient of the same table
            table = self.known[0].block.var(attr.name)
            self.known.append(self.pick() + wb.mean(table, axis=0, keepdim=True))

    def branch(self) -> None:
        x, y = wb.tanh(self.pick()), self.pick()
        positive = wb.greater_than(wb.mean(x), wb.full([1], 0.0))
        twice = lambda: wb.reshape(wb.reshape(x, [-1]) * 2.0, [-1, WIDTH]) * x  # noqa: E731
        self.known.append(static.nn.cond(positive, twice, lambda: wb.tanh(y) - x))

    def loop(self) -> None:
        x, y = wb.tanh(self.pick()), self.pick()
        i, n = wb.zeros([1], "int64"), wb.full([1], self.random.randint(0, 3), "int64")
        _, out = static.nn.while_loop(lambda i, v: i < n, lambda i, v: [i + 1, wb.tanh(v * x + y)], [i, x])
        self.known.append(out)


def random_model(random: Random, size: int, sparse: bool = True, control: bool = False) -> Model:
    """A model made of some `size` operations; it learns if it has parameters."""
    models: list[Growing] = []

    def body() -> Any:
        growing = Growing(random, sparse, control)
        models.append(growing)
        growing.layer()
        for _ in range(size):
            growing.grow()
        growing.layer()  # there is something to learn
        tail = [wb.mean(wb.tanh(v)) for v in growing.known[-3:]]
        return wb.mean(wb.add_n(tail + tail[:1]))

    model = build(body, _optimizer(random), seed=random.randint(1, 99))
    if random.random() < 0.4:
        _follow(model, random)
    return model


def _optimizer(random: Random) -> Any:
    rate = random.choice([0.1, 0.1, wb.optimizer.lr.ExponentialDecay(0.1, 0.9)])
    clip = random.choice([None, None, wb.nn.ClipGradByGlobalNorm(0.1), wb.nn.ClipGradByValue(0.05)])
    decay = random.choice([None, None, wb.regularizer.L2Decay(0.01)])
    rule = random.choice([wb.optimizer.SGD, wb.optimizer.Momentum, wb.optimizer.Adam])
    return rule(learning_rate=rate, grad_clip=clip, weight_decay=decay)


def _follow(model: Model, random: Random) -> None:
    """Read some parameters after their update, and write one of them again."""
    parameters = [p for p in model.main.all_parameters() if not p.stop_gradient]
    role = random.choice([FORWARD, OPTIMIZE])
    with static.program_guard(model.main, model.startup), model.main.role_guard(role):
        for p in parameters[:2]:
            wb.scale(p, 0.5)
        if random.random() < 0.5:
            p = parameters[0]
            p.block.append_op("scale", {"X": p}, {"Out": p}, {"scale": 0.99, "bias": 0.0})


def feed(seed: int, rows: int) -> dict[str, np.ndarray]:
    """A batch for a random model."""
    r = np.random.default_rng(seed)
    x, y = r.standard_normal((2, rows, WIDTH), dtype=np.float32)
    return {"x": x, "y": y, "ids": r.integers(0, 6, (rows, 1))}


def names_to_fetch(model: Model, random: Random, count: int) -> list[str]:
    """Some variables of the program that can be fetched."""
    block = model.main.global_block()
    touched = dict.fromkeys(n for op in block.ops for n in (*op.input_arg_names, *op.output_arg_names))
    usable = [n for n in touched if block.has_var(n) and block.var(n).spec.kind != "stack"]
    return [model.loss.name, *random.sample(usable, min(count, len(usable)))]
