"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.ops.update.update import update_op
from workbench.optimizer.clip import ClipGradBase
from workbench.optimizer.lr import LRScheduler
from workbench.optimizer.optimizer import Optimizer

OFFERED = {"workbench.optimizer": "SGD"}


@update_op("sgd", touched_only=True)
def SGD_UPDATE(xp: Any, p: Any, g: Any, lr: Any) -> tuple[Any, ...]:
    """p -= lr g."""
    return (p - lr * g,)


class SGD(Optimizer):
    """param -= learning_rate * grad.

    Args:
        multi_precision: keep float32 copies of half-precision parameters, and update those.
        Others: see `Optimizer`.

    Example:
        >>> wb.enable_static()
        >>> x = static.data("x", [None, 4])
        >>> loss = wb.mean(static.nn.fc(x, 2))
        >>> ops, pairs = wb.optimizer.SGD(0.1).minimize(loss)
        >>> [op.type for op in ops]
        ['sgd', 'sgd']
    """

    op = SGD_UPDATE

    def __init__(
        self,
        learning_rate: float | LRScheduler = 0.001,
        parameters: Sequence[Any] | None = None,
        weight_decay: Any = None,
        grad_clip: ClipGradBase | None = None,
        multi_precision: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, parameters, weight_decay, grad_clip, name)
        self._multi_precision = bool(multi_precision)
