"""Accuracy: how many labels are among the k best classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.errors import InvalidArgument
from workbench.framework.values.dtype import float32
from workbench.metrics.metric import Metric, as_array
from workbench.ops.index.order.sort import topk
from workbench.ops.math.compare import equal
from workbench.ops.math.reductions.extreme import argmax


class Accuracy(Metric):
    """The share of rows whose label is among the k largest scores, for every k in `topk`.

    Args:
        topk: one or several k. name: of the metric, "acc" if None; with several k `<name>_top<k>`.

    Example:
        >>> accuracy = wb.metric.Accuracy(topk=(1, 2))
        >>> scores = wb.to_tensor([[0.1, 0.2, 0.7], [0.5, 0.3, 0.2]])
        >>> correct = accuracy.compute(scores, wb.to_tensor([[2], [1]]))
        >>> accuracy.update(correct)
        [0.5, 1.0]
        >>> accuracy.name()
        ['acc_top1', 'acc_top2']
    """

    def __init__(self, topk: int | Sequence[int] = (1,), name: str | None = None) -> None:
        self.topk = (topk,) if isinstance(topk, int) else tuple(topk)
        if not self.topk or any(isinstance(k, bool) or not isinstance(k, int) or k < 1 for k in self.topk):
            raise InvalidArgument(f"topk of Accuracy is one or several integers of at least 1, got {topk!r}")
        self._label = name or "acc"
        self.reset()

    def compute(self, pred: Any, label: Any, *args: Any) -> Any:
        """Which of the best classes of every row is its label.

        Args:
            pred: scores `[..., C]`. label: class numbers `[...]` or `[..., 1]`, or one number per class `[..., C]`.

        Returns:
            float32 `[..., max(topk)]`: 1 where a class is the label.
        """
        _, best = topk(pred, k=max(self.topk), axis=-1)
        if len(label.shape) == 1 or len(label.shape) < len(pred.shape):
            label = label.reshape([*label.shape, 1])
        elif label.shape[-1] != 1:
            label = argmax(label, axis=-1, keepdim=True)
        return equal(best, label.astype("int64")).astype(float32)

    def update(self, correct: Any, *args: Any) -> Any:
        """Count a batch.

        Args:
            correct: what `compute` gave.

        Returns:
            the accuracy of this batch; a list with several k.
        """
        hits = as_array("correct", correct)
        rows = hits[..., 0].size
        hit_counts = [float(hits[..., :k].sum()) for k in self.topk]
        for i, number in enumerate(hit_counts):
            self.total[i] += number
            self.count[i] += rows
        return _one_or_all([number / rows if rows else 0.0 for number in hit_counts])

    def reset(self) -> None:
        """Forget what was counted."""
        self.total, self.count = [0.0] * len(self.topk), [0] * len(self.topk)

    def accumulate(self) -> Any:
        """The accuracy of all batches; a list with several k."""
        return _one_or_all([t / c if c else 0.0 for t, c in zip(self.total, self.count)])

    def name(self) -> list[str]:
        """A name per k."""
        if len(self.topk) == 1:
            return [self._label]
        return [f"{self._label}_top{k}" for k in self.topk]


def _one_or_all(numbers: list[float]) -> Any:
    return numbers[0] if len(numbers) == 1 else numbers


class Precision(Metric):
    """Of two classes: how many of those said to be positive are, `tp / (tp + fp)`.

    Example:
        >>> precision = wb.metric.Precision()
        >>> precision.update(np.array([0.1, 0.6, 0.7]), np.array([0, 1, 0]))
        >>> precision.accumulate()
        0.5
    """

    def __init__(self, name: str = "precision") -> None:
        self._label = name
        self.reset()

    def update(self, preds: Any, labels: Any) -> None:
        """Count a batch.

        Args:
            preds: probabilities of the positive class, `[N]` or `[N, 1]`. labels: 0 or 1, likewise.
        """
        positive, truth = _binary(preds, labels)
        self.tp += int((positive & truth).sum())
        self.fp += int((positive & ~truth).sum())

    def reset(self) -> None:
        """Forget what was counted."""
        self.tp = self.fp = 0

    def accumulate(self) -> float:
        """The precision of all batches; 0 if nothing was said to be positive."""
        said = self.tp + self.fp
        return self.tp / said if said else 0.0

    def name(self) -> str:
        """Its name."""
        return self._label


class Recall(Metric):
    """Of two classes: how many positive ones were found, `tp / (tp + fn)`.

    Example:
        >>> recall = wb.metric.Recall()
        >>> recall.update(np.array([0.1, 0.6, 0.7]), np.array([1, 1, 0]))
        >>> recall.accumulate()
        0.5
    """

    def __init__(self, name: str = "recall") -> None:
        self._label = name
        self.reset()

    def update(self, preds: Any, labels: Any) -> None:
        """Count a batch.

        Args:
            preds: probabilities of the positive class, `[N]` or `[N, 1]`. labels: 0 or 1, likewise.
        """
        positive, truth = _binary(preds, labels)
        self.tp += int((positive & truth).sum())
        self.fn += int((~positive & truth).sum())

    def reset(self) -> None:
        """Forget what was counted."""
        self.tp = self.fn = 0

    def accumulate(self) -> float:
        """The recall of all batches; 0 if nothing is positive."""
        there = self.tp + self.fn
        return self.tp / there if there else 0.0

    def name(self) -> str:
        """Its name."""
        return self._label


def _binary(preds: Any, labels: Any) -> tuple[np.ndarray, np.ndarray]:
    """What is said to be positive (a probability above a half), and what is."""
    said, truth = as_array("preds", preds).reshape(-1), as_array("labels", labels).reshape(-1)
    if said.size != truth.size:
        raise InvalidArgument(f"there must be a label per prediction, got {said.size} predictions, {truth.size} labels")
    return np.floor(said + 0.5) == 1, truth == 1
