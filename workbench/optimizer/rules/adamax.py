"""Adamax."""

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


class Adamax(Optimizer):
    """Adam with the largest gradient seen in place of the root of the mean square.

        moment = beta1 * moment + (1 - beta1) * grad
        inf_norm = max(|grad|, beta2 * inf_norm + epsilon)
        param -= learning_rate / (1 - beta1^t) * moment / inf_norm

    Args:
        beta1, beta2: in [0, 1). epsilon: at least 0.
        Others: see `Optimizer`.

    Source: Kingma and Ba, "Adam: A Method for Stochastic Optimization", 2015, section 7.1.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> loss = wb.mean(static.nn.fc(x, 2))
        >>> ops, pairs = wb.optimizer.Adamax(0.001).minimize(loss)
        >>> [op.type for op in ops]
        ['adamax', 'adamax']
    """

    op_type = update.ADAMAX.type
    options = {
        **Optimizer.options,
        "beta1": GroupOption("_beta1", checked_beta),
        "beta2": GroupOption("_beta2", checked_beta),
        "epsilon": GroupOption("_epsilon", checked_number),
    }

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-08,
        parameters: Sequence[Any] | None = None,
        weight_decay: Any = None,
        grad_clip: ClipGradBase | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._beta1, self._beta2 = (
            checked_beta("Adamax", "beta1", beta1),
            checked_beta("Adamax", "beta2", beta2),
        )
        self._epsilon = checked_number("Adamax", "epsilon", epsilon)

    def accumulators(self) -> tuple[Accumulator, ...]:
        return (
            Accumulator("moment", "Moment"),
            Accumulator("inf_norm", "InfNorm"),
            Accumulator("beta1_pow_acc", "Beta1Pow", self._beta1, scalar=True),
        )

    def attributes(self, parameter: Any) -> dict[str, Any]:
        return {"beta1": self._beta1, "beta2": self._beta2, "epsilon": self._epsilon}
