"""Monitor: the best value of a metric so far."""

from __future__ import annotations

import math

from workbench.errors import InvalidArgument
from workbench.framework.notice import tell
from workbench.hapi.callbacks.callback import Logs


class Monitor:
    """Looks whether a metric improves from evaluation to evaluation.

    Args:
        metric: its name in `logs`. mode: "min", "max", or "auto": "max" for accuracies, else "min".
        min_delta: an improvement is more than this.

    Raises:
        InvalidArgument: an unknown mode.
    """

    def __init__(self, metric: str, mode: str, min_delta: float) -> None:
        if mode not in ("auto", "min", "max"):
            raise InvalidArgument(f"mode must be 'auto', 'min' or 'max', got {mode!r}")
        self.metric, self.min_delta = metric, abs(min_delta)
        self.rises = mode == "max" or (mode == "auto" and "acc" in metric)
        self.reset()

    def reset(self, best: float | None = None) -> None:
        """Begin anew, from a value to be surpassed."""
        self.best = best if best is not None else -math.inf if self.rises else math.inf

    def improves(self, logs: Logs) -> bool | None:
        """Whether the metric is better than the best one, which it then is; None if there is no such metric."""
        if not logs or self.metric not in logs:
            tell(f"there is no metric {self.metric!r} to watch; there are {', '.join(sorted(logs or {}))}")
            return None
        value = logs[self.metric]
        current = float(value[0] if isinstance(value, list | tuple) else value)
        better = current - self.min_delta > self.best if self.rises else current + self.min_delta < self.best
        if better:
            self.best = current
        return better
