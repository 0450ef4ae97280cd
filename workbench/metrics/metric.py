"""Metric: what all metrics have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from workbench.errors import InvalidType


class Metric(ABC):
    """Counts over batches. `Model` calls `update(*compute(prediction, *labels))` after every batch.

    A subclass defines `reset`, `update`, `accumulate` and `name`; `compute` may do a part of the work on tensors.

    Example:
        >>> class Rows(wb.metric.Metric):
        ...     def __init__(self):
        ...         self.reset()
        ...     def reset(self):
        ...         self.rows = 0
        ...     def update(self, prediction, label):
        ...         self.rows += len(prediction)
        ...     def accumulate(self):
        ...         return self.rows
        ...     def name(self):
        ...         return "rows"
        >>> rows = Rows()
        >>> rows.update(*rows.compute(wb.zeros([3, 2]), wb.zeros([3])))
        >>> rows.accumulate()
        3
    """

    @abstractmethod
    def reset(self) -> None:
        """Forget what was counted."""

    @abstractmethod
    def update(self, *args: Any) -> Any:
        """Count a batch."""

    @abstractmethod
    def accumulate(self) -> Any:
        """The metric of all that was counted."""

    @abstractmethod
    def name(self) -> Any:
        """Its name, or a list of names if it gives several numbers."""

    def compute(self, *args: Any) -> Any:
        """What `update` is given, made of predictions and labels; they themselves unless a subclass says otherwise."""
        return args


def as_array(what: str, value: Any) -> np.ndarray:
    """A tensor or array as a NumPy array.

    Raises:
        InvalidType: it is neither.
    """
    if not hasattr(value, "__array__"):
        raise InvalidType(f"{what} must be a numpy ndarray or Tensor, got {type(value).__name__}")
    return np.asarray(value)
