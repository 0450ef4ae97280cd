"""Schedules that are given as a function of the epoch. Public with the others in `lr`."""

from __future__ import annotations

import math
from collections.abc import Callable

from workbench.errors import InvalidType
from workbench.optimizer.lr.schedule import LRScheduler


class LambdaDecay(LRScheduler):
    """base_lr * lr_lambda(e). It holds a function, so it is not saved with a program; its state is.

    Example:
        >>> rate = wb.optimizer.lr.LambdaDecay(0.1, lr_lambda=lambda epoch: 0.5**epoch)
        >>> for epoch in range(3):
        ...     print(round(rate(), 5), end=' ')
        ...     rate.step()
        0.1 0.05 0.025
    """

    def __init__(
        self,
        learning_rate: float,
        lr_lambda: Callable[[int], float],
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not callable(lr_lambda):
            raise InvalidType(f"lr_lambda must be a function of the epoch, got {lr_lambda!r}")
        self.lr_lambda = lr_lambda
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * self.lr_lambda(self.last_epoch)


class MultiplicativeDecay(LRScheduler):
    """base_lr * lr_lambda(1) * ... * lr_lambda(e). It holds a function, so only its state is saved.

    Example:
        >>> rate = wb.optimizer.lr.MultiplicativeDecay(0.1, lr_lambda=lambda epoch: 0.5)
        >>> for epoch in range(3):
        ...     print(round(rate(), 5), end=' ')
        ...     rate.step()
        0.1 0.05 0.025
    """

    def __init__(
        self,
        learning_rate: float,
        lr_lambda: Callable[[int], float],
        last_epoch: int = -1,
        verbose: bool = False,
    ) -> None:
        if not callable(lr_lambda):
            raise InvalidType(f"lr_lambda must be a function of the epoch, got {lr_lambda!r}")
        self.lr_lambda = lr_lambda
        super().__init__(learning_rate, last_epoch, verbose)

    def get_lr(self) -> float:
        return self.base_lr * math.prod(self.lr_lambda(epoch) for epoch in range(1, self.last_epoch + 1))
