"""`fluid.metrics`: metrics of Paddle 1.x, given NumPy arrays that a program computed, and asked by `eval`."""

from __future__ import annotations

from typing import Any

import numpy as np

from workbench.errors import InvalidArgument, InvalidType, PreconditionNotMet
from workbench.metrics import accuracy, auc


class MetricBase:
    """What metrics of 1.x have in common: `update`, `eval`, `reset`. A subclass keeps numbers and arrays as attributes.

    Args:
        name: of the metric, that of its class if None.
    """

    def __init__(self, name: str | None) -> None:
        self._name = name if name is not None else type(self).__name__

    def __str__(self) -> str:
        return self._name

    def reset(self) -> None:
        """Set every number and array of the metric to 0 and every list to an empty one."""
        for attribute, value in self.get_config()["states"].items():
            if isinstance(value, np.ndarray | np.generic):
                setattr(self, attribute, np.zeros_like(value))
            elif isinstance(value, int | float | list | dict):
                setattr(self, attribute, type(value)())

    def get_config(self) -> dict[str, Any]:
        """Its name and what it counts."""
        own = {key: value for key, value in vars(self).items() if not key.startswith("_")}
        return {"name": self._name, "states": own}

    def update(self, *counts: Any, **named: Any) -> None:
        """Count a batch."""
        raise NotImplementedError(f"{type(self).__name__} defines no update")

    def eval(self) -> Any:
        """The metric of all that was counted."""
        raise NotImplementedError(f"{type(self).__name__} defines no eval")


class CompositeMetric(MetricBase):
    """Several metrics that are given the same predictions and labels.

    Example:
        >>> import workbench.fluid as fluid
        >>> both = fluid.metrics.CompositeMetric()
        >>> both.add_metric(fluid.metrics.Precision())
        >>> both.add_metric(fluid.metrics.Recall())
        >>> both.update(np.array([[0.9], [0.8], [0.1]]), np.array([[1], [0], [1]]))
        >>> both.eval()
        [0.5, 0.5]
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self._metrics: list[MetricBase] = []

    def add_metric(self, metric: MetricBase) -> None:
        """Add a metric.

        Raises:
            InvalidType: it is none.
        """
        if not isinstance(metric, MetricBase):
            raise InvalidType(f"CompositeMetric takes metrics of fluid.metrics, got {metric!r}")
        self._metrics.append(metric)

    def update(self, preds: Any, labels: Any) -> None:
        """Count a batch in each."""
        for metric in self._metrics:
            metric.update(preds, labels)

    def eval(self) -> list[Any]:
        """What each gives."""
        return [metric.eval() for metric in self._metrics]

    def reset(self) -> None:
        """Forget what was counted."""
        for metric in self._metrics:
            metric.reset()


class WeightedAccuracy(MetricBase):
    """The mean of accuracies, or of anything, of batches, weighted by their sizes.

    Example:
        >>> import workbench.fluid as fluid
        >>> accuracy = fluid.metrics.Accuracy()
        >>> accuracy.update(value=1.0, weight=1)
        >>> accuracy.update(value=0.5, weight=3)
        >>> accuracy.eval()
        0.625
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name or "Accuracy")
        self.value: Any = 0.0
        self.weight = 0.0

    def update(self, value: Any, weight: float) -> None:
        """Count a batch.

        Args:
            value: a number, or an array, of the batch. weight: its size.

        Raises:
            InvalidType: a value that is neither. InvalidArgument: a negative weight.
        """
        if not isinstance(value, int | float | np.ndarray | np.generic):
            raise InvalidType(f"Accuracy takes a number or an array as value, got {value!r}")
        if not weight >= 0:
            raise InvalidArgument(f"Accuracy takes a weight of at least 0, got {weight!r}")
        total: Any = value
        self.value = self.value + total * weight
        self.weight += weight

    def eval(self) -> Any:
        """The weighted mean.

        Raises:
            PreconditionNotMet: nothing was counted.
        """
        if not self.weight:
            raise PreconditionNotMet("Accuracy has counted nothing; give it what layers.accuracy computed, by update")
        return self.value / self.weight


class CountedMetric(MetricBase):
    """A metric that another one counts, the `paddle.metric` of the same name."""

    def __init__(self, name: str | None, counting: Any) -> None:
        super().__init__(name)
        self._counting = counting

    def update(self, preds: Any, labels: Any) -> None:
        """Count a batch of predictions and labels, NumPy arrays."""
        self._counting.update(np.asarray(preds), np.asarray(labels))

    def eval(self) -> Any:
        """The metric of all that was counted."""
        return self._counting.accumulate()

    def reset(self) -> None:
        """Forget what was counted."""
        self._counting.reset()


class BinaryPrecision(CountedMetric):
    """How many of the samples that are said to be positive are: scores `[N, 1]` above 0.5, labels 0 or 1 `[N, 1]`."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name or "Precision", accuracy.Precision())


class BinaryRecall(CountedMetric):
    """How many of the positive samples are said to be: scores `[N, 1]` above 0.5, labels 0 or 1 `[N, 1]`."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name or "Recall", accuracy.Recall())


class AreaUnderCurve(CountedMetric):
    """The area under the ROC curve, of probabilities `[N, 2]` and labels `[N, 1]`, in steps of 1 / `num_thresholds`."""

    def __init__(self, name: str | None, curve: str = "ROC", num_thresholds: int = 4095) -> None:
        super().__init__(name or "Auc", auc.Auc(curve, num_thresholds))
