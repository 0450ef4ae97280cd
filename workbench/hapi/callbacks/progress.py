"""Progress printed line by line, or as a bar."""

from __future__ import annotations

import sys
import time
from typing import Any

from workbench.hapi.callbacks.callback import Callback, Logs

_WIDTH = 30  # characters of the bar


class ProgBarLogger(Callback):
    """Prints losses, metrics and the time per step.

    Args:
        log_freq: steps between two lines. verbose: 0 nothing, 1 a bar, 2 lines.

    Example:
        >>> progress = wb.callbacks.ProgBarLogger(log_freq=10, verbose=2)
    """

    def __init__(self, log_freq: int = 1, verbose: int = 2) -> None:
        super().__init__()
        self.log_freq, self.verbose = log_freq, verbose
        self._begun, self._seen, self._told = 0.0, 0, False
        self._steps: int | None = None
        self._metrics: list[str] = []

    def on_train_begin(self, logs: Logs = None) -> None:
        self._metrics = self.params["metrics"]
        if self.verbose:
            print(
                "The loss value printed in the log is the current step, "
                "and the metric is the average value of previous steps."
            )

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self._begin(self.params["steps"])
        if self.verbose and self.params["epochs"]:
            print(f"Epoch {epoch + 1}/{self.params['epochs']}")

    def on_train_batch_end(self, step: int, logs: Logs = None) -> None:
        self._after(step, logs)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self._end(logs)

    def on_eval_begin(self, logs: Logs = None) -> None:
        self._metrics = (logs or {}).get("metrics", [])
        self._begin((logs or {}).get("steps"))
        if self.verbose:
            print("Eval begin...")

    def on_eval_batch_end(self, step: int, logs: Logs = None) -> None:
        self._after(step, logs)

    def on_eval_end(self, logs: Logs = None) -> None:
        self._end(logs)
        if self.verbose:
            print(f"Eval samples: {self._seen}")

    def on_predict_begin(self, logs: Logs = None) -> None:
        self._metrics = []
        self._begin((logs or {}).get("steps"))
        if self.verbose:
            print("Predict begin...")

    def on_predict_batch_end(self, step: int, logs: Logs = None) -> None:
        self._after(step, logs)

    def on_predict_end(self, logs: Logs = None) -> None:
        self._end(logs)
        if self.verbose:
            print(f"Predict samples: {self._seen}")

    def _begin(self, steps: int | None) -> None:
        self._begun, self._steps, self._seen, self._told = time.monotonic(), steps, 0, False

    def _after(self, step: int, logs: Logs) -> None:
        self._seen += (logs or {}).get("batch_size", 0)
        self._told = (step + 1) % self.log_freq == 0 and step + 1 != self._steps
        if self._told:
            self._tell(step + 1, logs, is_last=False)

    def _end(self, logs: Logs) -> None:
        if logs and "step" in logs and not self._told:
            self._tell(logs["step"] + 1, logs, is_last=True)
        elif self.verbose == 1:
            print()

    def _tell(self, steps: int, logs: Logs, is_last: bool) -> None:
        if not self.verbose:
            return
        of = "" if self._steps is None else f"/{self._steps}"
        values = "".join(_described(name, (logs or {}).get(name)) for name in self._metrics)
        pace = (time.monotonic() - self._begun) / steps
        if self.verbose == 1 and self._steps is not None:
            left = "" if is_last else f" - ETA: {pace * (self._steps - steps):.0f}s"
            sys.stdout.write(f"\rstep {steps}{of} {_bar(steps, self._steps)}{values}{left} - {_duration(pace)}/step")
            sys.stdout.write("\n" if is_last else "")
            sys.stdout.flush()
        else:
            print(f"step {steps}{of}{values} - {_duration(pace)}/step")


def _bar(done: int, total: int) -> str:
    if done >= total:
        return f"[{'=' * _WIDTH}]"
    filled = max(1, _WIDTH * done // total)
    return f"[{'=' * (filled - 1)}>{'.' * (_WIDTH - filled)}]"


def _described(name: str, value: Any) -> str:
    if value is None:
        return ""
    numbers = value if isinstance(value, list | tuple) else [value]
    return f" - {name}: " + " ".join(f"{float(number):.4f}" for number in numbers)


def _duration(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.0f}s"
    return f"{seconds * 1e3:.0f}ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f}us"
