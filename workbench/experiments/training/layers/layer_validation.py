"""Validation of a layer: its values over validation data, as `eval()` has it compute them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from workbench.dygraph.autograd.modes import no_grad
from workbench.experiments.training.layers.layer_steps import OnLayer, RecordedSizes, named, tensors_of
from workbench.experiments.training.loops.batches import feed_of
from workbench.experiments.training.loops.validation import PREFIX, Validation
from workbench.layers.evaluating import evaluating


class LayerValidation(Validation):
    """Evaluates a layer between its steps, recorded if these are; nothing of it changes but what `eval()` changes.

    Args:
        data: see `Validation`. steps: of the training.

    Raises:
        InvalidType: `data` cannot be gone through again.
    """

    def __init__(self, data: Iterable[Any], steps: OnLayer) -> None:
        super().__init__(data, steps.fields, {PREFIX + label: name for label, name in steps.labels.items()})
        self._steps = steps

        def values(*fields: Any) -> dict[str, Any]:
            return steps.values(fields)

        named(values, f"{steps.program.name} on validation data", steps.fields)
        self._values: Callable[..., dict[str, Any]] = values if steps.executor is None else RecordedSizes(values)

    def _means(self, feed: Mapping[str, Any]) -> np.ndarray:
        with evaluating(self._steps.layer), no_grad():
            results = self._values(*tensors_of(feed_of(feed, self._names), self._names))
        return np.array([float(np.mean(results[label].numpy())) for label in self._steps.labels])
