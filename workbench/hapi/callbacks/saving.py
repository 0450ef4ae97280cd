"""Saving a model every few epochs."""

from __future__ import annotations

import os

from workbench.hapi.callbacks.callback import Callback, Logs


class SavingCallback(Callback):
    """Saves parameters and optimizer every `save_freq` epochs as `save_dir/<epoch>`, in the end as `save_dir/final`.

    Args:
        save_freq: epochs between two files. save_dir: folder; nothing is saved if it is None.

    Example:
        >>> saving = wb.callbacks.ModelCheckpoint(save_freq=2, save_dir="checkpoints")
    """

    def __init__(self, save_freq: int = 1, save_dir: str | os.PathLike[str] | None = None) -> None:
        super().__init__()
        self.save_freq, self.save_dir = save_freq, save_dir
        self._epoch = 0

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self._epoch = epoch

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if self._epoch % self.save_freq == 0:
            self._save(str(epoch))

    def on_train_end(self, logs: Logs = None) -> None:
        self._save("final")

    def _save(self, name: str) -> None:
        if self.save_dir is not None and self.model is not None:
            self.model.save(os.path.join(self.save_dir, name))
