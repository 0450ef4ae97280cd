"""Gradient descent with momentum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.errors import Unimplemented
from workbench.ops.update.update import update_op
from workbench.optimizer.checks import checked_flag, checked_number
from workbench.optimizer.clip import ClipGradBase
from workbench.optimizer.groups import GroupOption
from workbench.optimizer.lr import LRScheduler
from workbench.optimizer.optimizer import Optimizer

OFFERED = {"workbench.optimizer": "Momentum"}


@update_op("momentum", "Velocity", attrs={"mu": 0.9, "use_nesterov": False})
def MOMENTUM_UPDATE(xp: Any, p: Any, g: Any, lr: Any, v: Any, mu: float, use_nesterov: bool) -> tuple[Any, ...]:
    """v = mu v + g; p -= lr v, or lr (g + mu v) with Nesterov's acceleration."""
    v = mu * v + g
    return p - lr * (g + mu * v if use_nesterov else v), v


class Momentum(Optimizer):
    """velocity = momentum * velocity + grad; param -= learning_rate * velocity.

    The rate is not part of the velocity, so a change of rate acts at once.

    Args:
        momentum: factor on the velocity.
        use_nesterov: param -= learning_rate * (grad + momentum * velocity), with the new velocity.
        multi_precision: keep float32 copies of half-precision parameters, and update those.
        rescale_grad: only 1.0; scale the loss instead.
        use_multi_tensor: accepted for Paddle's sake; updates of a program are joined anyway.
        Others: see `Optimizer`.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> loss = wb.mean(static.nn.fc(x, 2))
        >>> ops, pairs = wb.optimizer.Momentum(0.1, momentum=0.9).minimize(loss)
        >>> [op.type for op in ops]
        ['momentum', 'momentum']
    """

    op = MOMENTUM_UPDATE
    options = {
        **Optimizer.options,
        "momentum": GroupOption("_momentum", checked_number, "mu"),
        "use_nesterov": GroupOption("_use_nesterov", checked_flag, "use_nesterov"),
    }

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        momentum: float = 0.9,
        parameters: Sequence[Any] | None = None,
        use_nesterov: bool = False,
        weight_decay: Any = None,
        grad_clip: ClipGradBase | None = None,
        multi_precision: bool = False,
        rescale_grad: float = 1.0,
        use_multi_tensor: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._multi_precision = bool(multi_precision)
        self._set_options(momentum=momentum, use_nesterov=use_nesterov)
        if rescale_grad != 1.0:
            raise Unimplemented(f"Momentum: rescale_grad={rescale_grad!r} is not supported; scale the loss instead")
