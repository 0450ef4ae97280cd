"""Adadelta."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.ops.update.update import update_op
from workbench.optimizer.checks import checked_beta, checked_number
from workbench.optimizer.clip import ClipGradBase
from workbench.optimizer.groups import of_the_op
from workbench.optimizer.lr import LRScheduler
from workbench.optimizer.optimizer import Optimizer
from workbench.optimizer.states import Accumulator

OFFERED = {"workbench.optimizer": "Adadelta"}


@update_op("adadelta", "AvgSquaredGrad, AvgSquaredUpdate", attrs={"rho": 0.95, "epsilon": 1e-6})
def ADADELTA_UPDATE(xp: Any, p: Any, g: Any, lr: Any, s: Any, u: Any, rho: float, epsilon: float) -> tuple[Any, ...]:
    """s = rho s + (1 - rho) g^2; d = sqrt((u + eps) / (s + eps)) g; u = rho u + (1 - rho) d^2; p -= lr d."""
    s = rho * s + (1 - rho) * (g * g)
    step = xp.sqrt((u + epsilon) / (s + epsilon)) * g
    return p - lr * step, s, rho * u + (1 - rho) * (step * step)


class Adadelta(Optimizer):
    """Steps by the gradient times the ratio of the running sizes of steps and gradients.

        avg_squared_grad = rho * avg_squared_grad + (1 - rho) * grad^2
        step = sqrt((avg_squared_update + epsilon) / (avg_squared_grad + epsilon)) * grad
        avg_squared_update = rho * avg_squared_update + (1 - rho) * step^2
        param -= learning_rate * step

    Args:
        epsilon: at least 0. rho: in [0, 1).
        Others: see `Optimizer`.

    Source: Zeiler, "ADADELTA: An Adaptive Learning Rate Method", 2012.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> loss = wb.mean(static.nn.fc(x, 2))
        >>> ops, pairs = wb.optimizer.Adadelta(1.0).minimize(loss)
        >>> [op.type for op in ops]
        ['adadelta', 'adadelta']
    """

    op = ADADELTA_UPDATE
    options = Optimizer.options | of_the_op(epsilon=checked_number, rho=checked_beta)

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        epsilon: float = 1e-06,
        rho: float = 0.95,
        parameters: Sequence[Any] | None = None,
        weight_decay: Any = None,
        grad_clip: ClipGradBase | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._set_options(epsilon=epsilon, rho=rho)

    def accumulators(self) -> tuple[Accumulator, ...]:
        return (
            Accumulator("_avg_squared_grad", "AvgSquaredGrad"),
            Accumulator("_avg_squared_update", "AvgSquaredUpdate"),
        )
