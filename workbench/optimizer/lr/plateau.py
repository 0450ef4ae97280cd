"""`ReduceOnPlateau`: the schedule that is moved by a metric instead of the epoch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, InvalidType
from workbench.framework.values.portable import portable
from workbench.optimizer.lr.schedule import LRScheduler, choice, number, rate, shrinking


@portable
class ReduceOnPlateau(LRScheduler):
    """Multiply the rate by `factor` when a metric has not improved for more than `patience` steps.

    Args:
        mode: "min": the metric should fall; "max": it should rise.
        factor: below 1.
        patience: steps without improvement that are still tolerated.
        threshold, threshold_mode: an improvement is more than `threshold * best` ("rel") or `threshold`
            ("abs").
        cooldown: steps after a reduction in which the metric is not looked at.
        min_lr: lower bound of the rate.
        epsilon: a reduction by less than this is not made.

    A metric that is not a number never counts as the best; apart from that the rule is Paddle's.

    Example:
        >>> rate = wb.optimizer.lr.ReduceOnPlateau(0.1, patience=0)
        >>> for loss in (1.0, 2.0):
        ...     rate.step(loss)
        >>> round(rate(), 4)
        0.01
    """

    def __init__(
        self,
        learning_rate: float,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float = 0,
        epsilon: float = 1e-8,
        verbose: bool = False,
    ) -> None:
        self.mode = choice("mode", mode, ("min", "max"))
        self.factor = shrinking("factor", factor)
        self.patience = patience
        self.threshold = number("threshold", threshold)
        self.threshold_mode = choice("threshold_mode", threshold_mode, ("rel", "abs"))
        self.cooldown = cooldown
        self.min_lr = number("min_lr", min_lr)
        self.epsilon = number("epsilon", epsilon)
        self.cooldown_counter = 0
        self.best: float | None = None
        self.num_bad_epochs = 0
        # Not the base constructor: it makes a step, which here needs a metric.
        self.base_lr = rate("learning_rate", learning_rate)
        self.last_lr = self.base_lr
        self.last_epoch = 0
        self.verbose = verbose

    def state_keys(self) -> None:
        self.keys = ["cooldown_counter", "best", "num_bad_epochs", "last_epoch", "last_lr"]

    def get_lr(self) -> float:
        """The current rate, which only `step(metrics)` moves."""
        return self.last_lr

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Take note of a metric: a number, or an array with one element.

        Raises:
            InvalidType, InvalidArgument: not a number; more than one element.
        """
        metric = _metric(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else int(epoch)
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            return
        if self._improves(metric):
            self.best = metric
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.num_bad_epochs > self.patience:
            self._reduce()

    def _improves(self, metric: float) -> bool:
        if math.isnan(metric):
            return False
        if self.best is None:
            return True
        margin = self.threshold * (self.best if self.threshold_mode == "rel" else 1.0)
        return metric < self.best - margin if self.mode == "min" else metric > self.best + margin

    def _reduce(self) -> None:
        self.cooldown_counter = self.cooldown
        self.num_bad_epochs = 0
        reduced = max(self.last_lr * self.factor, self.min_lr)
        if self.last_lr - reduced > self.epsilon:
            self.last_lr = reduced
            self._announce()


def _metric(metrics: Any) -> float:
    array = np.asarray(metrics)
    if array.dtype.kind not in "fiu":
        raise InvalidType(f"metrics must be a number, got {metrics!r}")
    if array.size != 1:
        shape = list(array.shape)
        raise InvalidArgument(f"metrics must have one element, got shape {shape}: reduce it first, as by mean")
    return float(array.item())
