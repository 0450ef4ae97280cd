"""Moving the learning rate on: by its schedule, or when a metric does not improve any more."""

from __future__ import annotations

from typing import Any

from workbench.errors import InvalidArgument
from workbench.hapi.callbacks.callback import Callback, Logs
from workbench.hapi.callbacks.monitor import Monitor
from workbench.optimizer.lr.schedule import LRScheduler


class ScheduleCallback(Callback):
    """Calls `step()` of the optimizer's schedule after every batch, or after every epoch.

    Args:
        by_step, by_epoch: after what; one of them.

    Raises:
        InvalidArgument: both or neither.

    Example:
        >>> stepping = wb.callbacks.LRScheduler(by_step=False, by_epoch=True)
    """

    def __init__(self, by_step: bool = True, by_epoch: bool = False) -> None:
        super().__init__()
        if by_step and by_epoch:
            raise InvalidArgument("by_step option is mutually exclusive with by_epoch")
        self.by_step, self.by_epoch = by_step, by_epoch

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if self.by_epoch:
            self._step()

    def on_train_batch_end(self, step: int, logs: Logs = None) -> None:
        if self.by_step:
            self._step()

    def _step(self) -> None:
        optimizer = self.model._optimizer
        schedule = None if optimizer is None else optimizer._learning_rate
        if isinstance(schedule, LRScheduler):
            schedule.step()


class PlateauCallback(Callback):
    """Multiplies the rate by `factor` when a metric of the evaluations has not improved for `patience` of them.

    Args:
        monitor: name of the metric. factor: below 1. patience: evaluations without improvement that are tolerated.
        verbose: print reductions. mode: "min", "max", or "auto": "max" for accuracies, else "min".
        min_delta: what counts as an improvement. cooldown: evaluations after a reduction that do not count.
        min_lr: lower bound of the rate.

    Raises:
        InvalidArgument: a factor of 1 or more.

    Example:
        >>> reducing = wb.callbacks.ReduceLROnPlateau(monitor="loss", factor=0.5, patience=3)
    """

    def __init__(
        self,
        monitor: str = "loss",
        factor: float = 0.1,
        patience: int = 10,
        verbose: int = 1,
        mode: str = "auto",
        min_delta: float = 1e-4,
        cooldown: int = 0,
        min_lr: float = 0,
    ) -> None:
        super().__init__()
        if factor >= 1.0:
            raise InvalidArgument(f"ReduceLROnPlateau does not support a factor >= 1.0, got {factor}")
        self._monitor = Monitor(monitor, mode, min_delta)
        self.factor, self.patience, self.verbose, self.min_lr = factor, patience, verbose, min_lr
        self.cooldown, self._cooling, self._waited = cooldown, 0, 0

    def on_train_begin(self, logs: Logs = None) -> None:
        self._monitor.reset()
        self._cooling = self._waited = 0

    def on_eval_end(self, logs: Logs = None) -> None:
        improved = self._monitor.improves(logs)
        if improved is None:
            return
        if self._cooling:
            self._cooling, self._waited = self._cooling - 1, 0
        if improved:
            self._waited = 0
        elif not self._cooling:
            self._waited += 1
            if self._waited >= self.patience:
                self._reduce(self.model._optimizer)

    def _reduce(self, optimizer: Any) -> None:
        self._cooling, self._waited = self.cooldown, 0
        if isinstance(optimizer._learning_rate, LRScheduler) or optimizer.get_lr() <= self.min_lr:
            return
        optimizer.set_lr(max(optimizer.get_lr() * self.factor, self.min_lr))
        if self.verbose:
            print(f"ReduceLROnPlateau: learning rate is now {optimizer.get_lr()}.")
