"""Where a training run is."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from workbench.experiments.training.loops.kept import KeptFiles


class Position(NamedTuple):
    """Where a run is.

    Attributes:
        step: steps done. passes: begun ones but the last; batches: taken in the last one.
        metric: sum and number of the first fetches since the schedules took a step, where one follows them.
        history, validated, val_labels: as in `Run`.
        kept: the checkpoints that are kept beside this one; None if none are.
    """

    step: int
    passes: int
    batches: int
    metric: tuple[float, int]
    history: dict[str, list[float]]
    validated: list[int]
    val_labels: tuple[str, ...]
    kept: KeptFiles | None = None

    def recording(self, labels: Iterable[str], val_labels: Iterable[str]) -> Position:
        """The same for a run that records these; what was not recorded so far is NaN in the steps before."""
        history = {label: list(values) for label, values in self.history.items()}
        for names, count in ((labels, self.step), (val_labels, len(self.validated))):
            for label in names:
                values = history.setdefault(label, [])
                values += [math.nan] * (count - len(values))
        return self._replace(history=history, val_labels=tuple(dict.fromkeys((*self.val_labels, *val_labels))))
