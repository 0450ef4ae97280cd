"""RMSProp."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.errors import ShapeError
from workbench.ops.update.update import update_op
from workbench.optimizer.checks import checked_beta, checked_flag, checked_number
from workbench.optimizer.clip import ClipGradBase
from workbench.optimizer.groups import GroupOption, of_the_op
from workbench.optimizer.lr import LRScheduler
from workbench.optimizer.optimizer import Optimizer
from workbench.optimizer.states import Accumulator

OFFERED = {"workbench.optimizer": "RMSProp"}


def _require_mean(*specs: Any, centered: bool, **attrs: Any) -> None:
    if centered and specs[-1] is None:
        raise ShapeError("centred RMSProp needs its mean gradient", "an input MeanGrad", "nothing")


@update_op(
    "rmsprop",
    "MeanSquare, Moment, MeanGrad?",
    attrs={"decay": 0.9, "epsilon": 1e-10, "momentum": 0.0, "centered": False},
    require=_require_mean,
)
def RMSPROP_UPDATE(
    xp: Any, p: Any, g: Any, lr: Any, s: Any, u: Any, mean_grad: Any,
    decay: float, epsilon: float, momentum: float, centered: bool,
) -> tuple[Any, ...]:  # fmt: skip
    """s = rho s + (1 - rho) g^2; u = mu u + lr g / sqrt(s + eps); p -= u.

    `centered` takes the squared mean gradient off s under the root.
    """
    s = decay * s + (1 - decay) * (g * g)
    spread = s
    if centered:
        mean_grad = decay * mean_grad + (1 - decay) * g
        spread = s - mean_grad * mean_grad
    u = momentum * u + lr * (g / xp.sqrt(spread + epsilon))
    return p - u, s, u, mean_grad


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

    op = RMSPROP_UPDATE
    options = {
        **Optimizer.options,
        "rho": GroupOption("_rho", checked_beta, "decay"),
        **of_the_op(epsilon=checked_number, momentum=checked_number, centered=checked_flag),
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
        self._set_options(rho=rho, epsilon=epsilon, momentum=momentum, centered=centered)

    def accumulators(self) -> tuple[Accumulator, ...]:
        return (
            Accumulator("momentum", "Moment"),
            Accumulator("mean_square", "MeanSquare"),
            Accumulator("mean_grad", "MeanGrad"),
        )
