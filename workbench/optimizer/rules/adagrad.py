"""Adagrad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.ops.update.update import update_op
from workbench.optimizer.checks import checked_number
from workbench.optimizer.clip import ClipGradBase
from workbench.optimizer.groups import of_the_op
from workbench.optimizer.lr import LRScheduler
from workbench.optimizer.optimizer import Optimizer
from workbench.optimizer.states import Accumulator

OFFERED = {"workbench.optimizer": "Adagrad"}


@update_op("adagrad", "Moment", attrs={"epsilon": 1e-6}, touched_only=True)
def ADAGRAD_UPDATE(xp: Any, p: Any, g: Any, lr: Any, s: Any, epsilon: float) -> tuple[Any, ...]:
    """s += g^2; p -= lr g / (sqrt(s) + eps)."""
    s = s + g * g
    return p - lr * (g / (xp.sqrt(s) + epsilon)), s


class Adagrad(Optimizer):
    """moment += grad^2; param -= learning_rate * grad / (sqrt(moment) + epsilon).

    Args:
        epsilon: at least 0.
        initial_accumulator_value: what `moment` starts from.
        Others: see `Optimizer`.

    Source: Duchi, Hazan and Singer, "Adaptive Subgradient Methods for Online Learning", JMLR 12, 2011.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> loss = wb.mean(static.nn.fc(x, 2))
        >>> ops, pairs = wb.optimizer.Adagrad(0.1).minimize(loss)
        >>> [op.type for op in ops]
        ['adagrad', 'adagrad']
    """

    op = ADAGRAD_UPDATE
    options = Optimizer.options | of_the_op(epsilon=checked_number)

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        epsilon: float = 1e-06,
        parameters: Sequence[Any] | None = None,
        weight_decay: Any = None,
        grad_clip: ClipGradBase | None = None,
        name: str | None = None,
        initial_accumulator_value: float = 0.0,
    ) -> None:
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._set_options(epsilon=epsilon)
        self._initial = checked_number("Adagrad", "initial_accumulator_value", initial_accumulator_value)

    def accumulators(self) -> tuple[Accumulator, ...]:
        return (Accumulator("moment", "Moment", self._initial),)
