"""Adamax."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.ops.update.update import update_op
from workbench.optimizer.checks import checked_beta, checked_number
from workbench.optimizer.clip import ClipGradBase
from workbench.optimizer.groups import of_the_op
from workbench.optimizer.lr import LRScheduler
from workbench.optimizer.optimizer import Optimizer

OFFERED = {"workbench.optimizer": "Adamax"}


@update_op("adamax", "Moment, InfNorm", betas="beta1", attrs={"beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8})
def ADAMAX_UPDATE(
    xp: Any, p: Any, g: Any, lr: Any, m: Any, n: Any, beta1_power: Any, beta1: float, beta2: float, epsilon: float
) -> tuple[Any, ...]:
    """m = b1 m + (1 - b1) g; n = max(|g|, b2 n + eps); p -= lr / (1 - b1^t) m / n."""
    m = beta1 * m + (1 - beta1) * g
    n = xp.maximum(xp.abs(g), beta2 * n + epsilon)
    return p - (lr / (1 - beta1_power)) * (m / n), m, n


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

    op = ADAMAX_UPDATE
    options = Optimizer.options | of_the_op(beta1=checked_beta, beta2=checked_beta, epsilon=checked_number)

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
        self._set_options(beta1=beta1, beta2=beta2, epsilon=epsilon)
