"""RMSProp."""

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


class RMSProp(Optimizer):
    """Steps by the gradient over the root of the running mean of its square.

        mean_square = rho * mean_square + (1 - rho) * grad^2
        momentum = momentum_factor * momentum + learning_rate * grad / sqrt(mean_square + epsilon)
        param -= momentum

    Args:
        rho: in [0, 1). epsilon: at least 0, inside the root.
        momentum: the factor above.
        centered: subtract the square of the running mean of the gradient inside the root.
        Others: see `Optimizer`.

    Source: Tieleman and Hinton, lecture 6.5 of "Neural Networks for Machine Learning", 2012; centred: Graves,
    "Generating Sequences With Recurrent Neural Networks", 2013.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> loss = wb.mean(static.nn.fc(x, 2))
        >>> ops, pairs = wb.optimizer.RMSProp(0.01).minimize(loss)
        >>> [op.type for op in ops]
        ['rmsprop', 'rmsprop']
    """

    op_type = update.RMSPROP.type
    options = {
        **Optimizer.options,
        "rho": GroupOption("_rho", checked_beta),
        "epsilon": GroupOption("_epsilon", checked_number),
        "momentum": GroupOption("_momentum", checked_number),
        "centered": GroupOption("_centered", lambda owner, what, value: bool(value)),
    }

    def __init__(
        self,
        learning_rate: float | LRScheduler,
        rho: float = 0.95,
        epsilon: float = 1e-06,
        momentum: float = 0.0,
        centered: bool = False,
        parameters: Sequence[Any] | None = None,
        weight_decay: Any = None,
        grad_clip: ClipGradBase | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._rho, self._epsilon = (
            checked_beta("RMSProp", "rho", rho),
            checked_number("RMSProp", "epsilon", epsilon),
        )
        self._momentum, self._centered = checked_number("RMSProp", "momentum", momentum), bool(centered)

    def accumulators(self) -> tuple[Accumulator, ...]:
        return (
            Accumulator("momentum", "Moment"),
            Accumulator("mean_square", "MeanSquare"),
            Accumulator("mean_grad", "MeanGrad"),
        )

    def attributes(self, parameter: Any) -> dict[str, Any]:
        return {
            "decay": self._rho,
            "epsilon": self._epsilon,
            "momentum": self._momentum,
            "centered": self._centered,
        }
