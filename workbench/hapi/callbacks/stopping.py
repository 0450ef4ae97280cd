"""Stopping when a metric does not improve any more."""

from __future__ import annotations

import os

from workbench.hapi.callbacks.callback import Callback, Logs
from workbench.hapi.callbacks.monitor import Monitor


class EarlyStopping(Callback):
    """Ends `fit` when a metric of the evaluations has not improved for more than `patience` of them.

    Args:
        monitor: name of the metric. mode: "min", "max", or "auto": "max" for accuracies, else "min".
        patience: evaluations without improvement that are tolerated. verbose: print what is done.
        min_delta: what counts as an improvement. baseline: what has to be surpassed.
        save_best_model: save the best model as `best_model` in the folder `fit` saves to.

    Example:
        >>> stopping = wb.callbacks.EarlyStopping("acc", patience=2)
    """

    def __init__(
        self,
        monitor: str = "loss",
        mode: str = "auto",
        patience: int = 0,
        verbose: int = 1,
        min_delta: float = 0,
        baseline: float | None = None,
        save_best_model: bool = True,
    ) -> None:
        super().__init__()
        self._monitor = Monitor(monitor, mode, min_delta)
        self.patience, self.verbose, self.baseline = patience, verbose, baseline
        self.save_best_model = save_best_model
        self.save_dir: str | os.PathLike[str] | None = None
        self.wait_epoch = self.stopped_epoch = 0

    def on_train_begin(self, logs: Logs = None) -> None:
        self._monitor.reset(self.baseline)
        self.wait_epoch = 0

    def on_eval_end(self, logs: Logs = None) -> None:
        improved = self._monitor.improves(logs)
        if improved is None:
            return
        if improved:
            self.wait_epoch = 0
            if self.save_best_model and self.save_dir is not None:
                self.model.save(os.path.join(self.save_dir, "best_model"))
        else:
            self.wait_epoch += 1
        if self.wait_epoch >= self.patience:
            self.model.stop_training = True
            if self.verbose:
                print(f"Epoch {self.stopped_epoch + 1}: Early stopping.")
                if self.save_best_model and self.save_dir is not None:
                    best = os.path.abspath(os.path.join(self.save_dir, "best_model"))
                    print(f"Best checkpoint has been saved at {best}")
        self.stopped_epoch += 1
