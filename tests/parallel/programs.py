"""Programs made by hypothesis, with random numbers in them."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import strategies as st

import workbench as wb
from tests.parallel.models import Model, build
from tests.parallel.random_models import Growing
from workbench import static

F = wb.nn.functional
CLIPS = [None, wb.nn.ClipGradByGlobalNorm, wb.nn.ClipGradByValue, wb.nn.ClipGradByNorm]


class Drawn(Growing):
    """A program that also draws random numbers."""

    def __init__(self, random: Random, sparse: bool, control: bool) -> None:
        super().__init__(random, sparse, control)
        self.kinds += [self.dropped]

    def dropped(self) -> None:
        self.known.append(F.dropout(self.pick(), self.random.choice([0.2, 0.5])))


def drawn_model(random: Random, size: int, sparse: bool = True, control: bool = True) -> Model:
    """A model of some `size` operations, with an optimizer, maybe a clip, a regulariser, a schedule."""

    def body() -> Any:
        growing = Drawn(random, sparse, control)
        growing.layer()
        for _ in range(size):
            growing.grow()
        growing.layer()
        return wb.mean(wb.add_n([wb.mean(wb.tanh(v)) for v in growing.known[-3:]]))

    return build(body, drawn_optimizer(random), seed=random.randint(1, 99))


def drawn_optimizer(random: Random) -> Any:
    rate = random.choice([0.1, wb.optimizer.lr.ExponentialDecay(0.1, 0.9)])
    clip = random.choice(CLIPS)
    decay = random.choice([None, wb.regularizer.L2Decay(0.01), wb.regularizer.L1Decay(0.01)])
    rule = random.choice(
        [wb.optimizer.SGD, wb.optimizer.Momentum, wb.optimizer.Adam, wb.optimizer.Adagrad, wb.optimizer.RMSProp]
    )
    return rule(learning_rate=rate, grad_clip=clip(0.05) if clip else None, weight_decay=decay)


randoms = st.randoms(use_true_random=False)  # decisions hypothesis can make simpler
sizes = st.integers(1, 5)


def strategies(mode: str = "AllReduce", threads: int = 1, **settings: Any) -> dict[str, Any]:
    """Strategies of an executor, by what its argument is called."""
    building, execution = static.BuildStrategy(), static.ExecutionStrategy()
    building.reduce_strategy = static.BuildStrategy.ReduceStrategy[mode]
    execution.num_threads = threads
    for name, value in settings.items():
        setattr(building if name in building.OPTIONS else execution, name, value)
    return {"build_strategy": building, "exec_strategy": execution}
