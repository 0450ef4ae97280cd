"""Adadelta."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.ops.update import optimizers as update
from workbench.optimizer.checks import checked_beta, checked_number
from workbench.optimizer.clip import ClipGradBase
from workbench.optimizer.groups import GroupOption
from workbench.optimizer.lr import LRScheduler
from workbench.optimizer.optimizer import Optimizer
from workbench.optimizer.states import Accumulator


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

    op_type = update.ADADELTA.type
    options = {
        **Optimizer.options,
        "epsilon": GroupOption("_epsilon", checked_number),
        "rho": GroupOption("_rho", checked_beta),
    }

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
        self._epsilon, self._rho = checked_number("Adadelta", "epsilon", epsilon), checked_beta("Adadelta", "rho", rho)

    def accumulators(self) -> tuple[Accumulator, ...]:
        return (
            Accumulator("_avg_squared_grad", "AvgSquaredGrad"),
            Accumulator("_avg_squared_update", "AvgSquaredUpdate"),
        )

    def attributes(self, parameter: Any) -> dict[str, Any]:
        return {"rho": self._rho, "epsilon": self._epsilon}
