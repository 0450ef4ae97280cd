"""Auc: the area under the ROC curve."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.errors import InvalidArgument
from workbench.metrics.metric import Metric, as_array


class Auc(Metric):
    """How likely a positive example has a higher score than a negative one, from a histogram of scores.

    Args:
        curve: only "ROC". num_thresholds: scores are told apart in steps of one by this number. name: of the metric.

    Example:
        >>> auc = wb.metric.Auc()
        >>> auc.update(np.array([[0.2, 0.8], [0.6, 0.4], [0.3, 0.7]]), np.array([[1], [0], [0]]))
        >>> auc.accumulate()
        1.0
    """

    def __init__(self, curve: str = "ROC", num_thresholds: int = 4095, name: str = "auc") -> None:
        if curve != "ROC":
            raise InvalidArgument(f"Auc is the area under the curve 'ROC', got {curve!r}")
        self._label, self._thresholds = name, int(num_thresholds)
        self.reset()

    def update(self, preds: Any, labels: Any) -> None:
        """Count a batch.

        Args:
            preds: probabilities of both classes, `[N, 2]`, or of the positive one, `[N, 1]` or `[N]`.
            labels: 0 or 1, `[N]` or `[N, 1]`.
        """
        scores, truth = as_array("preds", preds), as_array("labels", labels).reshape(-1)
        scores = scores[:, -1] if scores.ndim == 2 else scores.reshape(-1)
        if scores.size != truth.size:
            raise InvalidArgument(f"there must be a label per row, got {scores.size} rows and {truth.size} labels")
        if scores.size and not (scores.min() >= 0 and scores.max() <= 1):
            raise InvalidArgument(f"Auc takes probabilities, got scores from {scores.min()} to {scores.max()}")
        bins = (scores * self._thresholds).astype(np.int64)
        for histogram, chosen in ((self._positive, truth != 0), (self._negative, truth == 0)):
            histogram += np.bincount(bins[chosen], minlength=self._thresholds + 1)

    def reset(self) -> None:
        """Forget what was counted."""
        self._positive, self._negative = (np.zeros(self._thresholds + 1, np.int64) for _ in range(2))

    def accumulate(self) -> float:
        """The area, 0 if there is only one class."""
        positive, negative = int(self._positive.sum()), int(self._negative.sum())
        if not (positive and negative):
            return 0.0
        below = np.cumsum(self._negative) - self._negative
        return float((self._positive * (below + self._negative / 2)).sum() / positive / negative)

    def name(self) -> str:
        """Its name."""
        return self._label
